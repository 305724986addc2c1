"""Drafters that go on where the last session ended, if the user wants that."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.core.errors import StorageError
from edgedec.core.manifest import WEIGHTS
from edgedec.decode.speculation import Notice, Speculation
from edgedec.draft.history import read_history, write_history
from edgedec.memory.ledger import SLACK

if TYPE_CHECKING:
    from edgedec.runtime.loaded_model import LoadedModel

_COPIES = 2
"""The library's, and Python's."""


def with_history(
    model: LoadedModel, speculation: Speculation, folder: Path, notice: Notice
) -> Callable[[], None]:
    """Give the drafters what they knew of this model when it was last saved; returns what saves it again.

    A file that is damaged, or not ours, costs a line to ``notice`` and is replaced at the end.
    """
    vocab_size = model.forward.spec.vocab_size
    key = hashlib.sha256(f"{model.manifest.files[WEIGHTS].sha256} {vocab_size}".encode()).hexdigest()
    file = folder / f"{key[:24]}.drafts"
    knowledge: dict[str, bytes] = {}
    try:
        knowledge = read_history(file, key)
        for name, drafter in speculation.remembering.items():
            if name in knowledge:
                drafter.restore(knowledge.pop(name), vocab_size)
    except (ValueError, OSError) as error:
        notice(f"note: the drafts' history {file} is not used: {error}")

    ledger = model.forward.ledger

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

    ledger.hold(save, SLACK, sum(map(len, knowledge.values())))
    return save
