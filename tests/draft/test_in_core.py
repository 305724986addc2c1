"""Drafters of the core over models and tokenizers of Python: errors come out, and nothing is held longer."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from edgedec.backends.fake import MarkovForward
from edgedec.core.errors import DeviceLostError
from edgedec.draft import Drafter
from edgedec.draft.bridge import SameVocabulary, TextBridge
from edgedec.draft.exit import ExitDrafter
from edgedec.draft.model import ModelDrafter
from edgedec.draft.trimmed import TrimmedHead

EVEN = np.arange(0, 24, 2)


class Lost(MarkovForward):
    """A model whose device is lost after ``left`` calls."""

    left = 1000

    def extend(self, *given: object, **how: object):  # type: ignore[no-untyped-def, override]
        self._count()
        return super().extend(*given, **how)  # type: ignore[arg-type]

    def peek(self, *given: object, **how: object):  # type: ignore[no-untyped-def, override]
        self._count()
        return super().peek(*given, **how)  # type: ignore[arg-type]

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise DeviceLostError("the device is gone")


class Spelling:
    """A vocabulary of letters that fails at "z"."""

    def token_bytes(self, token: int) -> bytes:
        return bytes([97 + token])

    def id_of(self, piece: bytes) -> int | None:
        return piece[0] - 97

    def encode_inside(self, text: str) -> list[int]:
        if "z" in text:
            raise KeyError(text)
        return [ord(one) - 97 for one in text]


def drafters(forward: MarkovForward) -> list[Drafter]:
    head = TrimmedHead(EVEN, 1.0)
    model = ModelDrafter("small", forward, SameVocabulary(24), head)
    return [model, ExitDrafter(forward, 4, head)]


def test_an_error_of_the_model_comes_out_as_it_is_and_the_drafter_goes_on() -> None:
    for at in range(2):
        forward = Lost()
        drafter = drafters(forward)[at]
        drafter.begin([1, 2, 3], 0)
        forward.extend([1, 2])
        forward.left = 1
        with pytest.raises(DeviceLostError, match="the device is gone"):
            drafter.propose(4)
        forward.left = 1000
        assert len(drafter.propose(4))


def test_an_error_of_a_tokenizer_comes_out_and_the_text_can_begin_again() -> None:
    bridge = TextBridge(Spelling(), Spelling(), {}, draft_size=24)  # type: ignore[arg-type]
    drafter = ModelDrafter("small", MarkovForward(), bridge)
    drafter.begin([0, 25], 0)
    with pytest.raises(KeyError, match="az"):
        drafter.propose(3)
    drafter.begin([0, 1], 1)
    assert bridge.read() == [0, 1]
    assert len(drafter.propose(3))


def test_a_model_is_free_as_soon_as_its_drafter_is() -> None:
    """Its cache may be most of the memory: it waits for no collection."""
    gc.disable()
    try:
        for at in range(2):
            forward = MarkovForward()
            alive, drafter = weakref.ref(forward), drafters(forward)[at]
            drafter.begin([1, 2], 0)
            forward.rewind(0)
            forward.extend([1])
            assert len(drafter.propose(2))
            del forward, drafter
            assert alive() is None
    finally:
        gc.enable()
