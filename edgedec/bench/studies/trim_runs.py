"""Trimmed heads of one drafter by their rounds: acceptance, bytes and speed of chains that are always fed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from edgedec.bench.harness.pairing import rounded, rounded_or_none
from edgedec.bench.harness.questions import Question
from edgedec.bench.harness.replies import PLAIN
from edgedec.bench.studies.drafter_score import DrafterScore
from edgedec.bench.studies.drafts import DraftsReport, Score
from edgedec.bench.studies.energies import Energies
from edgedec.bench.studies.trim import Subset
from edgedec.draft.subset import Counts, coverage

NO_SCORE = DrafterScore.of("", ())


@dataclass(frozen=True)
class TrimRun:
    """One head. ``coverage``: share of held-out tokens of the drafter's model that it has."""

    side: str
    subset: Subset
    coverage: float
    score: Score
    acceptance: Mapping[str, float | None]
    """Share of the tokens fed that were right, by group of questions."""

    @cached_property
    def drafter(self) -> DrafterScore:
        """The figures of the drafter."""
        return next(iter(self.score.drafters.values()), NO_SCORE)

    @property
    def speed_up(self) -> float | None:
        """Speed over plain decoding, by processor time."""
        ratio = self.score.ratio(PLAIN)
        return ratio.by_cpu if ratio else None


@dataclass(frozen=True)
class TrimRuns:
    """All heads, the whole vocabulary last. ``heads``: subsets by side of ``report``."""

    drafter: str
    steps: int
    report: DraftsReport
    heads: Mapping[str, Subset]
    held_out: Counts
    energies: Energies | None = None

    @cached_property
    def runs(self) -> tuple[TrimRun, ...]:
        """The figures of every head."""
        return tuple(
            TrimRun(
                side,
                subset,
                coverage(subset.ids, self.held_out),
                self.report.score(side),
                {
                    name: self.report.score(side, asked).acceptance_rate
                    for name, asked in self._groups.items()
                },
            )
            for side, subset in self.heads.items()
        )

    @property
    def groups(self) -> list[str]:
        """Groups of questions."""
        return self.report.groups

    @property
    def _groups(self) -> dict[str, Sequence[Question]]:
        return {name: asked for name, asked in self.report.categories().items() if name in self.groups}

    def gain(self, run: TrimRun) -> float | None:
        """MBSU of a head over that of the full one, by bytes that are read."""
        mine, full = run.score.mbsu, self.runs[-1].score.mbsu
        return mine.streamed / full.streamed if mine and full else None

    def as_json(self) -> dict[str, Any]:
        return {
            "drafter": self.drafter,
            "steps": self.steps,
            "heads": [self._point(run) for run in self.runs],
            **({"energy": self.energies.as_json()} if self.energies else {}),
        }

    def _point(self, run: TrimRun) -> dict[str, Any]:
        found = run.score.as_json()
        return {
            "ids": int(run.subset.ids.size),
            "coverage": rounded(run.coverage),
            "acceptance_rate": found["acceptance_rate"],
            "acceptance_by_category": {name: rounded_or_none(rate) for name, rate in run.acceptance.items()},
            "block_efficiency": found["block_efficiency"],
            "mbsu": found["mbsu"],
            "mbsu_gain": rounded_or_none(self.gain(run)),
            "mbsu_parameters": found["mbsu_parameters"],
            "draft_step_ms": rounded_or_none(run.drafter.ms_per_step),
            "draft_bytes_per_round": rounded_or_none(run.drafter.bytes_per_round),
            "tokens_per_s": found["total_tokens_per_s"],
            "speed_up_by_processor_time": rounded_or_none(run.speed_up),
        }
