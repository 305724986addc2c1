"""Plans: they fit, they give up in the stated order and no more than needed, or say what would fit."""

from __future__ import annotations

import re
from dataclasses import astuple, replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedec.core.cache_kinds import Keys, States
from edgedec.core.errors import BackendError, BadFileError, MemoryBudgetError, Remedy
from edgedec.core.model_spec import ModelSpec
from edgedec.core.units import size_up
from edgedec.core_lib import binding
from edgedec.drafters.model import draft_memory
from edgedec.memory import KvType, kv_bytes, kv_row_bytes, ring_slots
from edgedec.memory.footprint import (
    DrafterMemory,
    ExpertMemory,
    MemoryChoice,
    MemoryFacts,
    ModelMemory,
    cache_bytes,
    footprint,
    longest_pass,
)
from edgedec.memory.plan import MemoryPlan, least, milestones, peak, planned, with_drawing
from tests.fixtures.nightly import every

MB = 1_000_000
LEAST_CONTEXT, USUAL_CONTEXT, STARTS_DIFFER = 64, 1024, 400_000
"""As kernels/core/memory/plan.cc has them."""
SMALL = ModelSpec("small", "llama", 49152, 30, 9, 3, 64, 576, 8192, ffn_size=1536)
LARGE = ModelSpec("large", "qwen2", 151936, 28, 12, 2, 128, 1536, 32768, ffn_size=8960)
GEMMA = ModelSpec(
    "gemma", "gemma3", 262144, 18, 4, 1, 256, 640, 32768, ffn_size=2048, n_window_layers=15, window=512
)
ALONE = MemoryFacts(ModelMemory(SMALL, 98 * MB, 2), process=85 * MB)
DRAFT = draft_memory(ModelMemory(SMALL, 98 * MB, 2))
PAIR = MemoryFacts(ModelMemory(LARGE, 1110 * MB, 2), process=150 * MB, drawing=120, drafters=(DRAFT,))
WANTED = MemoryChoice(4096, tables=3 * MB)
BOTH = replace(WANTED, model_drafts=True)

HYBRID = replace(
    LARGE,
    n_layers=24,
    caches=(Keys("kv_cache", 6, 2, 256), States("delta", 18, 6176, 3, 262144)),
)
RECURRENT = replace(PAIR, target=ModelMemory(HYBRID, 500 * MB, 2), drafters=())
FOUR = replace(ALONE, sequences=4)
EIGHT = replace(PAIR, drafters=(), sequences=8)

Case = tuple[MemoryFacts, MemoryChoice]
CASES = st.sampled_from(
    [(ALONE, WANTED), (PAIR, BOTH), (PAIR, WANTED), (FOUR, WANTED), (EIGHT, WANTED), (RECURRENT, WANTED)]
)


@given(CASES, st.integers(0, 500 * MB), st.booleans())
def test_a_plan_fits_or_says_what_would(case: Case, above: int, elastic: bool) -> None:
    known, wanted = case
    smallest = least(known, wanted)
    budget = smallest - 20 * MB + above
    if budget < smallest:
        with pytest.raises(MemoryBudgetError, match=f"at least {size_up(smallest + STARTS_DIFFER)},"):
            planned(known, wanted, budget, elastic=elastic)
        return
    plan = planned(known, wanted, budget, elastic=elastic)
    assert plan.peak == peak(known, plan.choice) <= budget
    assert plan.choice.context <= wanted.context
    assert bool(plan.given_up) == (plan.choice != wanted)


@given(CASES)
def test_the_smallest_budget_fits(case: Case) -> None:
    known, wanted = case
    smallest = least(known, wanted)
    assert planned(known, wanted, smallest, elastic=False).choice.context >= LEAST_CONTEXT
    with pytest.raises(MemoryBudgetError):
        planned(known, wanted, smallest - 1, elastic=False)


@given(CASES, st.integers(0, 400 * MB), st.integers(0, 100 * MB))
def test_more_memory_never_buys_less(case: Case, above: int, more: int) -> None:
    known, wanted = case
    budget = least(known, wanted) + above
    poor = planned(known, wanted, budget, elastic=False).choice
    rich = planned(known, wanted, budget + more, elastic=False).choice
    assert value(rich) >= value(poor)


