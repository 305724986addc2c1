"""What a contest comes to: per category, per group of Spec-Bench, and in all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgedec.bench.contest import PLAIN, Contestant
from edgedec.bench.journal import Answer, Journal
from edgedec.bench.levels import FULL
from edgedec.bench.questions import Question
from edgedec.bench.summary import Spread, rounded, spread
from edgedec.core.errors import one_line

LLAMA = "llama.cpp"
BASES = (PLAIN, LLAMA)
"""Sides that the others are compared with."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Decoding rate of a side by that of ``base``. ``pairs``: ratios of neighbouring measurements, one per
    reply; ``total``: of all tokens by all time; ``apart``: pairs that are from different runs.
    """

    base: str
    pairs: Spread
    total: float
    count: int
    apart: int

    def as_json(self) -> dict[str, Any]:
        values = {**self.pairs.as_json(), "total": rounded(self.total)}
        return {**values, "pairs": self.count, "pairs_of_different_runs": self.apart}


@dataclass(frozen=True, slots=True)
class Depth:
    """Of the passes that checked a draft at least so deep, how many found it right so far."""

    depth: int
    drafted: int
    right: int


class Score:
    """One side on some of the replies."""

    def __init__(
        self, answers: Sequence[Answer], bases: Mapping[str, Mapping[tuple[str, int], Answer]]
    ) -> None:
        self.answers = answers
        self._bases = bases

    @property
    def rates(self) -> list[float]:
        """Tokens per second of each reply that has more than the prompt's pass."""
        return [rate for answer in self.answers if (rate := answer.rate) is not None]

    @property
    def total_rate(self) -> float | None:
        """All tokens by all time, in tokens per second."""
        return _by(self.decoded, sum(answer.decode_s for answer in self.answers))

    @property
    def decoded(self) -> int:
        return sum(answer.decoded for answer in self.answers)

    @property
    def rounds(self) -> int:
        return sum(len(answer.rounds) for answer in self.answers)

    @property
    def block_efficiency(self) -> float | None:
        """Tokens per pass, the prompt's left out (Spec-Bench: mean accepted length)."""
        return _by(self.decoded, self.rounds)

    @property
    def drafted(self) -> int:
        return sum(entry[0] or 0 for answer in self.answers for entry in answer.rounds)

    @property
    def acceptance_rate(self) -> float | None:
        """Share of the drafted tokens that were checked and right."""
        return _by(sum(entry[2] or 0 for a in self.answers for entry in a.rounds), self.drafted)

    def ratio(self, base: str) -> Ratio | None:
        """To ``base`` on the same replies; None where there are none to compare."""
        known = self._bases.get(base, {})
        pairs = [
            (answer, other)
            for answer in self.answers
            if (other := known.get(answer.key[:2])) is not None and answer.rate and other.rate
        ]
        if not pairs:
            return None
        mine, theirs = ([pair[index] for pair in pairs] for index in (0, 1))
        return Ratio(
            base,
            spread((a.rate or 0.0) / (b.rate or 1.0) for a, b in pairs),
            (_total(mine) or 0.0) / (_total(theirs) or 1.0),
            len(pairs),
            sum(a.run != b.run for a, b in pairs),
        )

    def depths(self) -> list[Depth]:
        """Acceptance by depth, from the first drafted token on."""
        entries = [
            (deepest, right)
            for answer in self.answers
            for _, deepest, right in answer.rounds
            if deepest is not None and right is not None
        ]
        most = max((deepest for deepest, _ in entries), default=0)
        return [
            Depth(
                depth,
                sum(deepest >= depth for deepest, _ in entries),
                sum(right >= depth for _, right in entries),
            )
            for depth in range(1, most + 1)
        ]

    def sources(self) -> dict[str, tuple[int, int]]:
        """Tokens fed, and right, by drafter."""
        found: dict[str, tuple[int, int]] = {}
        for answer in self.answers:
            for name, (fed, right) in answer.sources.items():
                before = found.get(name, (0, 0))
                found[name] = before[0] + fed, before[1] + right
        return found

    def per_round_ms(self, part: str) -> float | None:
        """Mean ms per pass of "draft", "verify", or "own": all of decoding but the passes of the model."""
        known = [a for a in self.answers if a.verify_s is not None and a.draft_s is not None]
        seconds = {
            "draft": sum(a.draft_s or 0.0 for a in known),
            "verify": sum(a.verify_s or 0.0 for a in known),
            "own": sum(a.decode_s - (a.verify_s or 0.0) for a in known),
        }[part]
        return _by(1e3 * seconds, sum(len(a.rounds) for a in known))

    def as_json(self) -> dict[str, Any]:
        ratios = {base: ratio.as_json() for base in BASES if (ratio := self.ratio(base))}
        return {
            "replies": len(self.answers),
            "decoded_tokens": self.decoded,
            "tokens_per_s": spread(self.rates).as_json() if self.rates else None,
            "total_tokens_per_s": _rounded(self.total_rate),
            "speed_up": ratios,
            "rounds": self.rounds,
            "block_efficiency": _rounded(self.block_efficiency),
            "drafted_tokens": self.drafted,
            "acceptance_rate": _rounded(self.acceptance_rate),
            "acceptance_by_depth": [
                {"depth": d.depth, "drafted": d.drafted, "right": d.right} for d in self.depths()
            ],
            "drafters": {
                name: {"drafted": fed, "right": right} for name, (fed, right) in self.sources().items()
            },
            **{f"{part}_ms_per_round": _rounded(self.per_round_ms(part)) for part in PARTS},
        }


