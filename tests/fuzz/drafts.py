"""What drafters keep from session to session: damaged knowledge under a hash that is right."""

from __future__ import annotations

import random
from pathlib import Path

from edgedec.core.errors import BadFileError
from edgedec.draft import Lookup, Recycling
from edgedec.draft.history import read_history, write_history
from tests.fuzz.mutate import mutate_bytes
from tests.fuzz.target import Files

_VOCAB = 50


def _drafters() -> tuple[Lookup, Recycling]:
    return Lookup(capacity=200), Recycling(memory=1 << 10)


def seeds(folder: Path) -> list[tuple[Files, Files]]:
    out: Files = {}
    for drafter in _drafters():
        drafter.begin([token % 7 for token in range(60)], 0)
        out[drafter.name] = drafter.saved()
    file = folder / "seed.drafts"
    write_history(file, "key", out.items())
    return [(out, {}), ({"file": file.read_bytes()}, {})]


def mutate(files: Files, rng: random.Random) -> None:
    name = rng.choice(sorted(files))
    files[name] = mutate_bytes(files[name], rng)


def read(folder: Path) -> None:
    """Each drafter takes up what it gets, or refuses it and is as before, and drafts tokens that exist."""
    file = folder / "file"
    if not file.exists():
        names = [drafter.name for drafter in _drafters()]
        write_history(file, "key", ((name, (folder / name).read_bytes()) for name in names))
    refused: list[ValueError] = []
    knowledge: dict[str, bytes] = {}
    try:
        knowledge = read_history(file, "key")
    except ValueError as error:
        refused.append(error)
    for drafter in _drafters():
        try:
            drafter.restore(knowledge.get(drafter.name, drafter.saved()), _VOCAB)
        except ValueError as error:
            refused.append(error)
        drafter.begin([1, 2, 3, 1, 2], 0)
        assert all(0 <= token < _VOCAB for token in drafter.propose(15).tokens)
    for error in refused:  # where a session says a line and goes on
        raise BadFileError(f"the drafts' history is not used: {error}") from error
