"""Replies to everyday prompts with the values that users get: those that end, and those that are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from edgedec.bench.studies.everyday_prompts import EVERYDAY_PROMPTS, EverydayPrompt
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.api import Model

SEED = 1


@dataclass(frozen=True, slots=True)
class EverydayRow:
    """One reply. ``ended``: before the most tokens. ``right``: None where there is no one answer."""

    kind: str
    prompt: str
    tokens: int
    ended: bool
    right: bool | None
    reply: str


@dataclass(frozen=True, slots=True)
class EverydayReport:
    """The replies of a model. A right answer in a reply that runs on counts as right all the same."""

    rows: Sequence[EverydayRow]

    @property
    def ended(self) -> int:
        return sum(row.ended for row in self.rows)

    @property
    def right(self) -> tuple[int, int]:
        """Right replies, and those that can be right or wrong."""
        judged = [row.right for row in self.rows if row.right is not None]
        return sum(judged), len(judged)

    def as_json(self) -> dict[str, Any]:
        right, judged = self.right
        return {
            "prompts": len(self.rows), "ended": self.ended, "judged": judged, "right": right,
            "by_prompt": [asdict(row) for row in self.rows],
        }  # fmt: skip


def ask_everyday(model: Model, tokens: int, limit: int | None, progress: Progress) -> EverydayReport:
    """Answer the prompts, each in a chat of its own, at most ``tokens`` tokens each."""
    prompts = EVERYDAY_PROMPTS[:limit]
    rows = []
    for number, prompt in enumerate(prompts):
        progress("replies", number, len(prompts))
        rows.append(_row(model, prompt, tokens))
    progress("replies", len(prompts), len(prompts))
    return EverydayReport(rows)


def _row(model: Model, prompt: EverydayPrompt, tokens: int) -> EverydayRow:
    with model.chat(sampling=replace(model.sampling, seed=SEED), max_tokens=tokens) as chat:
        reply = chat.reply(prompt.text)
        reply.read()
    ended = reply.finish_reason == "stop"
    right = prompt.is_right(reply.text)
    return EverydayRow(prompt.kind, prompt.text, len(reply.tokens), ended, right, reply.text)
