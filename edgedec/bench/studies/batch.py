"""Batches of conversations: tokens per second, memory, and replies that differ from those made alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

from edgedec.bench.harness.journal import Journal
from edgedec.bench.harness.pairing import rounded
from edgedec.bench.harness.runtimes import OwnRun
from edgedec.bench.harness.study import OFF, Case, OpenSide, Study, StudyRow, StudySide, opened, run_alone
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass
from edgedec.drafters.registry import models_in, parsed
from edgedec.memory import KvType


@dataclass(frozen=True, slots=True)
class BatchStudy:
    """Texts to reply to with every batch size and every drafter set. ``run`` has all other settings."""

    bundle: Path
    texts: Sequence[str]
    run: OwnRun
    sizes: Sequence[int]
    drafts: Sequence[str]


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One batch size and one drafter set.

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
    """Reply to the texts with every batch size and every drafter set, each in a process that it has alone.

    A batch of one always comes first, for ratios. Replies are compared with those of plain decoding alone,
    with a KV cache of the same type and size. Raises the errors of ``Worker``.
    """
    asked = {f"batch of {size}, drafts {draft}": (size, draft)
             for draft in study.drafts for size in sorted({1, *study.sizes})}  # fmt: skip
    sides = [
        StudySide(name, _run(study.run, size, draft).side(study.bundle, name))
        for name, (size, draft) in asked.items()
    ]
    plain = _Plain(study)

    def ask(host: OpenSide, case: Case, side: StudySide) -> StudyRow:
        if "refused" in host.facts:
            return StudyRow(case.key, side.name, {"refused": host.facts["refused"]})
        took = host.request("together", texts=study.texts)
        peak = host.request("memory")["peak_rss_bytes"]
        facts = {"peak_rss_bytes": peak, "memory": host.facts.get("memory"), "plain": plain.cache(host.facts)}
        return StudyRow(case.key, side.name, {**took, **facts})

    run = Study(sides=sides, cases=(Case(("texts",)),), total=1, ask=ask)
    journal: Journal[StudyRow] = run_alone(run, Journal(), progress)
    found: list[BatchRow] = []
    for row in journal.answers.values():
        size, draft = asked[row.side]
        base = next((one.tokens_per_s for one in found if (one.batch, one.draft) == (1, draft)), 0.0)
        found.append(_row(size, draft, row.took, base, plain))
    return [row for row in found if row.batch in study.sizes]


def _run(run: OwnRun, size: int, draft: str) -> OwnRun:
    """Return the run of one side, which opens the draft models that it names."""
    models = {name: run.draft_models[name] for name in models_in(parsed(draft))}
    return replace(run, conversations=size, draft=draft, draft_models=models)


class _Plain:
    """Replies of plain decoding to each text alone, made once for each KV cache."""

    def __init__(self, study: BatchStudy) -> None:
        self._study = study
        self._known: dict[tuple[int, KvType], list[list[int]]] = {}

    def cache(self, facts: Mapping[str, Any]) -> tuple[int, KvType]:
        """Return tokens and type of the KV cache of a side."""
        return facts["capacity"], facts["kv"]

    def replies(self, cache: tuple[int, KvType]) -> list[list[int]]:
        """Return the replies with such a KV cache."""
        if cache not in self._known:
            run = replace(
                _run(self._study.run, 1, OFF), context=cache[0], kv=cache[1], level=None, conversations=None
            )
            with opened(StudySide.of(run.side(self._study.bundle))) as host:
                self._known[cache] = host.request("alone", texts=self._study.texts)["tokens"]
        return self._known[cache]


def _row(size: int, draft: str, took: Mapping[str, Any], base: float, plain: _Plain) -> BatchRow:
    if "refused" in took:
        return BatchRow(size, draft, took["refused"])
    replies, each = took["tokens"], took["each"]
    rate = sum(map(len, replies)) / took["seconds"]
    return BatchRow(
        size,
        draft,
        replies=len(replies),
        tokens=sum(map(len, replies)),
        tokens_per_s=rate,
        each_tokens_per_s=sum(each) / len(each),
        ratio=1.0 if size == 1 else rate / base if base else None,
        peak_rss_bytes=took["peak_rss_bytes"],
        differ=sum(one != other for one, other in zip(replies, plain.replies(took["plain"]), strict=True)),
        energy=took["energy"],
        memory=took["memory"],
    )
