"""Which choices fit a budget: give up the cheapest parts, in a stated order, and say so.

The order: prompts are read in shorter passes (slower, nothing else changes), fewer tokens are drafted for a
pass, drafters learn less, no model drafts, nothing drafts, the cache is kept in int8 (the only step that can
change a reply), the context is shorter. A step that would free nothing is not taken; one that turns out not
to be needed, since a later one freed so much, is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from edgedec.core.errors import MemoryBudgetError, Remedy
from edgedec.core.units import size, size_up
from edgedec.memory.footprint import Choice, Known, footprint, rows_bytes

LEAST_CONTEXT = 64
"""Tokens; less is no conversation."""
USUAL_CONTEXT = 1024
"""Tokens that count more than drafts do, when nobody said how many it must be."""
_BLOCK = 32
"""Tokens: contexts that nobody asked for exactly are multiples."""
_SHORTEST_PASS = 16
_LEAST_TABLES = 1 << 18


@dataclass(frozen=True, slots=True)
class Plan:
    """Choices that fit a budget, their bytes by holder, and the parts given up, a line each."""

    budget: int
    choice: Choice
    parts: dict[str, int]
    given_up: tuple[str, ...] = ()

    @property
    def peak(self) -> int:
        """Bytes, at most."""
        return sum(self.parts.values())


def planned(known: Known, wanted: Choice, budget: int, *, elastic: bool) -> Plan:
    """The choices nearest to ``wanted`` that take at most ``budget`` bytes.

    ``elastic``: nobody named a context; then it is as long as the rest of the budget allows, up to the one
    wanted. Raises MemoryBudgetError with the smallest budget that would fit.
    """
    choice = replace(wanted, context=min(USUAL_CONTEXT, wanted.context)) if elastic else wanted
    taken: list[tuple[Choice, Choice]] = []
    for lesser in _lesser(known, choice):
        if peak(known, choice) <= budget:
            break
        taken.append((choice, lesser))
        choice = lesser
    if peak(known, choice) > budget:
        choice = _shorter(known, choice, budget)
    else:
        choice = _taken_back(known, choice, taken, budget)
        if elastic:
            choice = replace(choice, context=_longest(known, choice, budget, wanted.context))
    return Plan(budget, choice, footprint(known, choice), tuple(_given_up(wanted, choice)))


def with_drawing(plan: Plan, known: Known, drawing: int) -> Plan:
    """Return ``plan`` with room for draws that take ``drawing`` bytes per entry of a whole row of logits.

    For a run whose sampling parameters change after the plan was made: everything else is allocated and keeps
    its bytes. Where too few rows fit, fewer tokens are drafted for a pass. ``known``: the facts of the plan.
    Raises MemoryBudgetError, with the budget that would do, when not one row fits.
    """
    if drawing <= known.drawing:
        return plan
    others = plan.peak - plan.parts.get("rows", 0)
    changed = replace(known, drawing=drawing)
    for drafted in range(plan.choice.drafted, -1, -1):
        rows = rows_bytes(changed, drafted)
        if others + rows <= plan.budget:
            choice = replace(plan.choice, drafted=drafted)
            lines = _given_up(plan.choice, choice)
            return Plan(plan.budget, choice, {**plan.parts, "rows": rows}, (*plan.given_up, *lines))
    needed = others + rows_bytes(changed, 0)
    raise MemoryBudgetError(
        f"no memory for these sampling parameters: they take {size(needed - plan.budget)} more than "
        f"{size(plan.budget)}",
        hint=f"allow at least {size_up(needed)}, or decode greedily",
        remedy=Remedy("memory", needed),
    )


def _taken_back(known: Known, choice: Choice, taken: list[tuple[Choice, Choice]], budget: int) -> Choice:
    """``choice`` without those steps (from, to) that ``budget`` can do without, the last ones first."""
    for before, after in reversed(taken):
        changed = [name for name in _FIELDS if getattr(before, name) != getattr(after, name)]
        if any(getattr(choice, name) != getattr(after, name) for name in changed):
            continue  # a later step went on from there, and stays
        more = replace(choice, **{name: getattr(before, name) for name in changed})
        if peak(known, more) <= budget and more.drafted >= more.model_drafts:
            choice = more
    return choice


def _given_up(wanted: Choice, choice: Choice) -> Iterator[str]:
    """A line for everything in which ``choice`` is less than ``wanted``."""
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


def peak(known: Known, choice: Choice) -> int:
    """Bytes that the session has resident at once, at most."""
    return sum(footprint(known, choice).values())


def least(known: Known, wanted: Choice, context: int = LEAST_CONTEXT) -> int:
    """The smallest budget that fits ``context`` tokens."""
    choice = replace(wanted, context=min(context, wanted.context))
    return min(peak(known, choice) for choice in (choice, *_lesser(known, choice)))


def milestones(known: Known, wanted: Choice) -> list[tuple[int, str]]:
    """Budgets from the smallest up, each with the part that is given up below it."""
    choice = replace(wanted, context=min(USUAL_CONTEXT, wanted.context))
    found = []
    if choice != wanted:
        found.append((peak(known, wanted), f"context: {choice.context} tokens of {wanted.context}"))
    for lesser in _lesser(known, choice):
        found.append((peak(known, choice), next(_given_up(choice, lesser))))
        choice = lesser
    found.append((peak(known, choice), f"context: fewer than {choice.context} tokens"))
    return found[::-1]


def _lesser(known: Known, choice: Choice) -> Iterator[Choice]:
    """Choices that take less and less."""
    for step in _STEPS:
        while (lesser := step(choice)) is not None:
            if lesser.kv not in known.kinds or peak(known, lesser) >= peak(known, choice):
                break
            choice = lesser
            yield choice


def _shorter_passes(choice: Choice) -> Choice | None:
    tokens = max(choice.prompt_pass // 2, _SHORTEST_PASS)
    return replace(choice, prompt_pass=tokens) if tokens < choice.prompt_pass else None


def _smaller_tree(choice: Choice) -> Choice | None:
    return replace(choice, drafted=choice.drafted // 2) if choice.drafted > 1 else None


def _smaller_tables(choice: Choice) -> Choice | None:
    nbytes = max(choice.tables // 2, _LEAST_TABLES)
    return replace(choice, tables=nbytes) if nbytes < choice.tables else None


def _no_drafter(choice: Choice) -> Choice | None:
    return replace(choice, model_drafts=False) if choice.model_drafts else None


def _no_drafts(choice: Choice) -> Choice | None:
    return replace(choice, drafted=0, tables=0) if choice.drafted else None


def _smaller_cache(choice: Choice) -> Choice | None:
    return replace(choice, kv="int8") if choice.kv == "fp16" else None


_FIELDS = ("prompt_pass", "drafted", "tables", "model_drafts", "kv")
_STEPS: tuple[Callable[[Choice], Choice | None], ...] = (
    _shorter_passes, _smaller_tree, _smaller_tables, _no_drafter, _no_drafts, _smaller_cache,
)  # fmt: skip


def _shorter(known: Known, choice: Choice, budget: int) -> Choice:
    context = _longest(known, choice, budget, choice.context)
    if context < min(LEAST_CONTEXT, choice.context):
        needed = least(known, choice)
        raise MemoryBudgetError(
            f"{known.target.spec.name} does not fit {size(budget)}: it needs {size(needed)} for "
            f"{LEAST_CONTEXT} tokens of context",
            hint=f"allow at least {size_up(needed)}, or use a smaller model",
            remedy=(Remedy("memory", needed), Remedy("model")),
        )
    return replace(choice, context=context)


def _longest(known: Known, choice: Choice, budget: int, most: int) -> int:
    """The longest context up to ``most`` that fits, 0 if none does; in blocks unless it is ``most``."""
    if peak(known, replace(choice, context=most)) <= budget:
        return most
    low, high = 0, most // _BLOCK + 1
    while high - low > 1:
        middle = (low + high) // 2
        if peak(known, replace(choice, context=middle * _BLOCK)) <= budget:
            low = middle
        else:
            high = middle
    return low * _BLOCK
