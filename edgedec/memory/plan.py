"""The memory plan: choices that fit a budget. It gives up the cheapest parts first, and says so.

The order:

1. prompts are read in shorter passes (slower; nothing else changes),
2. fewer tokens are drafted for a pass,
3. drafters learn less,
4. no model drafts,
5. nothing drafts,
6. the KV cache is kept in int8 (the only step that can change a reply),
7. the context is shorter.

Experts that are read from the disk get what is left. Before all of this come drafters with weights that
nobody named: they need a budget in which nothing is given up. A step that would free nothing is not taken. A
step that a later one made unnecessary is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from edgedec.core.errors import MemoryBudgetError, Remedy
from edgedec.core.units import size, size_up
from edgedec.memory.footprint import MemoryChoice, MemoryFacts, footprint, rows_bytes

LEAST_CONTEXT = 64
"""Tokens; a shorter context is no use for a conversation."""
USUAL_CONTEXT = 1024
"""Tokens that come before drafts, when nobody asked for a context."""
_CONTEXT_BLOCK = 32
"""Contexts that nobody asked for exactly are multiples of so many tokens."""
_SHORTEST_PASS = 16
_LEAST_TABLE_BYTES = 1 << 18


Step = tuple[MemoryChoice, MemoryChoice]
"""A choice and the next lesser one."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Choices that fit a budget."""

    budget: int
    """Bytes that the process may have resident."""
    choice: MemoryChoice
    parts: dict[str, int]
    """Bytes by purpose: the shares of the ledger."""
    given_up: tuple[str, ...] = ()
    """A line for each part that was lowered."""

    @property
    def peak(self) -> int:
        """The most bytes resident at once."""
        return sum(self.parts.values())


def planned(facts: MemoryFacts, wanted: MemoryChoice, budget: int, *, elastic: bool) -> MemoryPlan:
    """Return the choices nearest to ``wanted`` that take at most ``budget`` bytes.

    ``elastic``: nobody named a context, so it is as long as the rest of the budget allows, up to the wanted
    one. Raises MemoryBudgetError with the smallest budget that would fit.
    """
    asked = wanted
    if _too_much_for_unnamed(facts, wanted, budget):
        wanted = replace(wanted, model_drafts=False)
    choice = replace(wanted, context=min(USUAL_CONTEXT, wanted.context)) if elastic else wanted
    taken: list[Step] = []
    for lesser in _lesser(facts, choice):
        if peak(facts, choice) <= budget:
            break
        taken.append((choice, lesser))
        choice = lesser
    if peak(facts, choice) > budget:
        choice = _shorter(facts, choice, budget)
    else:
        choice = _taken_back(facts, choice, taken, budget)
        if elastic:
            choice = replace(choice, context=_longest(facts, choice, budget, wanted.context))
    choice = _with_experts(facts, choice, budget)
    return MemoryPlan(budget, choice, footprint(facts, choice), tuple(_given_up(asked, choice)))


def _with_experts(facts: MemoryFacts, choice: MemoryChoice, budget: int) -> MemoryChoice:
    """Return ``choice`` with as many experts in memory as the rest of the budget holds."""
    if (experts := facts.target.experts) is None:
        return choice
    more = (budget - peak(facts, choice)) // experts.slot_bytes
    return replace(choice, experts=min(choice.experts + more, experts.most))


def _too_much_for_unnamed(facts: MemoryFacts, wanted: MemoryChoice, budget: int) -> bool:
    return facts.unnamed and wanted.model_drafts and peak(facts, wanted) > budget


def with_drawing(plan: MemoryPlan, facts: MemoryFacts, drawing: int, grammar: int = 0) -> MemoryPlan:
    """Return ``plan`` with room for draws that take ``drawing`` bytes per entry of a whole row of logits.

    ``grammar``: bytes that grammars take.
    For a run whose sampling parameters change after the plan was made: everything else is allocated and keeps
    its bytes. Where too few rows fit, fewer tokens are drafted for a pass. ``facts``: the facts of the plan.
    Raises MemoryBudgetError, with the budget that would do, when not one row fits.
    """
    if drawing <= facts.drawing and grammar <= facts.grammar:
        return plan
    drawing, grammar = max(drawing, facts.drawing), max(grammar, facts.grammar)
    fixed = {name: nbytes for name, nbytes in plan.parts.items() if name not in ("rows", "grammar")}
    fixed |= {"grammar": grammar} if grammar else {}
    others = sum(fixed.values())
    changed = replace(facts, drawing=drawing, grammar=grammar)
    for drafted in range(plan.choice.drafted, -1, -1):
        rows = rows_bytes(changed, drafted)
        if others + rows <= plan.budget:
            choice = replace(plan.choice, drafted=drafted)
            lines = _given_up(plan.choice, choice)
            return MemoryPlan(plan.budget, choice, {**fixed, "rows": rows}, (*plan.given_up, *lines))
    needed = others + rows_bytes(changed, 0)
    asked, instead = (
        ("structured output: it takes", "plan for it when the model is opened")
        if grammar
        else ("these sampling parameters: they take", "decode greedily")
    )
    raise MemoryBudgetError(
        f"no memory for {asked} {size(needed - plan.budget)} more than {size(plan.budget)}",
        hint=f"allow at least {size_up(needed)}, or {instead}",
        remedy=Remedy("memory", needed),
    )


def _taken_back(facts: MemoryFacts, choice: MemoryChoice, taken: list[Step], budget: int) -> MemoryChoice:
    """Return ``choice`` without the steps that ``budget`` does not need, undoing the last ones first."""
    for before, after in reversed(taken):
        changed = [name for name in _FIELDS if getattr(before, name) != getattr(after, name)]
        if any(getattr(choice, name) != getattr(after, name) for name in changed):
            continue  # a later step went on from there, and stays
        more = replace(choice, **{name: getattr(before, name) for name in changed})
        if peak(facts, more) <= budget and more.drafted >= more.model_drafts:
            choice = more
    return choice


