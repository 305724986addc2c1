"""Several conversations at once: tokens a second, memory, and whether each says what it says alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgedec.bench.summary import rounded
from edgedec.bench.texts import PROMPTS
from edgedec.bench.worker import Side, Worker
from edgedec.runtime.drafting import OFF

_PROGRAM = Path(__file__).parent / "peers" / "edgedec_conversations_peer.py"

QUESTIONS = (
    *PROMPTS,
    "Write a letter to a landlord about a broken heating, politely but firmly.",
    "List the planets of the solar system with one fact about each.",
    "Explain the difference between a list and a tuple in Python, with an example of each.",
    "A shop sells pens at 3 for 2 euros. What do 27 pens cost? Show every step.",
    "Translate into French: The library opens at nine and closes at six, except on Sundays.",
    "Describe how bread is baked, as a numbered list of steps.",
    "Write a short story that begins with: The last train had already left.",
    "Give five arguments for and five against working from home.",
    "Write a SQL query that finds the ten customers with the highest revenue in 2023.",
    "What happens in the body when we sleep? Answer in a few sentences.",
    "Name ten animals that live in the sea and say what each of them eats.",
    "Correct this text and repeat it: Their going too the libary tomorow, becouse its rainning.",
)
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is the same for all rows: the texts, and ``settings`` of the program that answers them."""

    bundle: Path
    texts: Sequence[str]
    settings: dict[str, Any]

    def worker(self, count: int, draft: str, **changed: Any) -> Worker:
        """A process of its own for ``count`` conversations, whose drafts are made as ``draft`` says."""
        settings = {**self.settings, "count": count, "draft": draft, **changed}
        return Worker(Side("edgedec", _PROGRAM, self.bundle, settings=settings))


@dataclass(frozen=True, slots=True)
class Measured:
    """One number of conversations, one way to draft. ``differ``: replies that are not those made alone.

    ``refused`` says why there is nothing else: the budget is too small.
    """

    at_once: int
    draft: str
    refused: str = ""
    replies: int = 0
    tokens: int = 0
    tokens_per_s: float = 0.0
    """Of all conversations together, their prompts' time included."""
    each_tokens_per_s: float = 0.0
    """Of one conversation while it replies, on average over replies."""
    ratio: float | None = None
    """Of all tokens per second to those of one at a time drafting the same way, unless that was refused."""
    peak_rss_bytes: int = 0
    """Of the process, which did nothing else."""
    differ: int = 0
    memory: dict[str, Any] | None = None
    """The plan for the budget."""

    @property
    def over(self) -> bool:
        """Whether there was a budget, which was not kept."""
        return self.memory is not None and self.peak_rss_bytes > self.memory["budget_bytes"]

    def as_json(self) -> dict[str, object]:
        if self.refused:
            return {"at_once": self.at_once, "draft": self.draft, "refused": self.refused}
        facts = asdict(self)
        del facts["refused"]
        facts |= {"over_budget": self.over} if self.memory else {}
        return {name: rounded(fact) if isinstance(fact, float) else fact for name, fact in facts.items()}


def measure(
    asked: Asked, *, counts: Sequence[int], drafts: Sequence[str], progress: Progress
) -> list[Measured]:
    """Answer the texts with every number of conversations at once and every way to draft.

    One at a time always comes first, for ratios to refer to. Replies are compared with those of plain
    decoding, alone, with a cache of the same kind and size. Raises what ``Worker`` does.
    """
    ordered = sorted({1, *counts})
    total = len(drafts) * len(ordered)
    expected: dict[tuple[int, str], list[list[int]]] = {}
    found: list[Measured] = []
    for turn, draft in enumerate(drafts):
        base = 0.0
        for place, count in enumerate(ordered):
            progress(f"{count} at once, drafts {draft}", turn * len(ordered) + place, total)
            one = _together(asked, count, draft, base, expected)
            base = one.tokens_per_s if count == 1 else base
            found.append(one)
    progress("done", total, total)
    return [one for one in found if one.at_once in counts]


def _together(
    asked: Asked, count: int, draft: str, base: float, expected: dict[tuple[int, str], list[list[int]]]
) -> Measured:
    with asked.worker(count, draft) as worker:
        facts = worker.open()
        if "refused" in facts:
            return Measured(count, draft, facts["refused"])
        took = worker.request("together", texts=asked.texts)
        peak = worker.request("memory")["peak_rss_bytes"]
    cache = (facts["context"], facts["kv"])
    if cache not in expected:
        expected[cache] = _alone(asked, *cache)
    replies, each = took["tokens"], took["each"]
    tokens = sum(map(len, replies))
    rate = tokens / took["seconds"]
    return Measured(
        count,
        draft,
        replies=len(replies),
        tokens=tokens,
        tokens_per_s=rate,
        each_tokens_per_s=sum(each) / len(each),
        ratio=1.0 if count == 1 else rate / base if base else None,
        peak_rss_bytes=peak,
        differ=sum(one != alone for one, alone in zip(replies, expected[cache], strict=True)),
        memory=facts.get("memory"),
    )


def _alone(asked: Asked, context: int, kv: str) -> list[list[int]]:
    """What plain decoding replies to each text."""
    with asked.worker(1, OFF, context=context, kv=kv, memory=None) as worker:
        worker.open()
        found: list[list[int]] = worker.request("alone", texts=asked.texts)["tokens"]
        return found
