"""Replies in a file, one line of JSON each. A study that was interrupted continues from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from edgedec.bench.harness.saved_lines import SavedLines
from edgedec.core.quick_dataclass import dataclass

Key = tuple[str | int, ...]
"""A case, and the side; of a reply: question, turn (from 0), side."""
R = TypeVar("R")


class JournalRow:
    """The answer of a side to a case, which is found again by its ``key``."""

    __slots__ = ()

    @property
    def key(self) -> Key:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SideAnswer(JournalRow):
    """One side's reply to one turn of a question, with its times in seconds.

    - ``prefill_s``: the pass over the prompt, which gives the first token. Next to nothing where another side
      of the same process had read the prompt.
    - ``cpu_s``: processor time of all threads in ``decode_s``.
    - ``joules``: energy of decoding above idle power, by the ``meter``; None where it was not measured.
    - ``draft_s``, ``verify_s``: parts of ``decode_s``, for drafting and for the model's passes.
    - ``predicted_s``, ``predicted_plain_s``: time of these passes and drafters by measured costs, and time of
      plain decoding by them; the first passes, which show the level of old costs, are not among them.
    - ``by_drafter``: figures of each drafter, see ``control.tally.Tally.of_drafters``.
    - ``judged``: tokens of each drafter by the probability it gave, see ``control.Acceptance.counts``.
    - ``by_depth``: [tokens drafted there, accepted] at each depth, see ``control.tally.Tally.by_depth``.
    - ``rounds``: [drafted tokens, accepted tokens] of each later pass.
    - ``drafters``: bytes that each drafter holds.
    - ``run``: number of the start of a resumed study.
    - ``evicted``: tokens that left the KV cache.
    - ``dropped``: turns that no longer fitted the context.
    - ``cut``: the context ended the reply.
    - ``refused``: the reason why there is no reply.
    - ``weights_rss_bytes``: weights that were resident afterwards.
    """

    question: str
    turn: int
    side: str
    run: int
    tokens: list[int]
    prefill_s: float
    decode_s: float
    cpu_s: float | None = None
    draft_s: float | None = None
    verify_s: float | None = None
    predicted_s: float | None = None
    predicted_plain_s: float | None = None
    joules: float | None = None
    meter: str = ""
    by_drafter: dict[str, dict[str, float]] = field(default_factory=dict)
    judged: dict[str, list[list[int]]] = field(default_factory=dict)
    by_depth: list[list[int]] = field(default_factory=list)
    rounds: list[list[int]] = field(default_factory=list)
    drafters: dict[str, int] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    prompt_tokens: int = 0
    peak_rss_bytes: int = 0
    weights_rss_bytes: int = 0
    evicted: int = 0
    dropped: int = 0
    cut: bool = False
    refused: str = ""

    @property
    def key(self) -> Key:
        return self.question, self.turn, self.side

    @property
    def decoded(self) -> int:
        """Tokens that ``decode_s`` was spent on."""
        return len(self.tokens) - 1

    @property
    def rate(self) -> float | None:
        """Tokens decoded per second; None for a reply of one token."""
        return self.decoded / self.decode_s if self.decoded > 0 and self.decode_s > 0 else None


class Journal(Generic[R]):
    """Rows by key, and facts about sides. With a file, each is appended when it is added.

    See ``SavedLines`` for ``conditions`` and the file, whose rows are ``SideAnswer``.
    """

    def __init__(
        self,
        conditions: Mapping[str, Any] | None = None,
        path: Path | None = None,
    ) -> None:
        self.answers: dict[Key, R] = {}
        self.opened: dict[str, dict[str, Any]] = {}
        self.run = 1
        self._lines = SavedLines(conditions or {}, path)

    @classmethod
    def resume(cls, conditions: Mapping[str, Any], path: Path | None) -> Journal[R]:
        """Read the rows that ``path`` holds, if it exists. Raises the errors of ``SavedLines.resume``."""
        journal = cls(conditions, path)
        journal._lines.resume(journal._take)
        return journal

    def add(self, row: Any) -> None:
        """Keep a row, which is a dataclass with a ``key``."""
        self.answers[row.key] = row
        self._lines.append({"answer": asdict(row)})

    def add_opened(self, side: str, facts: Mapping[str, Any]) -> None:
        """Keep the facts that a side reported when it loaded its model."""
        self.opened[side] = dict(facts)
        self._lines.append({"opened": side, "facts": dict(facts)})

    def _take(self, line: dict[str, Any]) -> None:
        if "answer" in line:
            row: Any = read_answer(line["answer"])
            self.answers[row.key] = row
            self.run = max(self.run, getattr(row, "run", 0) + 1)
        else:
            self.opened[str(line["opened"])] = dict(line["facts"].items())


def read_answer(fields: Mapping[str, Any]) -> SideAnswer:
    """Read an answer. Raises TypeError or ValueError for a field that is missing, unknown or mistyped."""
    answer = SideAnswer(**fields)
    like = SideAnswer(
        "", 0, "", 0, [], 0.0, 0.0, 0.0, 0.0, 0.0, predicted_s=0.0, predicted_plain_s=0.0, joules=0.0
    )
    for name, value in asdict(answer).items():
        kind = type(getattr(like, name))
        if not isinstance(value, (float, int, type(None)) if kind is float else kind):
            raise TypeError(f"{name} is a {type(value).__name__}")
    rows: list[Any] = [
        answer.tokens,
        list(answer.drafters.values()),
        *answer.rounds,
        *answer.by_depth,
        *(pair for counts in answer.judged.values() for pair in counts),
    ]
    if not all(isinstance(number, int) for row in rows for number in row):
        raise ValueError("a count is no number")
    figures = [value for found in answer.by_drafter.values() for value in found.values()]
    if not all(isinstance(value, (int, float)) for value in figures):
        raise ValueError("a figure is no number")
    if any(len(row) != 2 for row in (*answer.rounds, *answer.by_depth)):
        raise ValueError("a round has other counts")
    return answer
