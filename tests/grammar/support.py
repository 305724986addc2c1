"""A tiny vocabulary under a grammar, and replies at random that keep to it."""

from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from edgedec.backends.fake import MarkovForward
from edgedec.core.ledger import Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.decode.constrained import go_on
from edgedec.grammar.matcher import GrammarConstraint, constraint_for
from edgedec.grammar.spec import GrammarSpec
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures.tiny_tokenizers import bpe_metadata, built

END = 2
"""The end token."""


@cache
def tokenizer() -> Tokenizer:
    """Bytes, a few words and control tokens."""
    with tempfile.TemporaryDirectory() as folder:
        return built(Path(folder), bpe_metadata())


def spec() -> ModelSpec:
    """A model of that vocabulary, with three ids more that stand for nothing."""
    return replace(MarkovForward(vocab_size=tokenizer().size + 3).spec, eos_ids=(END, 0))


def constraint(form: GrammarSpec, tokens: list[int] | tuple[int, ...] = ()) -> GrammarConstraint:
    return constraint_for(form, tokenizer(), spec(), Ledger(), tokens)


def permitted_ids(one: GrammarConstraint) -> list[int]:
    bits = np.unpackbits(one.bits(), bitorder="little")
    return np.flatnonzero(bits).tolist()


def random_reply(form: GrammarSpec, rng: random.Random, most: int = 400) -> list[int] | None:
    """Tokens of a reply, drawn from the masks and hurrying to an end; None for one longer than ``most``."""
    one, ids = constraint(form), []
    closing = [token for token in range(tokenizer().size) if tokenizer().token_bytes(token) in _CLOSING]
    while not one.finished:
        if len(ids) == most:
            return None
        may = permitted_ids(one)
        if END in may and rng.random() < 0.7:
            return ids
        ends = [token for token in closing if token in may]
        token = rng.choice(ends if ends and rng.random() < 0.5 else may)
        if token in (END, 0):
            return ids
        go_on(one, token)
        ids.append(token)
    return ids


_CLOSING = (b'"', b"}", b"]", b",", b":")
