"""What is allocated in pieces of a page or more was leased: while a token is drawn, when all is there."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgedec.core.when_full import SPECKV
from edgedec.decode import engine
from edgedec.memory.ledger import Ledger
from edgedec.memory.sizes import PAGE
from edgedec.runtime.budget import within
from edgedec.runtime.drafting import Drafting, speculation_for
from edgedec.runtime.loaded_model import load_model
from edgedec.sampling import SamplingParams, draw, drawing_bytes
from edgedec.session.conversations import Answer, Conversations
from edgedec.session.reply import Settings
from tests.fixtures.tiny_models import session_of, tiny_bundle

PLENTY = 1 << 40
TEXT = "Once upon a time, once upon a time, once upon"


class Watch:
    """Notes, before every draw, arrays of a page or more and the leases that could be theirs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ledger = Ledger()
        self.seen: list[tuple[int, int]] = []
        monkeypatch.setattr(engine, "draw", self._draw)

    def _draw(self, *args: object) -> int:
        arrays = tracemalloc.take_snapshot().filter_traces(
            [tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)]  # type: ignore[attr-defined]
        )
        held = self.ledger.by_name()
        large = sum(trace.size for trace in arrays.traces if trace.size >= PAGE)
        self.seen.append((large, held.get("rows", 0) + held.get("slack", 0)))
        return draw(*args)  # type: ignore[arg-type]


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
        SamplingParams(),
        SamplingParams(temperature=1.0, top_p=1.0, min_p=0.0, top_k=0, seed=5),
        SamplingParams(temperature=0.8, seed=3),
    ],
    ids=["greedy", "uncut", "cut"],
)
def test_every_array_of_a_page_is_leased(params: SamplingParams, watch: Watch, tmp_path: Path) -> None:
    model = load_model(tiny_bundle(tmp_path), threads=1, context=256)
    budget = within(PLENTY, model, Drafting(), elastic=False, drawing=drawing_bytes(params))
    watch.ledger = budget.ledger
    tracemalloc.start()
    try:
        speculation = speculation_for(model, Drafting(), tmp_path, clock=ticking(), notice=print)
        session = session_of(model, Settings(params, max_tokens=30), speculation=speculation)
        "".join(session.complete(TEXT))
    finally:
        tracemalloc.stop()
    assert len(watch.seen) >= 10
    assert max(large for large, _ in watch.seen) >= PAGE
    assert [(large, leased) for large, leased in watch.seen if large > leased] == []
    most = budget.ledger.most()
    assert ("rows" in most) == bool(drawing_bytes(params))
    assert most["tables"] <= budget.plan.parts["tables"]


def test_a_model_that_drafts_keeps_to_its_share(tmp_path: Path) -> None:
    target, drafter = (load_model(tiny_bundle(tmp_path), threads=1, context=256) for _ in range(2))
    drafting = Drafting("auto,other")
    budget = within(PLENTY, target, drafting, elastic=False, drawing=0, drafter=drafter)
    speculation = speculation_for(
        target, drafting, tmp_path, clock=ticking(), notice=print, open_draft=lambda name: drafter
    )
    session = session_of(target, Settings(max_tokens=60), speculation=speculation)
    "".join(session.complete(TEXT))
    most, parts = budget.ledger.most(), budget.plan.parts
    assert 0.9 * parts["drafter"] < most["drafter"] <= parts["drafter"]
    assert most["slack"] <= parts["slack"]


@pytest.mark.parametrize("context", [40, 120, 200], ids=str)
def test_what_chooses_in_a_full_cache_keeps_to_its_share(context: int, tmp_path: Path) -> None:
    model = load_model(tiny_bundle(tmp_path), threads=1, context=context)
    budget = within(PLENTY, model, Drafting("off"), elastic=False, drawing=0, when_full=SPECKV)
    session = session_of(model, Settings(max_tokens=300), when_full=SPECKV)
    "".join(session.complete(TEXT * 12))
    assert session.policy is not None
    assert session.policy.tokens >= context // 2
    most, parts = budget.ledger.most(), budget.plan.parts
    assert 0.5 * parts["attention"] < most["attention"] <= parts["attention"]


def test_conversations_keep_to_their_shares_and_give_all_back(tmp_path: Path) -> None:
    model = load_model(tiny_bundle(tmp_path), threads=1, context=128)
    params = SamplingParams(temperature=1.0, top_p=1.0, min_p=0.0, seed=5)
    drafting = Drafting()
    budget = within(PLENTY, model, drafting, elastic=False, drawing=drawing_bytes(params), conversations=3)

    def answers() -> list[Answer]:
        with Conversations(
            model, 3, Settings(params, max_tokens=20), drafting=drafting, costs=tmp_path,
            choice=budget.plan.choice,
        ) as several:  # fmt: skip
            return list(several.answers([TEXT] * 5, raw=True))

    for _ in range(2):  # the first three are still to be collected when the next want memory
        assert [answer.error for answer in answers()] == [None] * 5
    most = budget.ledger.most()
    assert most.keys() == budget.plan.parts.keys()
    assert all(nbytes <= budget.plan.parts[name] for name, nbytes in most.items())
    assert most["kv_cache"] > budget.plan.parts["kv_cache"] * 0.9
    gc.collect()
    assert budget.ledger.by_name().keys() <= {"process", "weights", "scratch", "slack"}
