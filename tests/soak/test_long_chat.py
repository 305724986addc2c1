"""A long chat stays within its budget, does not grow, and goes on after its process was killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgedec.bench.harness.texts import PROMPTS
from edgedec.core.units import parse_size
from edgedec.models import Store
from tests.fixtures.tiny_models import tiny_bundle
from tests.soak.chat import COMPARED_TURNS, long_chat, replies_after_a_kill, side_of

MB = 1_000_000
TEXTS = ("The cat sat.", "And the dog?")


def test_a_chat_drops_turns_stays_flat_and_survives_a_kill(tmp_path: Path) -> None:
    side = side_of(tiny_bundle(tmp_path), 8, threads=1, context=160, memory=300 * MB)
    found = long_chat(side, TEXTS, 16)
    assert found.facts["capacity"] == 160
    assert sum(turn["dropped"] for turn in found.turns) > 3
    assert found.growth < 2 * MB
    peak = found.turns[-1]["peak_rss_bytes"]
    assert found.most("rss_bytes") <= peak <= found.facts["memory"]["planned_bytes"]
    assert found.most("prompt_tokens") < 160
    expected = [turn["tokens"] for turn in found.turns]
    assert replies_after_a_kill(side, TEXTS, 9) == expected[9 : 9 + COMPARED_TURNS]


@pytest.mark.slow
def test_200_turns_with_a_real_model() -> None:
    bundle = Store().ensure(os.environ.get("EDGEDEC_SOAK_MODEL", "smollm2-135m"))
    memory = parse_size(os.environ.get("EDGEDEC_SOAK_MEMORY", "230MB"))
    turns = int(os.environ.get("EDGEDEC_SOAK_TURNS", "200"))
    side = side_of(bundle, 48, memory=memory)
    found = long_chat(side, PROMPTS, turns)
    assert found.turns[-1]["peak_rss_bytes"] <= memory
    assert found.growth < 4 * MB
    expected, at = [turn["tokens"] for turn in found.turns], turns // 2
    assert replies_after_a_kill(side, PROMPTS, at) == expected[at : at + COMPARED_TURNS]
