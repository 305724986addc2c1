"""What is allocated in pieces of a page or more was leased: while a token is drawn, when all is there."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.core.cache_config import SPECKV
from edgedec.core.ledger import Ledger
from edgedec.core_lib.engine import CoreEngine, Verified
from edgedec.core_lib.needs import drawing_bytes
from edgedec.sampling import DrawParams
from edgedec.session.chat import Chat
from edgedec.session.conversations import Conversations
from edgedec.session.reply import Settings
from tests.fixtures.tiny_models import prepared_run, run_tiny

PLENTY = 1 << 40
PAGE = 4096
TEXT = "Once upon a time, once upon a time, once upon"


class Watch:
    """Notes, before every draw, arrays of a page or more and the leases that could be theirs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ledger = Ledger()
        self.seen: list[tuple[int, int]] = []
        for name in ("verify", "finish"):
            monkeypatch.setattr(CoreEngine, name, self._before(getattr(CoreEngine, name)))

    def _before(self, draw: Callable[..., Verified]) -> Callable[..., Verified]:
        return lambda *arguments: (self._look(), draw(*arguments))[1]

    def _look(self) -> None:
        arrays = tracemalloc.take_snapshot().filter_traces(
            [tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)]  # type: ignore[attr-defined]
        )
        held = self.ledger.by_name()
        large = sum(trace.size for trace in arrays.traces if trace.size >= PAGE)
        self.seen.append((large, held.get("rows", 0) + held.get("slack", 0)))


def ticking() -> Callable[[], float]:
    """A clock by which all passes take as long: drafts pay."""
    ticks = itertools.count(1)
    return lambda: next(ticks) / 1000.0


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


@pytest.mark.parametrize(
    "params",
    [
        DrawParams(),
        DrawParams(temperature=1.0, top_p=1.0, min_p=0.0, top_k=0, seed=5),
        DrawParams(temperature=0.8, seed=3),
    ],
    ids=["greedy", "uncut", "cut"],
)
def test_every_array_of_a_page_is_leased(
    params: DrawParams, watch: Watch, bundle: Path, tmp_path: Path
) -> None:
    config = RunConfig(threads=1, context=256, memory=PLENTY, sampling=params)
    prepared = prepared_run(bundle, config, RunContext(tmp_path, clock=ticking()))
    tracemalloc.start()
    try:
        runner = Runner(prepared)
        assert runner.budget is not None
        budget = runner.budget
        watch.ledger = budget.ledger
        Chat(runner.engine, runner.model.codec, Settings(params, max_tokens=30)).complete(TEXT).read()
    finally:
        tracemalloc.stop()
    assert len(watch.seen) >= 10
    assert max(large for large, _ in watch.seen) >= PAGE
    assert [(large, leased) for large, leased in watch.seen if large > leased] == []
    most = budget.ledger.most()
    assert ("rows" in most) == bool(drawing_bytes(params))
    assert most["tables"] <= budget.plan.parts["tables"]


def test_a_draft_model_keeps_to_its_share(bundle: Path) -> None:
    config = RunConfig(threads=1, draft="auto,other", context=256, memory=PLENTY)
    runner = Runner(prepared_run(bundle, config, RunContext(clock=ticking()), other=bundle))
    Chat(runner.engine, runner.model.codec, Settings(max_tokens=60)).complete(TEXT).read()
    assert runner.budget is not None
    most, parts = runner.budget.ledger.most(), runner.budget.plan.parts
    assert 0.9 * parts["drafter"] < most["drafter"] <= parts["drafter"]
    assert most["slack"] <= parts["slack"]


@pytest.mark.parametrize("context", [40, 120, 200], ids=str)
def test_an_eviction_by_attention_keeps_to_its_share(context: int, bundle: Path) -> None:
    model = run_tiny(bundle, context=context, memory=PLENTY, when_full=SPECKV)
    chat = Chat(model.runner.engine, model.codec, Settings(max_tokens=300, when_full=SPECKV))
    chat.complete(TEXT * 12).read()
    assert chat.policy is not None
    assert chat.policy.tokens >= context // 2
    budget = model.runner.budget
    assert budget is not None
    most, parts = budget.ledger.most(), budget.plan.parts
    assert 0.5 * parts["attention"] < most["attention"] <= parts["attention"]


def test_conversations_keep_to_their_shares_and_give_all_back(bundle: Path, tmp_path: Path) -> None:
    params = DrawParams(temperature=1.0, top_p=1.0, min_p=0.0, seed=5)
    config = RunConfig(threads=1, context=128, memory=PLENTY, conversations=3, sampling=params)
    batch = Runner(prepared_run(bundle, config, RunContext(tmp_path)))
    assert batch.budget is not None
    for _ in range(2):  # the first three are still to be collected when the next want memory
        several = Conversations(batch, Settings(params, max_tokens=20))
        answers = list(several.answers([TEXT] * 5, raw=True))
        assert [answer.error for answer in answers] == [None] * 5
    most, parts = batch.budget.ledger.most(), batch.budget.plan.parts
    assert most.keys() == parts.keys()
    assert all(nbytes <= parts[name] for name, nbytes in most.items())
    assert most["kv_cache"] > parts["kv_cache"] * 0.9
    ledger = batch.budget.ledger
    batch.close()
    del batch, several, answers
    gc.collect()
    assert ledger.by_name().keys() <= {"process", "weights", "scratch", "slack"}
