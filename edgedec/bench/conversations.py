"""Several conversations at once: tokens a second, memory, and whether each says what it says alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.bench.summary import rounded
from edgedec.bench.texts import PROMPTS
from edgedec.session.chat import Session
from edgedec.session.conversations import Conversations
from edgedec.session.speculate import Drafting
from edgedec.telemetry.process import forget_peak_rss, peak_rss_bytes

if TYPE_CHECKING:
    from edgedec.session.assemble import LoadedModel
    from edgedec.session.reply import Reply, Settings

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
class Measured:
    """One number of conversations, one way to draft. ``differ``: replies that are not those made alone."""

    at_once: int
    draft: str
    replies: int
    tokens: int
    seconds: float
    each_tokens_per_s: float
    """Of one conversation while it replies, on average over replies."""
    ratio: float
    """Of all tokens per second to those of one at a time that drafts the same way."""
    peak_rss_bytes: int
    """Of the process during this part; during all so far, where the system cannot start over."""
    differ: int

    @property
    def tokens_per_s(self) -> float:
        """Of all conversations together, their prompts' time included."""
        return self.tokens / self.seconds

    def as_json(self) -> dict[str, object]:
        facts = asdict(self) | {"tokens_per_s": self.tokens_per_s}
        return {name: rounded(fact) if isinstance(fact, float) else fact for name, fact in facts.items()}


def measure(
    model: LoadedModel,
    texts: Sequence[str],
    settings: Settings,
    *,
    counts: Sequence[int],
    drafts: Sequence[str],
    costs: Path,
    progress: Progress,
) -> list[Measured]:
    """Answer ``texts`` with every number of conversations at once and every way to draft.

    One at a time always comes first, for ratios to refer to. Replies are compared with those of plain
    decoding, alone. Raises what ``Conversations`` does, and the error of a text that cannot be answered.
    """
    ordered = sorted({1, *counts})
    total = len(drafts) * len(ordered)
    progress("plain decoding", 0, 1 + total)
    expected = _alone(model, texts, settings)
    found: list[Measured] = []
    for turn, draft in enumerate(drafts):
        base = 0.0
        for place, count in enumerate(ordered):
            progress(f"{count} at once, drafts {draft}", 1 + turn * len(ordered) + place, 1 + total)
            one = _together(model, texts, settings, expected, count, draft, costs, base)
            base = base or one.tokens_per_s
            found.append(one)
    progress("done", 1 + total, 1 + total)
    return [one for one in found if one.at_once in counts]


def _alone(model: LoadedModel, texts: Sequence[str], settings: Settings) -> list[list[int]]:
    session = Session(model.forward, model.tokenizer, model.template, settings)
    found = []
    for text in texts:
        session.reset()
        for _ in session.reply(text) if model.template else session.complete(text):
            pass
        assert session.last is not None
        found.append(session.last.tokens)
    session.recover()
    return found


def _together(
    model: LoadedModel,
    texts: Sequence[str],
    settings: Settings,
    expected: Sequence[Sequence[int]],
    count: int,
    draft: str,
    costs: Path,
    base: float,
) -> Measured:
    replies: list[Reply] = []
    forget_peak_rss()
    with Conversations(model, count, settings, drafting=Drafting(draft), costs=costs) as several:
        began = time.perf_counter()
        for answer in several.answers(texts, raw=model.template is None):
            if answer.reply is None:
                assert answer.error is not None
                raise answer.error
            replies.append(answer.reply)
        seconds = time.perf_counter() - began
        peak = peak_rss_bytes()
    tokens = sum(len(reply.tokens) for reply in replies)
    each = [len(one.tokens) / (one.stats.prefill_s + one.stats.decode_s) for one in replies]
    pairs = zip(replies, expected, strict=False)
    differ = sum(reply.tokens != list(alone) for reply, alone in pairs) + len(expected) - len(replies)
    ratio = tokens / seconds / base if base else 1.0
    return Measured(count, draft, len(replies), tokens, seconds, sum(each) / len(each), ratio, peak, differ)
