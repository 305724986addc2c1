"""Drafts of tiny models without some of their layers; exits are left out where they cannot pay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.runner import Runner
from edgedec.backends.fake import MarkovForward
from edgedec.core.errors import UsageError
from edgedec.core_lib.binding import INT, REAL, Functions
from edgedec.draft.exit import ExitDrafter, LayerSubset, promising
from edgedec.draft.trimmed import TrimmedHead
from edgedec.drafters.exit import _named, skips_of
from edgedec.loaded_model import load_model
from edgedec.sampling import DrawParams
from tests.fixtures.tiny_models import prepared_run, tiny_bundle

KINDS = [
    DrawParams(),
    DrawParams(temperature=0.8, top_p=0.95, seed=3),
    DrawParams(temperature=0.7, repetition_penalty=1.2, seed=4),
]
PROMPT = [5, 6, 7, 8, 9, 10, 11]


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("skips"), request.param)


def runner_of(bundle: Path, draft: str) -> Runner:
    config = RunConfig(draft=draft, threads=1, context=128)
    return Runner(prepared_run(bundle, config))


def reply(bundle: Path, draft: str, params: DrawParams) -> list[int]:
    steps = runner_of(bundle, draft).engine.generate(PROMPT, params, max_tokens=24, stop_ids=())
    return [step.token for step in steps]


@pytest.fixture(autouse=True)
def unsure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random models are never sure of anything."""
    monkeypatch.setattr("edgedec.core_lib.drafters.DOUBTS", (100.0, 0.0))


@pytest.mark.parametrize("params", KINDS, ids=["greedy", "sampled", "penalty"])
def test_replies_with_skipped_layers_are_those_of_plain_decoding(bundle: Path, params: DrawParams) -> None:
    inner = load_model(bundle, threads=1, drafting=True).backend.caps.exits[:-1]
    pairs = [(a, b) for a in inner for b in inner if b > a]
    expected = reply(bundle, "off", params)
    for a, b in pairs[:2] + pairs[-1:]:
        assert reply(bundle, f"skip-{a}-{b}", params) == expected


def test_speed_of_a_chain_by_its_agreement_and_step() -> None:
    speed = Functions("edgedec_promise_", speed=(REAL, INT, INT, INT, REAL)).speed

    def speed_of(layers: int, step: float) -> float:
        """Of layers of ten, which are supposed to be right as often."""
        return float(speed(layers, 10, 0, step))

    assert speed_of(0, 0.1) < 1.0
    assert speed_of(10, 1.0) == pytest.approx(1.0)
    assert speed_of(9, 0.1) > speed_of(7, 0.1) > speed_of(7, 0.4)
    assert speed_of(10, 0.125) == pytest.approx(9 / 2)
    assert speed_of(9, 0.1) < speed(10, 10, 1, 0.1) < speed_of(10, 0.1)


def test_only_ways_that_can_pay_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """By bytes: of a model whose head has two thirds of its weights, and of one with a small head."""

    def names(layers: int, head: float, *, kept: float | None) -> list[str]:
        forward = MarkovForward(vocab_size=24)
        forward.caps = replace(forward.caps, exits=(layers // 4, layers // 2, layers - 2, layers))
        monkeypatch.setattr("edgedec.draft.exit.read_bytes", lambda _: ((1 - head) / layers, head))
        trimmed = None if kept is None else TrimmedHead(np.arange(int(kept * 24), dtype=np.int64), 0.5)
        return [way.name for way in promising(forward, trimmed)]

    assert names(18, 0.63, kept=0.125) == ["exit-18"]
    assert names(30, 0.1, kept=0.5) == []
    assert names(30, 0.1, kept=None) == []


def test_a_way_past_layers_keeps_the_first_and_the_last_ones() -> None:
    caps = replace(MarkovForward().caps, exits=(1, 3, 4))
    assert skips_of(caps) == [LayerSubset(1, 3)]
    assert skips_of(caps)[0].count(4) == 2
    assert skips_of(caps)[0].name == "skip-1-3"
    drafter = ExitDrafter(MarkovForward(), 1, resume=2)
    assert drafter.name == "skip-1-2"


def test_unknown_names_of_ways_are_refused(bundle: Path) -> None:
    with pytest.raises(UsageError, match="no drafter skip-9-3"):
        runner_of(bundle, "skip-9-3")
    with pytest.raises(UsageError, match="no drafter exit-999"):
        runner_of(bundle, "exit-999")


def test_a_span_of_layers_has_a_name() -> None:
    caps = replace(MarkovForward().caps, exits=(1, 3, 4, 6, 8))
    assert _named("skip-3-6", "tiny", caps) == LayerSubset(3, 6)
    for wrong in ("skip-1", "skip-3-1", "skip-1-8", "skip-1-5", "skip-0-3", "skip-1-3-4-6"):
        with pytest.raises(UsageError, match=f"no drafter {wrong}"):
            _named(wrong, "tiny", caps)


def test_a_model_of_two_layers_can_leave_none_out() -> None:
    caps = replace(MarkovForward().caps, exits=(1, 2))
    with pytest.raises(UsageError, match="no drafter skip-1-2") as caught:
        _named("skip-1-2", "tiny", caps)
    assert caught.value.hint == "it has too few layers to leave some out"
