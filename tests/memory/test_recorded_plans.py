"""Plans of many models, budgets and settings are those that were recorded: every number and every word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path

from edgedec.core.cache_kinds import Keys, States
from edgedec.core.errors import MemoryBudgetError
from edgedec.core.experts import Experts
from edgedec.core.model_spec import ModelSpec
from edgedec.drafters.model import draft_memory
from edgedec.memory.footprint import (
    DrafterMemory,
    ExpertMemory,
    MemoryChoice,
    MemoryFacts,
    ModelMemory,
    footprint,
)
from edgedec.memory.plan import least, milestones, peak, planned, with_drawing

RECORDED = Path(__file__).with_name("recorded_plans.txt")
MB = 1_000_000
SMALL = ModelSpec("small", "llama", 49152, 30, 9, 3, 64, 576, 8192, ffn_size=1536)
LARGE = ModelSpec("large", "qwen2", 151936, 28, 12, 2, 128, 1536, 32768, ffn_size=8960)
SPECS = (
    SMALL,
    ModelSpec(
        "rings", "gemma3", 262144, 18, 4, 1, 256, 640, 32768, ffn_size=2048, n_window_layers=15, window=512
    ),
    replace(LARGE, name="hybrid", caches=(Keys("kv_cache", 6, 2, 256), States("delta", 18, 6176, 3, 262144))),
    replace(LARGE, name="conv", caches=(Keys("kv_cache", 6, 8, 64), States("conv", 10, 4608, 2))),
    replace(LARGE, name="shared", caches=(Keys("kv_cache", 3, 1, 512), Keys("kv_window", 12, 1, 256, 512))),
    replace(LARGE, name="experts", experts=Experts(24, 60, 4, 1408, 4 * MB, 5760 * MB, 5632)),
)
"""Of every kind of cache, and with experts."""


def rest(choice: MemoryChoice, sequences: int) -> int:
    """The memory of a drafter that depends on every choice."""
    return sequences * (9_999 * choice.drafted + 700 * choice.context) + choice.tables + (choice.kv == "int8")


def settings(spec: ModelSpec) -> Iterator[tuple[str, MemoryFacts, MemoryChoice]]:
    model = ModelMemory(spec, 98_765_432, 2)
    plain = MemoryFacts(model, process=85 * MB)
    wanted = MemoryChoice(4096, tables=3 * MB)
    pair = replace(plain, drafters=(draft_memory(ModelMemory(SMALL, 70 * MB, 2), 12_345),), drawing=120)
    drafts = replace(wanted, model_drafts=True)
    yield "plain", plain, wanted
    yield "int8", replace(plain, drawing=20), replace(wanted, kv="int8", context=700)
    yield "fp16 alone", replace(plain, kinds=("fp16",)), wanted
    yield "four", replace(plain, sequences=4, drawing=8), wanted
    yield "drafter", pair, drafts
    yield "drafter of four", replace(pair, sequences=4), drafts
    yield "unnamed", replace(pair, unnamed=True), drafts
    yield (
        "two drafters",
        replace(pair, drafters=(*pair.drafters, DrafterMemory("head", "", MB, rest))),
        drafts,
    )
    yield "exits", replace(plain, target=replace(model, hidden=3 * spec.hidden_size, exits=4)), wanted
    yield "small", replace(plain, small=ModelMemory(LARGE, 70 * MB, 2), drawing=120), wanted
    yield "evicting", replace(plain, speckv=True, grammar=5 * MB), wanted
    streamed = replace(model, experts=ExpertMemory(4 * MB, 16, 200))
    yield "streamed", replace(plain, target=streamed), replace(wanted, experts=16)
    yield "no drafts", plain, replace(wanted, drafted=0, tables=0)


def said(name: str, facts: MemoryFacts, wanted: MemoryChoice) -> Iterator[str]:
    """A line for each fact of the plans of a setting."""
    low, high = least(facts, wanted), peak(facts, wanted)
    yield f"{name}: {low} {footprint(facts, wanted)} {milestones(facts, wanted)[1]}"
    if name.startswith("small"):
        yield from (f"{budget} {line}" for budget, line in milestones(facts, wanted))
    for at, budget in enumerate((low - 1, low, (3 * low + high) // 4, high - 1, high + 10 * MB)):
        try:
            plan = planned(facts, wanted, budget, elastic=at % 2 == 1)
            names = " ".join(line.split(":")[0] for line in plan.given_up)
            yield f"{astuple(plan.choice)} {plan.peak} {names}"
            later = with_drawing(plan, facts, 30, (at // 4) * 40 * MB)
            yield f"{later.choice.drafted} {later.peak} {' '.join(later.given_up[len(plan.given_up) :])}"
        except MemoryBudgetError as error:
            yield f"{error if at in (0, 4) else ''} {error.remedies[0].value}"


def test_plans_are_those_that_were_recorded() -> None:
    lines = [
        line
        for spec in SPECS
        for name, facts, wanted in settings(spec)
        for line in said(f"{spec.name}, {name}", facts, wanted)
    ]
    assert lines == RECORDED.read_text(encoding="utf-8").splitlines()
