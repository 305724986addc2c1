"""Ways to draft beside plain decoding and other runtimes: scores by category of question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any

from edgedec.bench.harness.energy import Energies, EnergyProbe, energies_of_replies, traffics
from edgedec.bench.harness.journal import Journal, Key, SideAnswer
from edgedec.bench.harness.memory_levels import FULL
from edgedec.bench.harness.pairing import Spread, plain, rounded_or_none, spread
from edgedec.bench.harness.questions import Question
from edgedec.bench.harness.study import PLAIN, StudySide
from edgedec.bench.studies.drafter_score import DrafterScore, divided
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import KvType
from edgedec.core.errors import one_line
from edgedec.core.quick_dataclass import dataclass
from edgedec.metrics.mbsu import Mbsu, Weights

LLAMA = "llama.cpp"
BASES = (PLAIN, LLAMA)
"""Sides that the others are compared with."""
PARTS = ("draft", "verify", "own")


@dataclass(frozen=True, slots=True)
class RateRatio(Spread):
    """Ratios of decoding rates of two sides in neighbouring replies.

    ``total``: ratio of all tokens by all time. ``by_processor_time``: the same by processor time, which other
    load hardly changes; None where a side does not count it. ``pairs_of_different_runs``: those that were
    measured in different runs of a resumed study.
    """

    total: float
    by_processor_time: float | None
    pairs: int
    pairs_of_different_runs: int


class Score:
    """One side on some of the replies."""

    def __init__(
        self,
        answers: Sequence[SideAnswer],
        bases: Mapping[str, Mapping[Key, SideAnswer]],
        target: Weights | None = None,
    ) -> None:
        self.answers = answers
        self._bases = bases
        self._target = target

    @property
    def rates(self) -> list[float]:
        """Tokens per second of each reply of two tokens or more."""
        return [rate for answer in self.answers if (rate := answer.rate) is not None]

    @property
    def total_rate(self) -> float | None:
        """All tokens by all time, in tokens per second."""
        return _total(self.answers)

    @property
    def decoded(self) -> int:
        return sum(answer.decoded for answer in self.answers)

    @property
    def rounds(self) -> int:
        return sum(len(answer.rounds) for answer in self.answers)

    @property
    def block_efficiency(self) -> float | None:
        """Tokens per pass without the prompt's (Spec-Bench: mean accepted length)."""
        return divided(self.decoded, self.rounds)

    @property
    def drafted(self) -> int:
        return sum(drafted for answer in self.answers for drafted, _ in answer.rounds)

    @property
    def acceptance_rate(self) -> float | None:
        """Share of the drafted tokens that were accepted."""
        return divided(sum(right for answer in self.answers for _, right in answer.rounds), self.drafted)

    @property
    def predicted_speed_up(self) -> float | None:
        """Speed-up over plain decoding by pass costs, draft costs and acceptance; None if none is known."""
        known = [one for one in self.answers if one.predicted_s and one.predicted_plain_s]
        plain = sum(one.predicted_plain_s or 0.0 for one in known)
        return divided(plain, sum(one.predicted_s or 0.0 for one in known))

    @property
    def drafters(self) -> dict[str, DrafterScore]:
        """Return the scores of all drafters of this side."""
        names = dict.fromkeys(name for answer in self.answers for name in answer.by_drafter)
        plain = [one for answer in self.answers if (one := self._bases.get(PLAIN, {}).get(answer.key[:2]))]
        seconds = sum(one.verify_s or 0.0 for one in plain)
        target = divided(seconds, sum(len(one.rounds) for one in plain))
        return {name: DrafterScore.of(name, self.answers, target) for name in names}

    @property
    def by_depth(self) -> list[tuple[int, int]]:
        """Rounds with a token drafted at each depth below right ones, and those where one there was right."""
        rows = [answer.by_depth for answer in self.answers]
        levels = zip_longest(*rows, fillvalue=(0, 0))
        sums = [(sum(drafted for drafted, _ in level), sum(right for _, right in level)) for level in levels]
        return [level for level in sums if level[0]]

    @property
    def judged(self) -> dict[str, list[tuple[int, int]]]:
        """Return by drafter how many tokens it gave each tenth of probability, and how many were right."""
        found: dict[str, list[tuple[int, int]]] = {}
        for answer in self.answers:
            for name, counts in answer.judged.items():
                sums = found.get(name, [(0, 0)] * len(counts))
                found[name] = [(a + c, b + d) for (a, b), (c, d) in zip(sums, counts, strict=True)]
        return found

    @property
    def mbsu(self) -> Mbsu | None:
        """Block efficiency for the bytes that these rounds read; None without weights or rounds."""
        target, efficiency = self._target, self.block_efficiency
        if target is None or efficiency is None:
            return None
        found = self.drafters.values()
        read = sum(one.bytes_read for one in found)
        counted = read + sum(one.table_bytes for one in found)
        return Mbsu(
            efficiency / (1.0 + read / (self.rounds * target.streamed)),
            efficiency / (1.0 + counted / (self.rounds * target.parameters)),
        )

    def ratio(self, base: str) -> RateRatio | None:
        """Compare with ``base`` on the same replies; None where there are none."""
        known = self._bases.get(base, {})
        pairs = [
            (answer, other)
            for answer in self.answers
            if (other := known.get(answer.key[:2])) is not None and answer.rate and other.rate
        ]
        if not pairs:
            return None
        mine, theirs = ([pair[index] for pair in pairs] for index in (0, 1))
        ratios = spread((a.rate or 0.0) / (b.rate or 1.0) for a, b in pairs)
        return RateRatio(
            **asdict(ratios),
            total=(_total(mine) or 0.0) / (_total(theirs) or 1.0),
            by_processor_time=_by_cpu(mine, theirs),
            pairs=len(pairs),
            pairs_of_different_runs=sum(a.run != b.run for a, b in pairs),
        )

    def per_round_ms(self, part: str) -> float | None:
        """Return the mean ms per round of "draft", "verify" or "own": decoding without the model's passes."""
        known = [a for a in self.answers if a.verify_s is not None and a.draft_s is not None]
        seconds = {
            "draft": sum(a.draft_s or 0.0 for a in known),
            "verify": sum(a.verify_s or 0.0 for a in known),
            "own": sum(a.decode_s - (a.verify_s or 0.0) for a in known),
        }[part]
        return divided(1e3 * seconds, sum(len(a.rounds) for a in known))

    def as_json(self) -> dict[str, Any]:
        found = self.mbsu
        return {
            "replies": len(self.answers),
            "decoded_tokens": self.decoded,
            "tokens_per_s": plain(spread(self.rates)) if self.rates else None,
            "total_tokens_per_s": rounded_or_none(self.total_rate),
            "speed_up": {base: plain(ratio) for base in BASES if (ratio := self.ratio(base))},
            "rounds": self.rounds,
            "block_efficiency": rounded_or_none(self.block_efficiency),
            "drafted_tokens": self.drafted,
            "acceptance_rate": rounded_or_none(self.acceptance_rate),
            "acceptance_by_depth": [
                rounded_or_none(divided(right, drafted)) for drafted, right in self.by_depth
            ],
            "predicted_speed_up": rounded_or_none(self.predicted_speed_up),
            "mbsu": rounded_or_none(found.streamed if found else None),
            "mbsu_parameters": rounded_or_none(found.parameters if found else None),
            "by_drafter": {name: one.as_json() for name, one in self.drafters.items()},
            "judged": self.judged,
            **{f"{part}_ms_per_round": rounded_or_none(self.per_round_ms(part)) for part in PARTS},
        }


