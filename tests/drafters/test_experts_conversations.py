"""Conversations at random with models that have experts: drafts, slots and budgets change no token.

Beside a run with all weights in memory and without drafts stand others whose experts come from the disk, with
another number of slots for each turn.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.backends.onnx import expert_store
from edgedec.export import export_gguf
from edgedec.sampling import DrawParams
from edgedec.session.reply import Settings
from tests.drafters.test_random_conversations import chat_with, said
from tests.fixtures.ready import Ready
from tests.fixtures.replies import always
from tests.fixtures.tiny_experts import ExpertShape
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import run_tiny

ARCHITECTURES = {"qwen3moe": 3, "lfm2moe": 4, "granitemoe": 2, "qwen35moe": 4, "gemma4moe": 6, "gpt-oss": 4}
"""Layers of each."""
SAYS = 12
"""Ids that the models say, so that drafts are often right."""
WORDS = ("Hello", "hello world", "the end", "and the hello of the world", "no", "the world " * 9)


class Runs:
    """Runs of one model, by where its experts are, its drafters and its cache."""

    def __init__(self, folder: Path, architecture: str) -> None:
        shape = TinyShape(
            layers=ARCHITECTURES[architecture], context=512, experts=ExpertShape(24, 3, width=32)
        )
        mute = tuple(range(SAYS, 260))
        gguf = write_tiny(folder / "m.gguf", architecture, shape=shape, mute=mute, sharpness=4.0)
        export_gguf(gguf, folder / "bundle")
        self.bundle = folder / "bundle"
        self._made: dict[tuple[bool, str, str], Ready] = {}

    def of(self, draft: str, kv: str, *, on_disk: bool) -> Ready:
        key = on_disk, draft, kv
        if key not in self._made:
            with pytest.MonkeyPatch.context() as patch:
                if on_disk:
                    patch.setattr(expert_store, "available_bytes", lambda: 1)
                self._made[key] = run_tiny(self.bundle, draft=draft, kv=kv, context=512)
            assert (self._made[key].loaded.backend.experts is not None) == on_disk
        return self._made[key]


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp(request.param), request.param)


def conversation(runs: Runs, seed: int) -> int:
    """Compare a chat in memory with one from the disk; return the tokens that both said."""
    draw, tokens = random.Random(seed), 0
    sampled = DrawParams(temperature=1.3, top_p=0.9, seed=draw.randrange(1 << 30))
    params = draw.choice([DrawParams(), sampled, replace(sampled, repetition_penalty=1.2)])
    settings, kv = Settings(params, draw.choice([5, 12, 40])), draw.choice(["fp16", "int8"])
    draft = draw.choice(["lookup", "lookup,recycling"])
    plain, other = runs.of("off", kv, on_disk=False), runs.of(draft, kv, on_disk=draw.random() < 0.8)
    store = other.loaded.backend.experts
    first, second = (chat_with(one.runner, settings, None) for one in (plain, other))
    for _ in range(4):
        if first.last and draw.random() < 0.4:
            assert first.take_back() == second.take_back()
        if store:
            store.limit(draw.choice([1, 13, 20, 40, 1000]))
        text = draw.choice(WORDS)
        expected = said(first, text)
        with always(other.runner.engine):
            assert said(second, text) == expected, (seed, text)
        tokens += len(expected)
    return tokens


@pytest.mark.parametrize("runs", ARCHITECTURES, indirect=True)
def test_no_token_differs(runs: Runs) -> None:
    assert sum(conversation(runs, seed) for seed in range(6)) > 100


@pytest.mark.slow
@pytest.mark.parametrize("runs", ARCHITECTURES, indirect=True)
def test_no_token_differs_in_a_thousand_conversations(runs: Runs) -> None:
    assert sum(conversation(runs, seed) for seed in range(6, 256)) > 10_000
