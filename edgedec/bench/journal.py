"""What was measured, one line of JSON per reply: a run that was interrupted goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from edgedec.core.errors import BadFileError, UsageError
from edgedec.core.files import storage_errors

Key = tuple[str, int, str]
"""Question, turn (from 0), side."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One side's reply to one turn of a question, and what it cost.

    ``first``: tokens of the pass over the prompt, whose time is ``prefill_s`` (next to nothing where another
    side of the same process had read it); ``rounds``: per later pass
    [tokens drafted, depth of the draft, how many were right] (null where a side does not say). ``draft_s``
    and ``verify_s`` are parts of ``decode_s``: making drafts, and passes of the model. ``sources``: per
    drafter [tokens fed, right]; ``drafters``: bytes it holds. ``run`` counts the starts of a resumed run.

    Within a budget of memory: ``dropped`` older turns no longer fitted the context, which may also have ended
    the reply (``cut``), or ``refused`` says why there is none. ``weights_rss_bytes``: resident afterwards.
    """

    question: str
    turn: int
    side: str
    run: int
    tokens: list[int]
    prefill_s: float
    decode_s: float
    first: int = 1
    draft_s: float | None = None
    verify_s: float | None = None
    rounds: list[list[int | None]] = field(default_factory=list)
    sources: dict[str, list[int]] = field(default_factory=dict)
    drafters: dict[str, int] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    prompt_tokens: int = 0
    peak_rss_bytes: int = 0
    weights_rss_bytes: int = 0
    dropped: int = 0
    cut: bool = False
    refused: str = ""

    @property
    def key(self) -> Key:
        return self.question, self.turn, self.side

    @property
    def decoded(self) -> int:
        """Tokens that ``decode_s`` was spent on."""
        return len(self.tokens) - self.first

    @property
    def rate(self) -> float | None:
        """Of decoding, in tokens per second; None for a reply that ended with the prompt's pass."""
        return self.decoded / self.decode_s if self.decoded > 0 and self.decode_s > 0 else None


class Journal:
    """Answers by key, and facts about sides; with a file, each is appended as it comes.

    The first line holds ``conditions``, everything that a measurement depends on, and their hash. A file
    made under other conditions is refused (UsageError), a damaged one too (BadFileError); a last line that
    was not written to its end is dropped.
    """

    def __init__(self, conditions: Mapping[str, Any], path: Path | None = None) -> None:
        self.answers: dict[Key, Answer] = {}
        self.opened: dict[str, dict[str, Any]] = {}
        self.run = 1
        self._path = path
        self._conditions = dict(conditions)

    @classmethod
    def resume(cls, conditions: Mapping[str, Any], path: Path | None) -> Self:
        """What ``path`` holds already, if it is there. Raises StorageError when it cannot be written."""
        journal = cls(conditions, path)
        if path is not None:
            with storage_errors(str(path)):
                path.parent.mkdir(parents=True, exist_ok=True)
                if path.exists() and path.stat().st_size:
                    journal._read(path)
                else:
                    journal._append({"conditions": journal._conditions, "hash": digest(conditions)})
        return journal

    def add(self, answer: Answer) -> None:
        self.answers[answer.key] = answer
        self._append({"answer": asdict(answer)})

    def add_opened(self, side: str, facts: Mapping[str, Any]) -> None:
        """What a side said of itself when its model was loaded."""
        self.opened[side] = dict(facts)
        self._append({"opened": side, "facts": dict(facts)})

    def _append(self, line: Mapping[str, Any]) -> None:
        if self._path is not None:
            with storage_errors(str(self._path)), self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def _read(self, path: Path) -> None:
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        try:
            first, *lines = [json.loads(line) for line in whole.splitlines()]
            self._check(first["conditions"], path)
            for line in lines:
                if "answer" in line:
                    answer = _answer(line["answer"])
                    self.answers[answer.key] = answer
                    self.run = max(self.run, answer.run + 1)
                else:
                    self.opened[str(line["opened"])] = dict(line["facts"].items())
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise BadFileError(
                f"{path} was not written by `bench run --save`, or is damaged", hint="name another file"
            ) from error
        if len(whole) < len(data):  # the run was stopped in the middle of a line
            with path.open("r+b") as file:
                file.truncate(len(whole))

    def _check(self, found: Mapping[str, Any], path: Path) -> None:
        different = [name for name, value in self._conditions.items() if found.get(name) != value]
        if different or len(found) != len(self._conditions):
            shown = ", ".join(f"{name} {found.get(name)}" for name in different) or "others"
            raise UsageError(
                f"{path} was measured under other conditions: {shown}",
                hint="give the same options, or name another file with --save",
            )


def _answer(fields: Mapping[str, Any]) -> Answer:
    """Raises TypeError or ValueError where a field is missing, unknown or of another type."""
    answer = Answer(**fields)
    like = Answer("", 0, "", 0, [], 0.0, 0.0, draft_s=0.0, verify_s=0.0)
    for name, value in asdict(answer).items():
        kind = type(getattr(like, name))
        if not isinstance(value, (float, int, type(None)) if kind is float else kind):
            raise TypeError(f"{name} is a {type(value).__name__}")
    rows: list[Any] = [
        answer.tokens,
        list(answer.drafters.values()),
        *answer.rounds,
        *answer.sources.values(),
    ]
    if not all(isinstance(number, int | None) for row in rows for number in row):
        raise ValueError("a count is no number")
    if any(len(row) != 3 for row in answer.rounds) or any(len(row) != 2 for row in answer.sources.values()):
        raise ValueError("a round or a source has other counts")
    return answer


def digest(conditions: Mapping[str, Any]) -> str:
    text = json.dumps(conditions, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
