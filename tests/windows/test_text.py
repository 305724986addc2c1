"""Tokenizers, templates, forms, sampler and control for Windows, in Wine: this machine's answers."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.native import probe
from tests.control.parts import played
from tests.kernels.arm import ArmFunction
from tests.kernels.float_rows import pointer
from tests.native import forms, test_forms, test_text, test_text_arm
from tests.sampling import test_arm as sampling
from tests.windows import cross
from tests.windows.wine import WineLibrary

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.skipif(cross.missing(wine=True) is not None, reason=str(cross.missing(wine=True))),
]


@pytest.fixture(params=test_text.SIDES)
def both(request: pytest.FixtureRequest, tmp_path: Path, wine: WineLibrary) -> Iterator[test_text.Both]:
    yield from test_text_arm.both_on(request.param, tmp_path, wine)


def test_ids_streams_and_chats(both: test_text.Both) -> None:
    test_text_arm.test_ids_and_streams_are_those_of_this_machine(both)
    test_text_arm.test_chats_have_the_ids_of_python(both)


def test_stop_strings_and_thinking(wine: WineLibrary) -> None:
    test_text_arm.test_stop_strings_and_thinking(wine)


def test_chat_templates(wine: WineLibrary) -> None:
    test_text_arm.test_chat_templates_write_the_text_of_jinja(wine)


@pytest.mark.parametrize("seed", range(8))
def test_masks_of_forms(monkeypatch: pytest.MonkeyPatch, wine: WineLibrary, seed: int) -> None:
    """Schemas are drawn at random; llguidance on this machine says which tokens may come next."""
    asked = 0

    def grammar(**request: Any) -> Any:
        nonlocal asked
        asked += 1
        call, text = ArmFunction(wine, "edgedec_probe_grammar", ctypes.c_char_p), json.dumps(request).encode()
        return json.loads(call(text, len(text), ctypes.byref(ctypes.c_size_t())))

    monkeypatch.setattr(probe, "grammar", grammar)
    assert forms.probe.grammar is grammar
    test_forms.test_masks_and_certain_tokens_are_those_of_python(seed)
    assert asked > 5


def test_draws(wine: WineLibrary) -> None:
    core = sampling.ArmCore(wine)
    sampling.test_random_draws_are_those_of_this_machine(core)
    sampling.test_exp_and_log_and_noise_have_the_bits_of_the_oracle(core)


@pytest.mark.parametrize("seed", range(4))
def test_plans_of_drafts(wine: WineLibrary, seed: int) -> None:
    """Costs are levels by the C library's exp and log, whose last bits may differ; choices may not."""
    expected = np.frombuffer(played(seed, 200))
    found = np.zeros(len(expected))
    given = ctypes.c_int64(seed), ctypes.c_int64(200), pointer(found), ctypes.c_size_t(len(found))
    assert wine.edgedec_probe_speculation(*given) == len(found)
    assert np.allclose(found, expected, rtol=1e-12, atol=0)
    assert np.array_equal(found[found % 1 == 0], expected[found % 1 == 0])
