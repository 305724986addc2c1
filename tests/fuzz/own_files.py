"""Indexes of own files under a hash that is right: cut, and with any numbers in them."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from edgedec.draft.own_files import SEPARATOR, OwnFiles, order_of
from edgedec.drafters.own_files import FILE, MAGIC, mapped
from tests.fuzz.mutate import mutate_bytes
from tests.fuzz.target import Files

_VOCAB = 50


def seeds(folder: Path) -> list[tuple[Files, Files]]:
    tokens = np.array([*(token % 7 for token in range(60)), SEPARATOR], np.int32)
    return [({FILE: MAGIC + tokens.tobytes() + order_of(tokens).tobytes()}, {})]


def mutate(files: Files, rng: random.Random) -> None:
    files[FILE] = mutate_bytes(files[FILE], rng)


def read(folder: Path) -> None:
    """It is refused, or drafts tokens that exist."""
    drafter = OwnFiles(*mapped(folder), _VOCAB)
    drafter.begin([], 0)
    for token in (1, 2, 3, 1, 2, -1, 1 << 30, 6, 0):
        drafter.commit([token])
        assert all(0 <= token < _VOCAB for token in drafter.propose(64).tokens)
