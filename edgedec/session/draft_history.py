"""Drafters that go on where the last session ended, if the user wants that."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.core.errors import StorageError
from edgedec.core.manifest import WEIGHTS
from edgedec.draft.history import read_history, write_history
from edgedec.speculation import Notice, Speculation

if TYPE_CHECKING:
    from edgedec.session.assemble import LoadedModel


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

    def save() -> None:
        saved = {name: drafter.saved() for name, drafter in speculation.remembering.items()}
        try:
            write_history(file, key, {**knowledge, **saved})  # also of drafters that were not chosen today
        except (StorageError, OSError) as error:
            notice(f"note: what the drafters learned is not kept: {error}")

    return save