@dataclass(frozen=True, slots=True)
class Differing:
    """Count of replies that differ from plain decoding, and of replies compared."""

    replies: int
    of: int


class DraftsReport:
    """Scores by side and category, read from a journal."""

    def __init__(
        self,
        questions: Sequence[Question],
        sides: Sequence[StudySide],
        journal: Journal[SideAnswer],
        target: Weights | None = None,
    ) -> None:
        self.questions = questions
        self._target = target
        self.sides = [one.name for one in sides]
        self.processes = {one.name: one.process.name for one in sides}
        self.ours = [one.name for one in sides if one.ours]
        self.with_level = [one for one in sides if one.level]
        self.full = {one.mode: one.name for one in self.with_level if one.level == FULL}
        """Unconstrained side by drafter set, where there are memory levels."""
        self.without_budget = [one.name for one in sides if one.level in (None, FULL)]
        self.opened = journal.opened
        self._answers = journal.answers

    def answers(self, side: str, questions: Iterable[Question] | None = None) -> list[SideAnswer]:
        asked = self.questions if questions is None else questions
        keys = [(one.key, turn, side) for one in asked for turn in range(len(one.turns))]
        return [self._answers[key] for key in keys]

    def score(self, side: str, questions: Sequence[Question] | None = None) -> Score:
        """Score one side on these questions, or on all."""
        bases = {
            base: {answer.key[:2]: answer for answer in self.answers(base, questions)}
            for base in (*BASES, *self.full.values())
            if base in self.sides
        }
        ours = side in self.ours
        return Score(self.answers(side, questions), bases, self._target if ours else None)

    def categories(self) -> dict[str, list[Question]]:
        """Return questions by group of Spec-Bench, each group followed by its categories."""
        found: dict[str, list[Question]] = {}
        for group in self.groups:
            members = [one for one in self.questions if one.group == group]
            found[group] = members
            for name in dict.fromkeys(one.category for one in members):
                found[name] = [one for one in members if one.category == name]
        return found

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(one.group for one in self.questions))

    def differing(self) -> dict[str, Differing]:
        """Count replies of EdgeDec's sides that differ from plain decoding of the same prompt.

        A reply that the context cut is compared up to its end.
        """
        truth = self.answers(PLAIN)
        found = {}
        for side in self.ours:
            pairs = zip(self.answers(side), truth, strict=True)
            same = [_same(mine, other) for mine, other in pairs if not mine.dropped and not mine.refused]
            found[side] = Differing(same.count(False), len(same))
        return {side: differing for side, differing in found.items() if side != PLAIN}

    def peaks(self) -> dict[str, int]:
        """Return the peak of physical memory of each process, in bytes."""
        peaks: dict[str, int] = {}
        for side in self.sides:
            most = max(answer.peak_rss_bytes for answer in self.answers(side))
            name = self.processes[side]
            peaks[name] = max(most, peaks.get(name, 0))
        return peaks

    def drafter_bytes(self, side: str) -> dict[str, int]:
        """Return the most bytes that each drafter of a side held."""
        found: dict[str, int] = {}
        for answer in self.answers(side):
            for name, count in answer.drafters.items():
                found[name] = max(count, found.get(name, 0))
        return found

    @property
    def runs(self) -> int:
        """Starts of the study that the answers come from."""
        return len({answer.run for side in self.sides for answer in self.answers(side)})

    def notices(self) -> list[str]:
        """Return the notices of all sides, each line once."""
        lines = [(side, line) for side in self.sides for a in self.answers(side) for line in a.notices]
        return list(dict.fromkeys(one_line(f"{side}: {line}") for side, line in lines))

    def as_json(self) -> dict[str, Any]:
        peaks = self.peaks()
        return {
            "questions": len(self.questions),
            "turns": sum(len(one.turns) for one in self.questions),
            "sides": {side: {"process": self.processes[side],
                             "drafter_bytes": self.drafter_bytes(side)} for side in self.sides},
            "processes": {name: {**self.opened.get(name, {}), "peak_rss_bytes": peak}
                          for name, peak in peaks.items()},
            "differing_replies": {side: {"replies": d.replies, "of": d.of}
                                  for side, d in self.differing().items()},
            "notices": self.notices(),
            "groups": self.groups,
            "categories": {name: {side: self.score(side, asked).as_json() for side in self.sides}
                           for name, asked in self.categories().items()},
            "overall": {side: self.score(side).as_json() for side in self.sides},
        }  # fmt: skip


