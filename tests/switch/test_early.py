"""A model that takes turns with some of its own layers, over one KV cache."""

from __future__ import annotations

import io
import random
import time
from pathlib import Path

import numpy as np
import pytest

from edgedec import RunConfig, UsageError
from edgedec.api import Bundles, Model, open
from edgedec.backends.onnx.forward import OnnxForward
from edgedec.control.switching import EntropySwitching, RandomSwitching, SwitchRule
from edgedec.core.exits import Bypass
from edgedec.core.rows import Rows
from edgedec.decode.early import EarlyWay
from edgedec.decode.engine import Engine, PassRecord
from edgedec.decode.speculation import Speculation
from edgedec.draft import Lookup, Recycling
from edgedec.draft.exit import ExitDrafter
from edgedec.models import Store
from edgedec.sampling import SamplingParams
from edgedec.switch.engine import SwitchedEngine
from edgedec.switch.traces import Reader, traced_reply
from edgedec.switch.writers import HomeWriter
from tests.fixtures.opened import onnx_forward
from tests.fixtures.tiny_models import tiny_bundle
from tests.switch.pairs import LARGE_ALONE, SMALL_ALONE

CAPACITY = 256
GREEDY = SamplingParams()
HOT = SamplingParams(temperature=0.9, top_k=20, seed=5)
OFTEN = SwitchRule(7.5, 7.5, window=1, least_run=3)


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("early"), request.param)


def forward_of(bundle: Path) -> OnnxForward:
    return onnx_forward(bundle, threads=1, capacity=CAPACITY, drafting=True)


def ways(forward: OnnxForward) -> dict[str, EarlyWay]:
    first, *others, last = forward.caps.exits
    bypass = Bypass(others[-1] if others else last)
    return {"exit": EarlyWay(first, None, 10.0), "skip": EarlyWay(first, bypass, 20.0)}


def turns(forward: OnnxForward, way: EarlyWay, seen: list[PassRecord], drafts: bool) -> SwitchedEngine:
    speculation = None
    if drafts:
        drafters = [ExitDrafter(forward, way.exit, bypass=way.bypass), Lookup(), Recycling(memory=1 << 16)]
        speculation = Speculation(drafters, limit=4)
    home = Engine(forward, speculation=speculation, observe=seen.append)
    small, large = HomeWriter("small", home, way=way), HomeWriter("large", home)
    return SwitchedEngine(home, small, large, lambda: EntropySwitching(OFTEN), time.perf_counter)


def cached(forward: OnnxForward, length: int) -> bytes:
    sink = io.BytesIO()
    forward.write_cache(sink, length)
    return sink.getvalue()


@pytest.mark.parametrize("drafts", [False, True], ids=["plain", "drafted"])
@pytest.mark.parametrize("kind", ["exit", "skip"])
def test_after_any_sequence_of_switches_the_next_logits_are_those_of_a_fresh_prefill(
    bundle: Path, kind: str, drafts: bool
) -> None:
    forward, dice = forward_of(bundle), random.Random(f"{kind} {drafts}")
    engine = turns(forward, ways(forward)[kind], [], drafts)
    text: list[int] = []
    for turn in range(4):
        engine.decide = lambda seed=turn: RandomSwitching(0.5, least_run=dice.randrange(1, 9), seed=seed)
        text = [*text[: dice.randrange(len(text) + 1)], *(dice.randrange(3, 200) for _ in range(6))]
        steps = engine.generate(text, (GREEDY, HOT)[turn % 2], max_tokens=40, stop_ids=())
        for _ in range(dice.randrange(20, 40)):
            next(steps)
        steps.close()
        assert engine.record.switches > 0
        text = list(engine.committed)
        home = engine.large.engine
        kept = home.reusable(text)
        fresh = onnx_forward(bundle, threads=1, capacity=CAPACITY)
        fresh.extend(text[:-1], rows=Rows(indices=()))
        assert cached(forward, kept) == cached(fresh, kept)
        forward.rewind(kept)  # a test of its own reads on; the next reply finds the cache shorter
        forward.extend(text[kept:-1], rows=Rows(indices=())) if kept < len(text) - 1 else None
        mine, theirs = (
            one.extend(text[-1:], rows=Rows(last=True, full=True)).logits for one in (forward, fresh)
        )
        assert (mine == theirs).all()
        forward.rewind(kept)


