"""Which choices fit a budget: give up what costs least, in a stated order, and say so.

The order: prompts are read in shorter passes (slower, nothing else changes), fewer tokens are drafted for a
pass, drafters learn less, no model drafts, nothing drafts, the cache is kept in int8 (the only step that can
change a reply), the context is shorter. A step that would free nothing is not taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from edgedec.core.errors import MemoryBudgetError
from edgedec.core.units import size
from edgedec.memory.footprint import Choice, Known, footprint

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
    """What fits: the choices, their bytes by what holds them, and what was given up, a line each."""

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

    ``elastic``: nobody named a context; then it is as long as what is left allows, up to the one wanted.
    Raises MemoryBudgetError with the smallest budget that would fit.
    """
    choice = replace(wanted, context=min(USUAL_CONTEXT, wanted.context)) if elastic else wanted
    given_up: dict[str, str] = {}
    for lesser, what in _lesser(known, choice):
        if peak(known, choice) <= budget:
            break
        choice = lesser
        given_up[what.partition(":")[0]] = what
    if not choice.drafted:
        given_up = {name: what for name, what in given_up.items() if name not in ("tree", "tables")}
    if peak(known, choice) > budget:
        choice = _shorter(known, choice, budget)
        given_up["context"] = f"context: {choice.context} tokens"
    elif elastic:
        choice = replace(choice, context=_longest(known, choice, budget, wanted.context))
        if choice.context < wanted.context:
            given_up["context"] = f"context: {choice.context} tokens of {wanted.context}"
    return Plan(budget, choice, footprint(known, choice), tuple(given_up.values()))


def peak(known: Known, choice: Choice) -> int:
    """Bytes that the session has resident at once, at most."""
    return sum(footprint(known, choice).values())


def least(known: Known, wanted: Choice, context: int = LEAST_CONTEXT) -> int:
    """The smallest budget that fits ``context`` tokens."""
    choice = replace(wanted, context=min(context, wanted.context))
    return min(peak(known, choice) for choice in (choice, *(lesser for lesser, _ in _lesser(known, choice))))


def milestones(known: Known, wanted: Choice) -> list[tuple[int, str]]:
    """Budgets from the smallest up, each with what is given up below it."""
    choice = replace(wanted, context=min(USUAL_CONTEXT, wanted.context))
    found = []
    if choice != wanted:
        found.append((peak(known, wanted), f"context: {choice.context} tokens of {wanted.context}"))
    for lesser, what in _lesser(known, choice):
        found.append((peak(known, choice), what))
        choice = lesser
    found.append((peak(known, choice), f"context: fewer than {choice.context} tokens"))
    return found[::-1]


def _lesser(known: Known, choice: Choice) -> Iterator[tuple[Choice, str]]:
    """Choices that take less and less, and what was given up for each."""
    for step in _STEPS:
        while (found := step(choice)) is not None:
            lesser = found[0]
            if lesser.kv not in known.kinds or peak(known, lesser) >= peak(known, choice):
                break
            choice = lesser
            yield found


_Step = Callable[[Choice], tuple[Choice, str] | None]


def _shorter_passes(choice: Choice) -> tuple[Choice, str] | None:
    tokens = max(choice.prompt_pass // 2, _SHORTEST_PASS)
    if tokens >= choice.prompt_pass:
        return None
    return replace(choice, prompt_pass=tokens), f"prompts: read {tokens} tokens at a time"


def _smaller_tree(choice: Choice) -> tuple[Choice, str] | None:
    if choice.drafted <= 1:
        return None
    tokens = choice.drafted // 2
    return replace(choice, drafted=tokens), f"tree: at most {tokens} drafted tokens in a pass"


def _smaller_tables(choice: Choice) -> tuple[Choice, str] | None:
    nbytes = max(choice.tables // 2, _LEAST_TABLES)
    if nbytes >= choice.tables:
        return None
    return replace(choice, tables=nbytes), f"tables: drafters learn at most {size(nbytes)}"


def _no_drafter(choice: Choice) -> tuple[Choice, str] | None:
    return (replace(choice, model_drafts=False), "drafter: no model drafts") if choice.model_drafts else None


def _no_drafts(choice: Choice) -> tuple[Choice, str] | None:
    return (replace(choice, drafted=0, tables=0), "drafts: none") if choice.drafted else None


def _smaller_cache(choice: Choice) -> tuple[Choice, str] | None:
    if choice.kv != "fp16":
        return None
    return replace(choice, kv="int8"), "cache: in int8, so replies may differ from those of fp16"


_STEPS: tuple[_Step, ...] = (
    _shorter_passes, _smaller_tree, _smaller_tables, _no_drafter, _no_drafts, _smaller_cache,
)  # fmt: skip


def _shorter(known: Known, choice: Choice, budget: int) -> Choice:
    context = _longest(known, choice, budget, choice.context)
    if context < min(LEAST_CONTEXT, choice.context):
        needed = least(known, choice)
        raise MemoryBudgetError(
            f"{known.target.spec.name} does not fit {size(budget)}: it needs {size(needed)} for "
            f"{LEAST_CONTEXT} tokens of context",
            hint=f"use --memory {-(-needed // 1_000_000)}MB or more, or a smaller model",
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