def energies_of_report(
    report: DraftsReport, manifest: Manifest, gguf: Path | None, probe: EnergyProbe, kv: KvType = "fp16"
) -> Energies:
    """Return the joules a token of every side of a study of replies; within budgets too."""
    known = traffics(set(report.processes.values()), manifest, gguf, kv)
    by_side = {side: known[name] for side, name in report.processes.items() if name in known}
    answers = {side: report.answers(side) for side in report.sides}
    return energies_of_replies(answers, by_side, manifest.spec.window, probe.reason)


def _same(answer: SideAnswer, truth: SideAnswer) -> bool:
    return answer.tokens == (truth.tokens[: len(answer.tokens)] if answer.cut else truth.tokens)


def _total(answers: Sequence[SideAnswer]) -> float | None:
    return divided(sum(one.decoded for one in answers), sum(one.decode_s for one in answers))


def _by_cpu(some: Sequence[SideAnswer], others: Sequence[SideAnswer]) -> float | None:
    """Return the ratio of all tokens by all processor time, of the pairs that have both."""
    known = [(a, b) for a, b in zip(some, others, strict=True) if a.cpu_s and b.cpu_s]
    mine, theirs = (
        divided(sum(pair[side].decoded for pair in known), sum(pair[side].cpu_s or 0.0 for pair in known))
        for side in (0, 1)
    )
    return divided(mine, theirs) if mine and theirs else None
