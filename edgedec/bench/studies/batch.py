"""Batches of conversations: tokens per second, memory, and replies that differ from those made alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from edgedec.bench.harness.pairing import rounded
from edgedec.bench.harness.runtimes import OwnRun
from edgedec.bench.harness.worker import Worker
from edgedec.core.progress import Progress


@dataclass(frozen=True, slots=True)
class BatchStudy:
    """Texts to reply to with every batch size and every way to draft. ``run`` has all other settings."""

    bundle: Path
    texts: Sequence[str]
    run: OwnRun
    sizes: Sequence[int]
    drafts: Sequence[str]


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One batch size and one way to draft.

    - ``tokens_per_s``: all conversations together, prompts' time included.
    - ``each_tokens_per_s``: one conversation while it replies, mean over replies.
    - ``ratio``: tokens per second divided by those of a batch of one with the same drafts.
    - ``peak_rss_bytes``: peak of the process, which did nothing else.
    - ``differ``: count of replies that are not those made alone.
    - ``energy``: joules of all replies together and per token, as ``Measures.batch_energy`` has them.
    - ``memory``: the plan for the budget. ``refused``: the budget is too small.
    """

    batch: int
    draft: str
    refused: str = ""
    replies: int = 0
    tokens: int = 0
    tokens_per_s: float = 0.0
    each_tokens_per_s: float = 0.0
    ratio: float | None = None
    peak_rss_bytes: int = 0
    differ: int = 0
    energy: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] | None = None

    @property
    def over(self) -> bool:
        """Whether there was a budget, which was not kept."""
        return self.memory is not None and self.peak_rss_bytes > self.memory["budget_bytes"]

    def as_json(self) -> dict[str, object]:
        if self.refused:
            return {"batch": self.batch, "draft": self.draft, "refused": self.refused}
        facts = asdict(self)
        del facts["refused"]
        facts |= {"over_budget": self.over} if self.memory else {}
        return {name: rounded(fact) if isinstance(fact, float) else fact for name, fact in facts.items()}


def measure_batches(study: BatchStudy, progress: Progress) -> list[BatchRow]:
    """Reply to the texts with every batch size and every way to draft.

    A batch of one always comes first, for ratios. Replies are compared with those of plain decoding alone,
    with a KV cache of the same type and size. Raises the errors of ``Worker``.
    """
    ordered = sorted({1, *study.sizes})
    total = len(study.drafts) * len(ordered)
    alone = _Alone(study)
    found: list[BatchRow] = []
    for turn, draft in enumerate(study.drafts):
        base = 0.0
        for index, size in enumerate(ordered):
            progress(f"batch of {size}, drafts {draft}", turn * len(ordered) + index, total)
            row = _together(study, size, draft, base, alone)
            base = row.tokens_per_s if size == 1 else base
            found.append(row)
    progress("done", total, total)
    return [row for row in found if row.batch in study.sizes]


class _Alone:
    """Replies of plain decoding to each text, made once for each KV cache."""

    def __init__(self, study: BatchStudy) -> None:
        self._study = study
        self._known: dict[tuple[int, str], list[list[int]]] = {}

    def replies(self, facts: dict[str, Any]) -> list[list[int]]:
        """Return the replies with the KV cache of ``facts``: ``capacity`` and ``kv``."""
        cache = (facts["capacity"], facts["kv"])
        if cache not in self._known:
            run = self._study.run
            exact = replace(run, context=cache[0], kv=cache[1], draft="off", level=None, conversations=None)
            with Worker(exact.side(self._study.bundle)) as worker:
                worker.open()
                self._known[cache] = worker.request("alone", texts=self._study.texts)["tokens"]
        return self._known[cache]


def _together(study: BatchStudy, size: int, draft: str, base: float, alone: _Alone) -> BatchRow:
    run = replace(study.run, conversations=size, draft=draft)
    with Worker(run.side(study.bundle)) as worker:
        facts = worker.open()
        if "refused" in facts:
            return BatchRow(size, draft, facts["refused"])
        took = worker.request("together", texts=study.texts)
        peak = worker.request("memory")["peak_rss_bytes"]
    replies, each = took["tokens"], took["each"]
    tokens = sum(map(len, replies))
    rate = tokens / took["seconds"]
    return BatchRow(
        size,
        draft,
        replies=len(replies),
        tokens=tokens,
        tokens_per_s=rate,
        each_tokens_per_s=sum(each) / len(each),
        ratio=1.0 if size == 1 else rate / base if base else None,
        peak_rss_bytes=peak,
        differ=sum(one != other for one, other in zip(replies, alone.replies(facts), strict=True)),
        energy=took["energy"],
        memory=facts.get("memory"),
    )