PARTS = ("draft", "verify", "own")


@dataclass(frozen=True, slots=True)
class Differing:
    """Replies of a side of ours that are not plain decoding's, of how many."""

    replies: int
    of: int


class ContestReport:
    """Scores by side and category, from what a journal holds about these questions and sides."""

    def __init__(
        self, questions: Sequence[Question], contestants: Sequence[Contestant], journal: Journal
    ) -> None:
        self.questions = questions
        self.sides = [one.name for one in contestants]
        self.versions = {one.process.name: journal.opened.get(one.process.name, {}) for one in contestants}
        self.processes = {one.name: one.process.name for one in contestants}
        self.ours = [one.name for one in contestants if one.ours]
        self.within = [one for one in contestants if one.level]
        self.full = {one.draft: one.name for one in self.within if one.level == FULL}
        """The unconstrained side of each way to draft, where there are budgets of memory."""
        self.apart = [one.name for one in contestants if one.level in (None, FULL)]
        """Sides without a budget."""
        self.opened = journal.opened
        self._answers = journal.answers

    def answers(self, side: str, questions: Iterable[Question]) -> list[Answer]:
        keys = [(one.key, turn, side) for one in questions for turn in range(len(one.turns))]
        return [self._answers[key] for key in keys]

    def score(self, side: str, questions: Sequence[Question] | None = None) -> Score:
        """Of one side, on these questions or all."""
        asked = self.questions if questions is None else questions
        bases = {
            base: {answer.key[:2]: answer for answer in self.answers(base, asked)}
            for base in (*BASES, *self.full.values())
            if base in self.sides
        }
        return Score(self.answers(side, asked), bases)

    def categories(self) -> dict[str, list[Question]]:
        """Spec-Bench's groups, each followed by its categories if it has several; by name."""
        found: dict[str, list[Question]] = {}
        for group in dict.fromkeys(one.group for one in self.questions):
            members = [one for one in self.questions if one.group == group]
            found[group] = members
            for name in dict.fromkeys(one.category for one in members):
                found[name] = [one for one in members if one.category == name]
        return found

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(one.group for one in self.questions))

    def differing(self) -> dict[str, Differing]:
        """Our sides' replies that are not plain decoding's, to the same prompt, up to a context's end."""
        truth = self.answers(PLAIN, self.questions)
        found = {}
        for side in self.ours:
            pairs = zip(self.answers(side, self.questions), truth, strict=True)
            same = [_same(mine, other) for mine, other in pairs if not mine.dropped and not mine.refused]
            found[side] = Differing(same.count(False), len(same))
        return {side: differing for side, differing in found.items() if side != PLAIN}

    def peaks(self) -> dict[str, int]:
        """Most physical memory of each process, in bytes."""
        peaks: dict[str, int] = {}
        for side in self.sides:
            most = max(answer.peak_rss_bytes for answer in self.answers(side, self.questions))
            name = self.processes[side]
            peaks[name] = max(most, peaks.get(name, 0))
        return peaks

    def drafter_bytes(self, side: str) -> dict[str, int]:
        """Most bytes that each drafter of a side held."""
        found: dict[str, int] = {}
        for answer in self.answers(side, self.questions):
            for name, count in answer.drafters.items():
                found[name] = max(count, found.get(name, 0))
        return found

    @property
    def runs(self) -> int:
        """Starts of the command that the answers come from."""
        return len({answer.run for side in self.sides for answer in self.answers(side, self.questions)})

    def notices(self) -> list[str]:
        """What sides had to say, each line once."""
        return list(
            dict.fromkeys(
                one_line(f"{side}: {line}")
                for side in self.sides
                for answer in self.answers(side, self.questions)
                for line in answer.notices
            )
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "questions": len(self.questions),
            "turns": sum(len(one.turns) for one in self.questions),
            "sides": {side: {"process": self.processes[side],
                             "drafter_bytes": self.drafter_bytes(side)} for side in self.sides},
            "processes": {name: {**facts, "peak_rss_bytes": self.peaks()[name]}
                          for name, facts in self.versions.items()},
            "differing_replies": {side: {"replies": d.replies, "of": d.of}
                                  for side, d in self.differing().items()},
            "notices": self.notices(),
            "groups": self.groups,
            "categories": {name: {side: self.score(side, asked).as_json() for side in self.sides}
                           for name, asked in self.categories().items()},
            "overall": {side: self.score(side).as_json() for side in self.sides},
        }  # fmt: skip


def _same(answer: Answer, truth: Answer) -> bool:
    return answer.tokens == (truth.tokens[: len(answer.tokens)] if answer.cut else truth.tokens)


def _total(answers: Iterable[Answer]) -> float | None:
    listed = list(answers)
    return _by(sum(one.decoded for one in listed), sum(one.decode_s for one in listed))


def _by(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else rounded(value)