def value(choice: MemoryChoice) -> tuple[float, ...]:
    """What comes first is given up last."""
    exact = choice.kv == "fp16"
    return (
        choice.context, exact, choice.drafted > 0, choice.model_drafts, choice.tables, choice.drafted,
        choice.prompt_pass,
    )  # fmt: skip


@pytest.mark.parametrize("step", every(2, [MB, MB // 10]))
def test_what_is_given_up_comes_in_the_stated_order(step: int) -> None:
    """From all to nothing in steps: nothing comes too early, and less is given up again only where
    more has been.
    """
    order = ["prompts", "tree", "tables", "drafter", "drafts", "cache", "context"]
    seen: list[list[str]] = []
    budget = peak(PAIR, BOTH) + MB
    while budget >= least(PAIR, BOTH):
        lines = planned(PAIR, BOTH, budget, elastic=False).given_up
        names = [line.split(":")[0] for line in lines]
        if not seen or names != seen[-1]:
            seen.append(names)
        budget -= step
    assert seen[0] == []
    for before, after in pairwise(seen):
        weights = [sum(1 << order.index(name) for name in set(names)) for names in (before, after)]
        assert weights[0] < weights[1], (before, after)
    assert seen[-1][-1] == "context"


def test_what_a_later_step_made_room_for_is_not_given_up() -> None:
    """In int8 the cache is so much smaller that drafts and long passes fit again."""
    needed = peak(ALONE, replace(WANTED, kv="int8"))
    assert needed < peak(ALONE, replace(WANTED, drafted=0, tables=0, prompt_pass=16))
    plan = planned(ALONE, WANTED, needed, elastic=False)
    assert plan.choice == replace(WANTED, kv="int8")
    assert plan.given_up == ("cache: in int8, so replies may differ from those of fp16",)
    poorer = planned(ALONE, WANTED, needed - 1, elastic=False)
    assert poorer.choice.drafted > 0
    assert poorer.choice.prompt_pass < WANTED.prompt_pass


def test_lines_are_in_the_stated_order() -> None:
    order = ["prompts", "tree", "tables", "drafter", "drafts", "cache", "context"]
    seen = [
        [line.split(":")[0] for line in planned(PAIR, BOTH, budget, elastic=False).given_up]
        for budget in range(least(PAIR, BOTH), peak(PAIR, BOTH), MB)
    ]
    for names in seen:
        places = [order.index(name) for name in dict.fromkeys(names)]
        assert places == sorted(places), names


def test_only_what_frees_memory_is_given_up() -> None:
    """Greedy passes over 16 tokens take no more scratch than prompts read 16 at a time: the tree stays."""
    budget = peak(ALONE, replace(WANTED, prompt_pass=16))
    plan = planned(ALONE, WANTED, budget, elastic=False)
    assert plan.choice.drafted == WANTED.drafted
    tight = planned(ALONE, WANTED, budget - 1, elastic=False)
    assert [line.split(":")[0] for line in tight.given_up] == ["prompts", "tables"]
    assert tight.choice.drafted == WANTED.drafted


def test_without_a_wish_the_context_takes_what_is_left() -> None:
    usual = peak(ALONE, replace(WANTED, context=USUAL_CONTEXT))
    plan = planned(ALONE, WANTED, usual + 10 * MB, elastic=True)
    assert USUAL_CONTEXT < plan.choice.context < WANTED.context
    assert plan.choice == replace(WANTED, context=plan.choice.context)
    longer = replace(plan.choice, context=plan.choice.context + 32)
    assert peak(ALONE, longer) > plan.budget
    assert planned(ALONE, WANTED, peak(ALONE, WANTED), elastic=True).given_up == ()


@given(st.integers(1, 5000))
def test_cache_bytes_are_whole_pages_and_enough(context: int) -> None:
    kinds: tuple[KvType, ...] = ("fp16", "int8")
    for kv in kinds:
        count, row = cache_bytes(SMALL, context, kv, 128), kv_row_bytes(SMALL.head_dim, kv)
        runs = 2 * 30 * 3
        assert runs * context * row <= count < runs * (context * row + 4096)
        assert count % (runs * 4096) == 0


@given(st.integers(1, 40_000), st.sampled_from(["fp16", "int8"]), st.integers(1, 512))
def test_layers_with_a_window_take_no_more_than_their_rings(context: int, kv: KvType, longest: int) -> None:
    counted, longer = (cache_bytes(GEMMA, n, kv, longest) for n in (context, context + 32))
    assert counted <= longer  # plans look for the longest context that fits by halving
    whole = cache_bytes(replace(GEMMA, n_window_layers=0, window=0), context, kv, longest)
    ring = ring_slots(GEMMA, context, longest, kv)
    assert kv_bytes(GEMMA, context, kv, ring) <= counted <= whole
    if context > 512 + 512 + 256 + 256:
        assert longer - counted <= 3 * 2 * (32 * kv_row_bytes(256, kv) + 4096)
        assert counted < whole


def test_the_pass_counts_for_rings() -> None:
    known = MemoryFacts(ModelMemory(GEMMA, 247 * MB, 2), process=120 * MB)
    wide, short = (footprint(known, MemoryChoice(32768, prompt_pass=n)) for n in (512, 16))
    assert wide["kv_cache"] - short["kv_cache"] == 2 * 15 * (512 - 16) * 512


def test_a_graph_for_fp16_is_not_given_another_cache() -> None:
    known = replace(ALONE, kinds=("fp16",))
    budget = least(ALONE, WANTED) + 8 * MB
    either, fp16 = (planned(one, WANTED, budget, elastic=False).choice for one in (ALONE, known))
    assert (either.kv, fp16.kv) == ("int8", "fp16")
    assert LEAST_CONTEXT < fp16.context < either.context


def test_every_choice_has_its_price() -> None:
    streamed = replace(PAIR, target=replace(PAIR.target, experts=ExpertMemory(MB, 8, 100)))
    most = replace(BOTH, experts=50)
    parts = footprint(streamed, most)
    assert set(parts) == {
        "process", "weights", "experts", "kv_cache", "scratch", "rows", "tables", "drafter", "slack",
    }  # fmt: skip
    lesser = MemoryChoice(2048, "int8", 64, 7, MB, False, 49)
    for name, value in zip(most.__slots__, astuple(lesser), strict=True):
        assert peak(streamed, replace(most, **{name: value})) < peak(streamed, most), name
    assert parts["rows"] == 151936 * (16 * 4 + 120)
    assert "rows" not in footprint(ALONE, WANTED)


@pytest.mark.parametrize(("budget_mb", "slots"), [(0, 8), (1, 9), (30, 38), (92, 100), (500, 100)])
def test_experts_on_the_disk_get_what_nothing_else_needs(budget_mb: int, slots: int) -> None:
    """As many as fit, at least those with which passes go on, at most all."""
    facts = replace(ALONE, target=replace(ALONE.target, experts=ExpertMemory(MB, 8, 100)))
    wanted = replace(WANTED, experts=8)
    plan = planned(facts, wanted, peak(facts, wanted) + budget_mb * MB, elastic=False)
    assert plan.choice == replace(wanted, experts=slots)
    assert plan.parts["experts"] == slots * MB


def test_drafts_are_not_given_up_for_experts() -> None:
    facts = replace(ALONE, target=replace(ALONE.target, experts=ExpertMemory(MB, 8, 100)))
    wanted = replace(WANTED, experts=8)
    assert planned(facts, wanted, peak(facts, wanted), elastic=False).given_up == ()


@pytest.mark.parametrize("count", [2, 4, 8])
def test_several_conversations_share_weights_and_nothing_else(count: int) -> None:
    choice = MemoryChoice(1024, tables=3 * MB)
    one, several = (footprint(replace(ALONE, sequences=n, drawing=120), choice) for n in (1, count))
    assert {several[part] for part in ("process", "weights")} == {
        one[part] for part in ("process", "weights")
    }
    for part in ("kv_cache", "rows", "tables"):
        assert several[part] == count * one[part]
    assert one["scratch"] < several["scratch"] < count * one["scratch"]
    assert several["slack"] > one["slack"] + (count - 1) * 1_500 * 1024


def test_the_longest_pass_of_several_has_a_prompt_and_the_drafts_of_the_others() -> None:
    choice = MemoryChoice(1024, prompt_pass=128, drafted=15)
    assert [longest_pass(choice, count) for count in (1, 2, 8)] == [128, 144, 240]
    assert longest_pass(MemoryChoice(1024, prompt_pass=16, drafted=0), 8) == 23


@pytest.mark.parametrize("known", [ALONE, FOUR])
def test_a_greedy_run_reserves_no_rows_and_can_grow_them_later(known: MemoryFacts) -> None:
    vocab, count = known.target.spec.vocab_size, known.sequences
    plan = planned(known, WANTED, peak(known, WANTED) + 20 * count * MB, elastic=False)
    assert "rows" not in plan.parts
    assert with_drawing(plan, known, 0) is plan
    sampled = with_drawing(plan, known, 8)
    assert sampled.parts == {**plan.parts, "rows": count * vocab * (4 * 16 + 8)}
    assert sampled.choice == plan.choice
    assert sampled.peak <= sampled.budget


def test_rows_that_do_not_fit_lower_the_draft_and_then_are_refused() -> None:
    vocab = SMALL.vocab_size
    budget = peak(ALONE, WANTED) + vocab * (4 * 6 + 8) + 1000
    plan = planned(ALONE, WANTED, budget, elastic=False)
    sampled = with_drawing(plan, ALONE, 8)
    assert sampled.choice == replace(plan.choice, drafted=5)
    assert sampled.given_up == ("tree: at most 5 drafted tokens in a pass",)
    assert sampled.peak <= budget
    tight = planned(ALONE, WANTED, peak(ALONE, WANTED), elastic=False)
    with pytest.raises(MemoryBudgetError, match="no memory for these sampling parameters") as caught:
        with_drawing(tight, ALONE, 8)
    (remedy,) = caught.value.remedies
    assert remedy == Remedy("memory", tight.budget + vocab * 12)
    allowed = planned(ALONE, WANTED, tight.budget + vocab * 12, elastic=False)
    assert with_drawing(allowed, ALONE, 8).choice.drafted == 0


def test_experts_on_the_disk_make_room_for_rows_before_fewer_tokens_are_drafted() -> None:
    facts = replace(ALONE, target=replace(ALONE.target, experts=ExpertMemory(MB, 8, 100)))
    wanted, rows = replace(WANTED, experts=8), SMALL.vocab_size * (4 * 16 + 8)
    plan = planned(facts, wanted, peak(facts, wanted) + 30 * MB, elastic=False)
    assert plan.choice.experts == 38
    sampled = with_drawing(plan, facts, 8)
    gone = -(-rows // MB)
    assert sampled.choice == replace(plan.choice, experts=38 - gone)
    assert sampled.parts == {**plan.parts, "rows": rows, "experts": (38 - gone) * MB}
    assert sampled.peak <= plan.budget
    few = planned(facts, wanted, peak(facts, wanted) + MB + 1000, elastic=False)
    assert with_drawing(few, facts, 8).choice == replace(wanted, drafted=2, experts=8)
    with pytest.raises(MemoryBudgetError) as caught:
        with_drawing(planned(facts, wanted, peak(facts, wanted) + 1000, elastic=False), facts, 8)
    (remedy,) = caught.value.remedies
    assert remedy == Remedy("memory", peak(facts, wanted) + SMALL.vocab_size * 12)


def test_rows_that_were_planned_are_enough_for_draws_that_take_less() -> None:
    known = replace(ALONE, drawing=120)
    plan = planned(known, WANTED, peak(known, WANTED), elastic=False)
    assert with_drawing(plan, known, 8) is plan


def test_structured_output_is_planned_for_or_refused() -> None:
    plan = planned(ALONE, WANTED, 1 << 40, elastic=False)
    assert "grammar" not in plan.parts
    later = with_drawing(plan, ALONE, 8, grammar=1_000_000)
    assert later.parts["grammar"] == 1_000_000
    known = replace(ALONE, drawing=8, grammar=1_000_000)
    assert planned(known, WANTED, 1 << 40, elastic=False).parts == later.parts
    assert with_drawing(later, known, 8, grammar=1_000_000) is later
    assert with_drawing(later, known, 16).parts["grammar"] == 1_000_000
    tight = planned(ALONE, WANTED, plan.peak, elastic=False)
    with pytest.raises(MemoryBudgetError, match="structured output"):
        with_drawing(tight, ALONE, 0, grammar=1_000_000)


def test_states_take_the_same_for_every_context() -> None:
    for context, sequences in ((100, 1), (4096, 1), (100, 3)):
        parts = footprint(replace(RECURRENT, sequences=sequences), MemoryChoice(context))
        assert parts["state"] == sequences * 4 * 18 * ((32 + 3) * 6176 + 2 * 262144)
        assert parts["kv_cache"] >= sequences * context * 6 * 2 * 2 * 256 * 2
    assert "state" not in footprint(ALONE, WANTED)
    draft = draft_memory(RECURRENT.target)
    assert draft.rest(MemoryChoice(100), 1) > 4 * 18 * 2 * 262144


UNNAMED = replace(PAIR, unnamed=True)


@given(st.integers(0, 500 * MB), st.booleans())
def test_a_drafter_that_nobody_named_takes_nothing_from_the_rest(above: int, elastic: bool) -> None:
    """A budget of 1.3 GB used to leave 1312 tokens of context where 4096 fit without drafts."""
    budget = least(PAIR, BOTH) + above
    with_it = planned(UNNAMED, BOTH, budget, elastic=elastic)
    without = planned(PAIR, WANTED, budget, elastic=elastic).choice
    assert replace(with_it.choice, model_drafts=False) == without
    assert with_it.choice.model_drafts == (peak(PAIR, BOTH) <= budget)
    assert ("drafter: no model drafts" in with_it.given_up) != with_it.choice.model_drafts


def test_a_named_one_comes_before_a_longer_context() -> None:
    budget = peak(PAIR, replace(BOTH, context=2048))
    assert planned(PAIR, BOTH, budget, elastic=True).choice == replace(BOTH, context=2048)
    assert planned(UNNAMED, BOTH, budget, elastic=True).choice.context > 2048


def test_milestones_begin_with_the_drafter_that_nobody_named() -> None:
    stones = milestones(UNNAMED, BOTH)[::-1]
    assert stones[0] == (peak(PAIR, BOTH), "drafter: no model drafts")
    assert stones[1:] == milestones(PAIR, WANTED)[::-1]


@pytest.mark.parametrize("windows", [0, 2**31 - 1])
def test_absurd_sizes_fit_nothing_and_overflow_nothing(windows: int) -> None:
    most = 2**31 - 1
    spec = ModelSpec(
        "absurd", "llama", most, most, most, most, most, most, most, ffn_size=most,
        n_window_layers=windows, window=windows,
    )  # fmt: skip
    facts = MemoryFacts(ModelMemory(spec, 2**62, 1 << 20), process=2**62, drawing=200)
    with pytest.raises(MemoryBudgetError, match=r"absurd does not fit 1\.0 GB: it needs "):
        planned(facts, MemoryChoice(4096, tables=1 << 40), 10**9, elastic=False)


def test_a_budget_may_be_any_number() -> None:
    assert planned(ALONE, WANTED, 10**40, elastic=True) == MemoryPlan(
        10**40, WANTED, footprint(ALONE, WANTED)
    )


def test_what_a_drafter_raises_reaches_its_caller() -> None:
    """Its memory is asked for by the core, through which no exception can pass."""

    def rest(choice: MemoryChoice, sequences: int) -> int:
        raise BadFileError(f"no facts for {choice.context} tokens of {sequences}")

    broken = DrafterMemory("head", "", 0, rest)
    for ask in (peak, least, milestones):
        with pytest.raises(BadFileError, match=r"no facts for \d+ tokens of 1$"):
            ask(replace(ALONE, drafters=(broken,)), BOTH)


def test_a_name_may_hold_anything() -> None:
    """Texts of a bundle are any that JSON can state."""
    odd = replace(PAIR, target=replace(PAIR.target, spec=replace(LARGE, name="\udc80 \0 é")))
    assert footprint(odd, BOTH) == footprint(PAIR, BOTH)
    with pytest.raises(MemoryBudgetError, match=r"does not fit 1\.0 MB"):
        planned(odd, BOTH, MB, elastic=False)


def test_a_kernel_library_without_these_functions_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "_library", object)
    with pytest.raises(BackendError, match="older version"):
        binding.Functions("edgedec_memory_", least=(binding.LONG,)).least()


def test_the_plan_counts_as_many_queries_as_share_a_block_in_a_full_context() -> None:
    kernels = Path(__file__).resolve().parents[2] / "kernels"
    stated = [
        re.search(rf"constexpr \w+ {name} = (\d+);", (kernels / file).read_text(encoding="utf-8"))
        for name, file in (
            ("kBlockQueries", "core/memory/footprint.cc"),
            ("kPlannedQueries", "tree_attention/attend.cc"),
        )
    ]
    planned_for, taken = (found and found[1] for found in stated)
    assert planned_for is not None
    assert planned_for == taken
