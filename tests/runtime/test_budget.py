"""A budget of memory, applied to models that run: what fits is used, and the reply stays the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.core.errors import MemoryBudgetError, UnsupportedError
from edgedec.decode.speculation import Speculation
from edgedec.memory.footprint import MemoryChoice
from edgedec.memory.plan import least, milestones
from edgedec.runtime import budget as budgets
from edgedec.runtime.budget import Budget, within
from edgedec.runtime.drafting import DRAFTERS, Drafting
from edgedec.runtime.loaded_model import LoadedModel, load_model
from edgedec.sampling import SamplingParams, drawing_bytes
from edgedec.session.reply import Settings
from edgedec.text.template import ChatTemplate
from edgedec.text.template_process import PROCESS_BYTES
from tests.fixtures.tiny_models import session_of, tiny_bundle
from tests.session.parrot import load_parrot

RESIDENT = 100_000_000
PLENTY = 1 << 40
SAMPLED = SamplingParams(temperature=0.8, seed=3)


@pytest.fixture(autouse=True)
def _the_same_process_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "rss_bytes", lambda: RESIDENT)
    monkeypatch.setattr(budgets, "mapped_rss_bytes", lambda name: 0)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("models"))


def fitted(bundle: Path, memory: int, *, elastic: bool = True) -> tuple[LoadedModel, Budget]:
    model = load_model(bundle, threads=1, context=256)
    return model, within(memory, model, Drafting(), elastic=elastic, drawing=drawing_bytes(SAMPLED))


def reply(model: LoadedModel, budget: Budget) -> tuple[str, list[str]]:
    """What it says to a question, and who drafts."""
    drafting = budget.drafting(Drafting())
    share = (drafting.tables or 0) / Drafting().most_tables
    drafters = [DRAFTERS[name].within(int(share * DRAFTERS[name].useful_bytes)) for name in drafting.chosen]
    speculation = Speculation(drafters, limit=drafting.tokens) if drafters else None
    settings = Settings(SAMPLED, max_tokens=40)
    session = session_of(model, settings, speculation=speculation)
    return "".join(session.complete("Once upon a time, once upon a")), [one.name for one in drafters]


def test_the_reply_is_the_same_within_every_budget_that_keeps_the_cache_in_fp16(bundle: Path) -> None:
    model, free = fitted(bundle, PLENTY)
    assert free.plan.given_up == ()
    expected, drafters = reply(model, free)
    assert len(expected) > 40
    assert drafters == ["lookup", "recycling"]
    seen = set()
    for memory, _ in milestones(free.known, free.wanted):
        model, budget = fitted(bundle, memory)
        choice = budget.plan.choice
        assert model.forward.capacity == choice.context
        assert model.forward.caps.max_pass == max(choice.prompt_pass, 1 + choice.drafted)
        text, drafters = reply(model, budget)
        most = budget.ledger.most()
        assert most.keys() >= {"process", "weights", "kv_cache", "scratch"}
        assert all(nbytes <= budget.plan.parts[name] for name, nbytes in most.items())
        assert bool(drafters) == bool(choice.drafted)
        seen.add((choice.kv, bool(drafters)))
        if choice.kv == "fp16":
            assert text == expected
    assert seen >= {("fp16", True), ("fp16", False)}


def test_the_process_that_renders_an_unknown_template_is_in_the_plan(bundle: Path) -> None:
    model, known = fitted(bundle, PLENTY)
    other = replace(
        load_model(bundle, threads=1, context=256), template=ChatTemplate("unknown", bos="", eos="")
    )
    unknown = within(PLENTY, other, Drafting(), elastic=True, drawing=drawing_bytes(SAMPLED))
    assert model.template is not None
    assert known.plan.parts["process"] == RESIDENT
    assert unknown.plan.parts["process"] == RESIDENT + PROCESS_BYTES


def test_tables_of_drafters_keep_to_their_bytes(bundle: Path) -> None:
    _, free = fitted(bundle, PLENTY)
    for tables in (1 << 18, 1 << 20, Drafting().most_tables):
        share = tables / Drafting().most_tables
        drafters = [kind.within(int(share * kind.useful_bytes)) for kind in DRAFTERS.values()]
        text = list(range(1000)) * 200
        for drafter in drafters:
            drafter.begin(text, 0)
        held = sum(drafter.nbytes() for drafter in drafters)
        assert held <= tables + (64 << 10), (tables, held)
    assert free.plan.choice.tables == Drafting().most_tables


def test_a_budget_too_small_says_which_would_do(bundle: Path) -> None:
    _, free = fitted(bundle, PLENTY)
    smallest = least(free.known, free.wanted)
    with pytest.raises(MemoryBudgetError, match=f"at least {-(-smallest // 1_000_000)}MB"):
        fitted(bundle, smallest - 1, elastic=False)
    assert fitted(bundle, smallest, elastic=False)[1].plan.peak <= smallest


def test_a_model_that_drafts_shares_the_budget(bundle: Path) -> None:
    target, drafter = (load_model(bundle, threads=1, context=256) for _ in range(2))
    drafting = Drafting("auto,other")
    free = within(PLENTY, target, drafting, elastic=True, drawing=120, drafter=drafter)
    parts = free.plan.parts
    assert parts["drafter"] > drafter.manifest.files["weights.bin"].bytes
    assert free.drafting(drafting).names == "auto,other"
    needed = {what: memory for memory, what in milestones(free.known, free.wanted)}
    too_little = needed["drafter: no model drafts"] - 1
    poor = within(too_little, target, drafting, elastic=True, drawing=120, drafter=drafter)
    assert "drafter: no model drafts" in poor.plan.given_up
    assert not poor.drafting(drafting).models


def test_drafts_that_are_off_take_nothing(bundle: Path) -> None:
    model = load_model(bundle, threads=1, context=256)
    budget = within(PLENTY, model, Drafting("off"), elastic=False, drawing=0)
    assert budget.plan.choice == MemoryChoice(256, "fp16", 128, 0, 0, False)
    assert budget.drafting(Drafting("off")) == replace(Drafting("off"), tokens=1, tables=0)


def test_memory_that_is_not_ours_cannot_be_promised(tmp_path: Path) -> None:
    parrot = load_parrot(tmp_path, "Hello.")
    with pytest.raises(UnsupportedError, match="whose memory EdgeDec cannot bound"):
        within(PLENTY, parrot, Drafting(), elastic=True, drawing=0)
