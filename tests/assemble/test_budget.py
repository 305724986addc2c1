"""A budget of memory, applied to models that run: what fits is used, and the reply stays the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.api import Model
from edgedec.assemble import budget as budgets
from edgedec.assemble.budget import Budget
from edgedec.assemble.config import RunConfig
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import MemoryBudgetError, UnsupportedError
from edgedec.core.ledger import Ledger
from edgedec.core.units import size_up
from edgedec.decode.speculation import Speculation
from edgedec.draft import Lookup, Recycling
from edgedec.drafters.interface import BuildContext
from edgedec.drafters.model import model_memory
from edgedec.drafters.registry import Drafting
from edgedec.loaded_model import load_model
from edgedec.memory.footprint import MemoryChoice, footprint
from edgedec.memory.plan import least, milestones, peak
from edgedec.sampling import DrawParams
from edgedec.session.chat import Chat
from edgedec.session.reply import Settings
from edgedec.text.template import ChatTemplate
from edgedec.text.template_process import PROCESS_BYTES
from tests.fixtures.ready import Ready, chat_of, prepared_of
from tests.fixtures.tiny_models import prepared_run, run_tiny
from tests.session.parrot import load_parrot

RESIDENT = 100_000_000
PLENTY = 1 << 40
SAMPLED = DrawParams(temperature=0.8, seed=3)


@pytest.fixture(autouse=True)
def _the_same_process_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "rss_bytes", lambda: RESIDENT)
    monkeypatch.setattr(budgets, "mapped_rss_bytes", lambda name: 0)


def fitted(bundle: Path, memory: int, *, elastic: bool = True, **settings: object) -> Ready:
    context = None if elastic else 256
    sampled = {"memory": memory, "context": context, "draft": "auto", "sampling": SAMPLED}
    return run_tiny(bundle, **{**sampled, **settings})


def reply(model: Ready) -> tuple[str, tuple[str, ...]]:
    """Its reply to a question, and its drafters, all of whose drafts are fed."""
    drafting, opened = model.runner.drafting, model.runner.prepared.opened
    share = drafting.share([opened[spec] for spec in drafting.drafters])
    setting = BuildContext(model.loaded, None, Ledger(), share, lambda model: CacheConfig())
    drafters = [one for spec in drafting.drafters for one in opened[spec].build(setting)]
    speculation = Speculation(drafters, limit=drafting.tokens) if drafters else None
    chat = chat_of(model, Settings(SAMPLED, max_tokens=40), speculation=speculation)
    return chat.complete("Once upon a time, once upon a").read(), tuple(one.name for one in drafters)


def free_of(bundle: Path, **settings: object) -> Budget:
    """A budget that nothing is given up for."""
    budget = fitted(bundle, PLENTY, **settings).runner.budget
    assert budget is not None
    return budget


def test_the_reply_is_the_same_within_every_budget_that_keeps_the_cache_in_fp16(bundle: Path) -> None:
    model, free = fitted(bundle, PLENTY), free_of(bundle)
    assert free.plan.given_up == ()
    expected, drafters = reply(model)
    assert len(expected) > 40
    assert drafters == ("lookup", "recycling")
    seen = set()
    for memory, _ in milestones(free.facts, free.wanted):
        model = fitted(bundle, memory)
        budget = model.runner.budget
        assert budget is not None
        choice = budget.plan.choice
        assert model.forward.capacity == choice.context
        assert model.forward.caps.max_pass == max(choice.prompt_pass, 1 + choice.drafted)
        text, drafters = reply(model)
        most = budget.ledger.most()
        assert most.keys() >= {"process", "weights", "kv_cache", "scratch"}
        assert all(nbytes <= budget.plan.parts[name] for name, nbytes in most.items())
        assert bool(drafters) == bool(choice.drafted)
        seen.add((choice.kv, bool(drafters)))
        if choice.kv == "fp16":
            assert text == expected
    assert seen >= {("fp16", True), ("fp16", False)}


def test_tables_of_drafters_keep_to_their_bytes(bundle: Path) -> None:
    free, kinds = free_of(bundle), (Lookup, Recycling)
    most = sum(kind.useful_bytes for kind in kinds)
    for tables in (1 << 18, 1 << 20, most):
        drafters = [kind.within(int(tables / most * kind.useful_bytes)) for kind in kinds]
        text = list(range(1000)) * 200
        for drafter in drafters:
            drafter.begin(text, 0)
        held = sum(drafter.nbytes() for drafter in drafters)
        assert held <= tables + (64 << 10), (tables, held)
    assert free.plan.choice.tables == most


def test_a_budget_too_small_says_which_would_do(bundle: Path) -> None:
    free = free_of(bundle)
    smallest = least(free.facts, free.wanted)
    with pytest.raises(MemoryBudgetError, match=f"at least {size_up(smallest + 400_000)},"):
        fitted(bundle, smallest - 1, elastic=False)
    budget = fitted(bundle, smallest, elastic=False).runner.budget
    assert budget is not None
    assert budget.plan.peak <= smallest


def test_drafts_that_are_off_take_nothing(bundle: Path) -> None:
    model = run_tiny(bundle, memory=PLENTY)
    budget = model.runner.budget
    assert budget is not None
    assert budget.plan.choice == MemoryChoice(256, "fp16", 128, 0, 0, False)
    assert model.runner.drafting == Drafting(tokens=1, tables=0)


def test_a_rule_may_choose_the_budget(bundle: Path) -> None:
    model = run_tiny(bundle, memory=lambda facts, wanted: peak(facts, wanted) + 5)
    assert model.runner.budget is not None
    assert model.runner.budget.plan.budget == model.runner.budget.plan.peak + 5


def test_greedy_replies_reserve_no_rows_of_logits(bundle: Path) -> None:
    greedy = run_tiny(bundle, memory=PLENTY, draft="auto").runner
    assert greedy.budget is not None
    assert "rows" not in greedy.budget.plan.parts
    chat = chat_of(Ready.of(greedy), Settings(SAMPLED, max_tokens=4))
    with pytest.raises(MemoryBudgetError, match="rows"):
        chat.complete("Once upon a time").read()


def test_a_chat_that_becomes_sampled_drafts_less_where_memory_is_short(bundle: Path) -> None:
    greedy = run_tiny(bundle, memory=PLENTY, draft="auto").runner
    assert greedy.budget is not None
    drawn = replace(greedy.budget.facts, drawing=120)
    rows = footprint(drawn, replace(greedy.budget.choice, drafted=3))["rows"]
    roomy = greedy.budget.plan.peak + rows
    tight = run_tiny(bundle, memory=roomy, draft="auto").runner
    tight.make_room_for(SAMPLED)
    assert tight.budget is not None
    assert tight.engine.speculation is not None
    assert 0 < tight.engine.speculation.limit == tight.budget.choice.drafted <= 15
    expected, _ = reply(run_tiny(bundle, draft="off"))
    chat = Chat(tight.engine, tight.model.codec, Settings(SAMPLED, max_tokens=40))
    assert chat.complete("Once upon a time, once upon a").read() == expected
    most = tight.budget.ledger.most()
    assert all(nbytes <= tight.budget.plan.parts[name] for name, nbytes in most.items())
    full = run_tiny(bundle, memory=peak, draft="off").runner
    with pytest.raises(MemoryBudgetError, match="these sampling parameters"):
        full.make_room_for(SAMPLED)


def test_log_probabilities_of_a_sampled_reply_get_rows_of_logits(bundle: Path) -> None:
    """Drawn from a short list, such a reply needs whole rows for nothing but its log-probabilities."""
    params = DrawParams(temperature=0.7, top_k=4, seed=1)
    config = RunConfig(threads=1, context=256, memory=PLENTY, sampling=params)
    model = Model(prepared_run(bundle, config))
    assert model.budget is not None
    assert "rows" not in model.budget.plan.parts
    reply = model.complete("Once upon a time", max_tokens=3, logprobs=2)
    reply.read()
    assert [len(one.top) for one in reply.logprobs] == [2] * 3
    assert model.budget.ledger.most()["rows"] <= model.budget.plan.parts["rows"]


def test_the_process_that_renders_an_unknown_template_is_in_the_plan(bundle: Path) -> None:
    known = load_model(bundle, threads=1)
    template = ChatTemplate("unknown", bos="", eos="")
    unknown = replace(known, codec=replace(known.codec, template=template))
    config = RunConfig(threads=1, memory=PLENTY)
    held = RESIDENT + known.tokenizer.mapped_bytes
    assert prepared_of(known, config).plan().plan.parts["process"] == held
    assert prepared_of(unknown, config).plan().plan.parts["process"] == held + PROCESS_BYTES


def test_the_tokenizer_tables_of_all_models_are_in_the_plan(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each counts once, whole: the target's in the process, a draft model's with its weights."""
    config = RunConfig(threads=1, draft="other", memory=PLENTY)
    resident = {"weights.bin": 5_000_000, "tokenizer.table": 4096}
    monkeypatch.setattr(budgets, "mapped_rss_bytes", resident.__getitem__)
    run = prepared_run(bundle, config, other=bundle)
    table = run.target.tokenizer.mapped_bytes
    assert table > 0
    budget = run.plan()
    assert budget.plan.parts["process"] == RESIDENT - 5_004_096 + table
    (drafter,) = budget.facts.drafters
    assert drafter.weights == model_memory(run.target).weights + table


def test_memory_that_is_not_ours_cannot_be_promised(tmp_path: Path) -> None:
    parrot = load_parrot(tmp_path, "Hello.")
    with pytest.raises(UnsupportedError, match="whose memory EdgeDec cannot bound"):
        parrot.prepared(RunConfig(memory=PLENTY))