def test_the_large_model_reads_what_the_layers_wrote_in_one_pass_that_goes_on_from_them(bundle: Path) -> None:
    forward, seen = forward_of(bundle), []
    engine = turns(forward, ways(forward)["exit"], seen, drafts=False)
    engine.decide = lambda: EntropySwitching(SwitchRule(0.0, 0.0, least_run=20))
    fed: list[int] = []
    passes, run = forward._passes, forward._passes.run_with_states
    passes.run_with_states = lambda one: fed.append((one.exit, len(one.tokens))) or run(one)  # type: ignore[assignment, func-returns-value]
    list(engine.generate([5, 6, 7], GREEDY, max_tokens=21, stop_ids=()))
    assert [(one.start, one.fed, one.committed) for one in seen[1:]] == [(2, 21, 1)]
    assert fed[-1] == (0, 1), "twenty of the tokens had been through the lower layers"
    assert engine.record.catch_up_tokens == 20
    assert engine.mark().draft_bytes == 200


def test_alone_the_layers_write_what_they_would_write_without_the_others(bundle: Path) -> None:
    forward, plain = forward_of(bundle), onnx_forward(bundle, threads=1, capacity=CAPACITY)
    for way in ways(forward).values():
        seen: list[PassRecord] = []
        engine = turns(forward, way, seen, drafts=True)
        engine.forget()
        engine.decide = lambda: EntropySwitching(SMALL_ALONE)
        found = [step.token for step in engine.generate([5, 6, 7], GREEDY, max_tokens=150, stop_ids=())]
        assert len(seen) == 2, "the prompt, and what is longer than a pass"
        text = [5, 6, 7]
        other = forward_of(bundle)
        while len(text) < 43:
            if len(other.peeked) + other.length < len(text) - 1:
                other.extend(text[:-1], rows=Rows(indices=()))
            head = other.peek(text[-1:], exit=way.exit, rows=Rows(last=True, full=True), bypass=way.bypass)
            text.append(int(np.argmax(head.logits)))
        assert found[:40] == text[3:]
        engine.decide = lambda: EntropySwitching(LARGE_ALONE)
        large = [step.token for step in engine.generate([5, 6, 7], GREEDY, max_tokens=40, stop_ids=())]
        expected = Engine(plain).generate([5, 6, 7], GREEDY, max_tokens=40, stop_ids=())
        assert large == [step.token for step in expected]


def test_a_calibration_reads_along_with_the_layers(bundle: Path) -> None:
    """With all of them they are as sure as the large model, and say the same."""
    forward = forward_of(bundle)
    for exit, agree in ((forward.caps.exits[-1], True), (forward.caps.exits[0], False)):
        engine = turns(forward, EarlyWay(exit, None, 1.0), [], drafts=False)
        engine.forget()
        both = (Reader(one, lambda token: b"%d," % token) for one in (engine.large, engine.small))
        trace = traced_reply(*both, [5, 6, 7], 30)
        assert all(trace.agreed) == agree
        assert (trace.small_bits == pytest.approx(trace.large_bits)) == agree


def opened(bundle: Path, home: Path, notices: list[str] | None = None, **settings: object) -> Model:
    config = RunConfig(**{"threads": 1, "context": 256, "sampling": GREEDY, **settings})  # type: ignore[arg-type]
    said = [] if notices is None else notices
    return open(Bundles(bundle), config, store=Store(home, notice=said.append), notice=said.append)


def test_a_model_is_opened_with_its_own_layers_beside_it(bundle: Path, tmp_path: Path) -> None:
    notices: list[str] = []
    with opened(bundle, tmp_path, notices, switch="exit-1", switch_rule=OFTEN) as model:
        model.engine.decide = lambda: RandomSwitching(0.5, least_run=4, seed=1)
        assert "exit-1" in model.single.engine.speculation.drafters, "it drafts while the large one writes"
        reply = model.complete("hello world, the ending is a", max_tokens=60)
        drafted = reply.read()
        record = model.engine.switched
        assert record.switches > 1
        assert 0.0 < record.share_of_large < 1.0
        assert set(reply.writers) == {"exit-1", model.name}
        assert model.single.measures.as_json(reply.marks, reply.stats)["energy"]["joules"] > 0.0
    assert any("exit-1 writes where it is sure" in line for line in notices)
    with opened(bundle, tmp_path, switch="exit-1", draft="off") as model:
        model.engine.decide = lambda: RandomSwitching(0.5, least_run=4, seed=1)
        assert model.complete("hello world, the ending is a", max_tokens=60).read() == drafted
    with pytest.raises(UsageError, match="no drafter exit-99"):
        opened(bundle, tmp_path, switch="exit-99")


def test_with_its_own_layers_a_model_stays_within_the_memory_plan(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, tmp_path, switch="exit-1", switch_rule=SMALL_ALONE, memory=1_000_000_000) as model:
        model.complete("hello world", max_tokens=150, sampling=HOT).read()
        parts, most = model.budget.plan.parts, model.single.ledger.most()
    assert {name: most[name] for name in most if most[name] > parts.get(name, 0)} == {}
    with opened(bundle, tmp_path, draft="exit-1", memory=1_000_000_000) as model:
        assert parts["hidden"] > model.budget.plan.parts["hidden"] > 0
