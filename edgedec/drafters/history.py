"""The drafters' knowledge on disk, where the user wants it kept between runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.bundle.manifest import WEIGHTS
from edgedec.core.errors import StorageError
from edgedec.core.ledger import SLACK, Ledger
from edgedec.core.progress import Notice
from edgedec.decode.speculation import Speculation
from edgedec.disk.digest import sha256_hex
from edgedec.disk.home import HISTORY_LOCK
from edgedec.disk.locks import Share
from edgedec.draft.history import read_history, write_history
from edgedec.drafters.tables import restore_prepared

if TYPE_CHECKING:
    from edgedec.loaded_model import LoadedModel

_COPIES = 2
"""The library's, and Python's."""


def with_history(
    model: LoadedModel, ledger: Ledger, speculation: Speculation, folder: Path, notice: Notice
) -> Callable[[], None]:
    """Give the drafters their saved knowledge of this model; returns a function that saves it again.

    Those without any get their prepared tables. A damaged or foreign file costs a line to ``notice`` and is
    replaced at the end. Until then the process has a share of the lock beside ``folder``: nobody removes the
    file only to see it written again.
    """
    share = _share(folder)
    vocab_size = model.spec.vocab_size
    key = sha256_hex(f"{model.manifest.files[WEIGHTS].sha256} {vocab_size}".encode())
    file = folder / f"{key[:24]}.drafts"
    knowledge: dict[str, bytes] = {}
    new = speculation.remembering
    try:
        knowledge = read_history(file, key)
        for name in [*new]:
            if name in knowledge:
                new[name].restore(knowledge.pop(name), vocab_size)
                del new[name]
    except (ValueError, OSError) as error:
        notice(f"note: the drafts' history {file} is not used: {error}")
    restore_prepared(model, [*new.values()], folder.parent, ledger, notice)

    def all_known() -> Iterator[tuple[str, bytes]]:
        sizes = speculation.nbytes()
        for name, drafter in speculation.remembering.items():
            with ledger.lease(SLACK, _COPIES * sizes[name]):
                yield name, drafter.saved()
        yield from knowledge.items()  # of drafters that were not chosen today

    def save() -> None:
        try:
            write_history(file, key, all_known())
        except (StorageError, OSError) as error:
            notice(f"note: what the drafters learned is not kept: {error}")
        finally:
            if share:
                share.release()

    ledger.hold(save, SLACK, sum(map(len, knowledge.values())))
    return save


def _share(folder: Path) -> Share | None:
    """Return a share of the history's lock; None in a folder that nobody can write, nor clean."""
    try:
        return Share(folder.parent / HISTORY_LOCK)
    except (StorageError, OSError):
        return None
