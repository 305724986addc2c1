"""Random models that draft with their own layers: tokens and cache are those of plain decoding."""

from __future__ import annotations

import io
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.backends.onnx.forward import OnnxForward
from edgedec.bundle.manifest import Manifest
from edgedec.control import CostCurve
from edgedec.core.rows import Rows
from edgedec.decode.engine import Engine
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter, Lookup, Recycling
from edgedec.draft.exit import ExitDrafter
from edgedec.draft.trimmed import TrimmedHead
from edgedec.drafters.trim import SAVED, save_trim
from edgedec.sampling import DrawParams
from tests.fixtures.opened import onnx_forward
from tests.fixtures.tiny_models import prepared_run, tiny_bundle

CAPACITY = 96
KINDS = [
    DrawParams(),
    DrawParams(temperature=0.8, top_k=10, top_p=0.9, seed=3),
    DrawParams(temperature=1.2, repetition_penalty=1.3, seed=4),
]


@pytest.fixture(scope="module", params=["llama", "gemma3", "gpt-oss"])
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("exits"), request.param)


@pytest.fixture(autouse=True)
def unsure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random models are never sure of anything."""
    monkeypatch.setattr("edgedec.core_lib.drafters.DOUBTS", (100.0, 0.0))


def replies(engine: Engine, turns: list[list[int]], params: DrawParams) -> list[int]:
    """Each turn goes on from a part of the last reply, and a third one goes back to the beginning."""
    found: list[int] = []
    text: list[int] = []
    for at, turn in enumerate(turns):
        text = [*(text[:3] if at == 2 else text), *turn]
        steps = engine.generate(text, params, max_tokens=14, stop_ids={2})
        read = [step.token for step, _ in zip(steps, range(14 - at), strict=False)]
        steps.close()
        text += read
        found += read
    return found


def cache(forward: OnnxForward, length: int) -> bytes:
    sink = io.BytesIO()
    forward.write_cache(sink, length)
    return sink.getvalue()


@pytest.mark.parametrize("params", KINDS, ids=["greedy", "sampled", "penalty"])
@pytest.mark.parametrize("exit", ["first", "last", "all", "all and others"])
def test_tokens_and_cache_are_those_of_plain_decoding(bundle: Path, exit: str, params: DrawParams) -> None:
    plain = onnx_forward(bundle, threads=1, capacity=CAPACITY)
    forward = onnx_forward(bundle, threads=1, capacity=CAPACITY, drafting=True)
    vocab, dice = forward.spec.vocab_size, random.Random(exit)
    keep = np.array(sorted(dice.sample(range(vocab), vocab // 3)), np.int64)
    exits = {"first": forward.caps.exits[:1], "last": forward.caps.exits[-1:]}.get(exit, forward.caps.exits)
    turns = [[dice.randrange(3, vocab) for _ in range(dice.randrange(2, 9))] for _ in range(3)]
    for trimmed in (None, TrimmedHead(keep, bound=1.0)):
        drafters: list[Drafter] = [ExitDrafter(forward, one, trimmed) for one in exits]
        drafters += [Lookup(), Recycling(memory=1 << 16)] if exit == "all and others" else []
        costs = CostCurve({1: 0.01, 16: 0.012}) if exit == "all" else None
        engine = Engine(forward, speculation=Speculation(drafters, costs, limit=6))
        expected = Engine(plain)
        assert replies(engine, turns, params) == replies(expected, turns, params)
        tally = engine.speculation.tally  # type: ignore[union-attr]
        assert tally.drafted > 0
        both = min(forward.length, plain.length)  # the last token of a reply is fed if it was drafted
        assert cache(forward, both) == cache(plain, both)


def test_the_exit_after_all_layers_is_always_right(bundle: Path) -> None:
    forward = onnx_forward(bundle, threads=1, capacity=CAPACITY, drafting=True)
    speculation = Speculation([ExitDrafter(forward, forward.caps.exits[-1])], limit=4)
    engine = Engine(forward, speculation=speculation)
    list(engine.generate([5, 6, 7], DrawParams(), max_tokens=40, stop_ids=()))
    assert speculation.tally.acceptance_rate == 1.0


def test_a_model_drafts_with_the_trimmed_head_in_its_home(bundle: Path, tmp_path: Path) -> None:
    kept: list[list[int]] = []
    manifest = Manifest.load(bundle)
    ids = np.arange(0, manifest.spec.vocab_size, 2, dtype=np.int64)
    ids = np.union1d(ids, np.array([*manifest.tokenizer.eos_ids, manifest.tokenizer.bos_id or 0]))
    save_trim(manifest, tmp_path, ids, {SAVED: 0.4})
    clock = iter(range(1 << 30)).__next__
    around = RunContext(tmp_path, lambda line: None, lambda: 0.001 * clock())
    last = f"exit-{manifest.spec.n_layers}"
    config = RunConfig(threads=1, draft=f"exit,{last}", context=CAPACITY)
    runner = Runner(prepared_run(bundle, config, around))
    peek = runner.forward.peek

    def watched(tokens: list[int], **options: object) -> object:
        rows = options["rows"]
        assert isinstance(rows, Rows)
        kept.append(np.array(rows.keep).tolist())
        return peek(tokens, **options)  # type: ignore[arg-type]

    runner.forward.peek = watched  # type: ignore[method-assign, assignment]
    always = replace(runner.prepared.draft(last), tokens=3, always=True)
    engine = runner.engines_for(always, lambda record: None)[0]
    list(engine.generate([5, 6, 7], DrawParams(), max_tokens=40, stop_ids=()))
    assert kept
    assert kept[0] == sorted({*ids.tolist(), 5, 6, 7})