def _given_up(wanted: MemoryChoice, choice: MemoryChoice) -> Iterator[str]:
    """Yield a line for each setting that is lower in ``choice`` than in ``wanted``."""
    if choice.prompt_pass < wanted.prompt_pass:
        yield f"prompts: read {choice.prompt_pass} tokens at a time"
    if 0 < choice.drafted < wanted.drafted:
        yield f"tree: at most {choice.drafted} drafted tokens in a pass"
    if 0 < choice.tables < wanted.tables:
        yield f"tables: drafters learn at most {size(choice.tables)}"
    if choice.model_drafts < wanted.model_drafts:
        yield "drafter: no model drafts"
    if wanted.drafted and not choice.drafted:
        yield "drafts: none"
    if choice.kv != wanted.kv:
        yield "cache: in int8, so replies may differ from those of fp16"
    if choice.context < wanted.context:
        yield f"context: {choice.context} tokens of {wanted.context}"


def peak(facts: MemoryFacts, choice: MemoryChoice) -> int:
    """The most bytes that the process has resident at once."""
    return sum(footprint(facts, choice).values())


def least(facts: MemoryFacts, wanted: MemoryChoice, context: int = LEAST_CONTEXT) -> int:
    """Return the smallest budget that fits ``context`` tokens."""
    choice = replace(wanted, context=min(context, wanted.context))
    return min(peak(facts, choice) for choice in (choice, *_lesser(facts, choice)))


def milestones(facts: MemoryFacts, wanted: MemoryChoice) -> list[tuple[int, str]]:
    """Return budgets from the smallest up, each with the part that is given up below it."""
    found = list[tuple[int, str]]()
    if facts.unnamed and wanted.model_drafts:
        lesser = replace(wanted, model_drafts=False)
        found.append((peak(facts, wanted), next(_given_up(wanted, lesser))))
        wanted = lesser
    choice = replace(wanted, context=min(USUAL_CONTEXT, wanted.context))
    if choice != wanted:
        found.append((peak(facts, wanted), f"context: {choice.context} tokens of {wanted.context}"))
    for lesser in _lesser(facts, choice):
        found.append((peak(facts, choice), next(_given_up(choice, lesser))))
        choice = lesser
    found.append((peak(facts, choice), f"context: fewer than {choice.context} tokens"))
    return found[::-1]


def _lesser(facts: MemoryFacts, choice: MemoryChoice) -> Iterator[MemoryChoice]:
    """Yield choices that take less and less memory."""
    for step in _STEPS:
        while (lesser := step(choice)) is not None:
            if lesser.kv not in facts.kinds or peak(facts, lesser) >= peak(facts, choice):
                break
            choice = lesser
            yield choice


def _shorter_passes(choice: MemoryChoice) -> MemoryChoice | None:
    tokens = max(choice.prompt_pass // 2, _SHORTEST_PASS)
    return replace(choice, prompt_pass=tokens) if tokens < choice.prompt_pass else None


def _smaller_tree(choice: MemoryChoice) -> MemoryChoice | None:
    return replace(choice, drafted=choice.drafted // 2) if choice.drafted > 1 else None


def _smaller_tables(choice: MemoryChoice) -> MemoryChoice | None:
    nbytes = max(choice.tables // 2, _LEAST_TABLE_BYTES)
    return replace(choice, tables=nbytes) if nbytes < choice.tables else None


def _no_drafter(choice: MemoryChoice) -> MemoryChoice | None:
    return replace(choice, model_drafts=False) if choice.model_drafts else None


def _no_drafts(choice: MemoryChoice) -> MemoryChoice | None:
    return replace(choice, drafted=0, tables=0) if choice.drafted else None


def _smaller_cache(choice: MemoryChoice) -> MemoryChoice | None:
    return replace(choice, kv="int8") if choice.kv == "fp16" else None


_FIELDS = ("prompt_pass", "drafted", "tables", "model_drafts", "kv")
_STEPS: tuple[Callable[[MemoryChoice], MemoryChoice | None], ...] = (
    _shorter_passes, _smaller_tree, _smaller_tables, _no_drafter, _no_drafts, _smaller_cache,
)  # fmt: skip


STARTS_DIFFER = 400_000
"""Bytes by which a process that starts again may hold more. A budget that is named has room for them."""


def _shorter(facts: MemoryFacts, choice: MemoryChoice, budget: int) -> MemoryChoice:
    context = _longest(facts, choice, budget, choice.context)
    if context < min(LEAST_CONTEXT, choice.context):
        needed = least(facts, choice)
        raise MemoryBudgetError(
            f"{facts.target.spec.name} does not fit {size(budget)}: it needs {size(needed)} for "
            f"{LEAST_CONTEXT} tokens of context",
            hint=f"allow at least {size_up(needed + STARTS_DIFFER)}, or use a smaller model",
            remedy=(Remedy("memory", needed + STARTS_DIFFER), Remedy("model")),
        )
    return replace(choice, context=context)


def _longest(facts: MemoryFacts, choice: MemoryChoice, budget: int, most: int) -> int:
    """Return the longest context that fits: ``most``, or the most blocks below it (0 if none)."""
    if peak(facts, replace(choice, context=most)) <= budget:
        return most
    low, high = 0, most // _CONTEXT_BLOCK + 1
    while high - low > 1:
        middle = (low + high) // 2
        if peak(facts, replace(choice, context=middle * _CONTEXT_BLOCK)) <= budget:
            low = middle
        else:
            high = middle
    return low * _CONTEXT_BLOCK
