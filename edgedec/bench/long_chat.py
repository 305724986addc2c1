"""A long chat within one budget of memory: does memory stay flat, and speed? And does it survive a kill?"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from edgedec.bench.summary import rounded
from edgedec.bench.worker import Side, Worker
from edgedec.core.errors import MemoryBudgetError, UsageError

Progress = Callable[[str, int, int], None]
SETTLED_TURN = 20
"""By then buffers have had their largest size and the context has been full; or half of a shorter chat."""
_WINDOW = 10
"""Turns whose most memory is compared: what is dropped is given back, so it goes up and down."""
COMPARED_TURNS = 5
"""Replies after a restart that are compared with those of the chat that went on."""
_BANDS = 8
"""Contexts are equal when they are in the same eighth of the longest."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A reply and what it cost; a turn that did not fit has none, and ``refused`` says why."""

    rss_bytes: int
    peak_rss_bytes: int
    tokens: list[int] = field(default_factory=list)
    prompt_tokens: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    dropped: int = 0
    refused: str = ""

    @property
    def ms_per_token(self) -> float | None:
        """Of decoding; None for a reply of one token."""
        return 1e3 * self.decode_s / (len(self.tokens) - 1) if len(self.tokens) > 1 else None


@dataclass(frozen=True, slots=True)
class Band:
    """Contexts of ``low`` to ``high`` tokens: median ms per token in a chat's first and last quarter."""

    low: int
    high: int
    first_ms: float
    last_ms: float

    @property
    def ratio(self) -> float:
        return self.last_ms / self.first_ms


@dataclass(frozen=True, slots=True)
class Killed:
    """A chat that was saved after turn ``turn``, killed (SIGKILL) and restored in another process: how many
    of the replies after it are the same tokens as without, and what was said about it.
    """

    turn: int
    compared: int
    same: int
    notices: tuple[str, ...] = ()


@dataclass(slots=True)
class ChatReport:
    """``facts``: what the side said of itself when its model was loaded: ``capacity``, ``memory``."""

    facts: dict[str, Any]
    turns: list[Turn]
    killed: Killed | None = None

    @property
    def settled_turn(self) -> int:
        """The turn (from 1) whose memory the last one's is compared with."""
        return max(min(SETTLED_TURN, len(self.turns) // 2), 1)

    def resident(self, turn: int) -> int:
        """Most bytes resident after a turn (from 1) and those just before it."""
        window = min(_WINDOW, self.settled_turn)
        return max(one.rss_bytes for one in self.turns[turn - window : turn])

    @property
    def growth(self) -> int:
        """Bytes resident about the last turn that were not about the settled one."""
        return self.resident(len(self.turns)) - self.resident(self.settled_turn)

    @property
    def peak(self) -> int:
        return self.turns[-1].peak_rss_bytes

    @property
    def dropped(self) -> int:
        return sum(turn.dropped for turn in self.turns)

    @property
    def refused(self) -> int:
        return sum(bool(turn.refused) for turn in self.turns)

    def bands(self) -> list[Band]:
        """Contexts that replies of the first and of the last quarter had, shortest first."""
        quarter = max(len(self.turns) // 4, 1)
        first, last = (self._by_band(some) for some in (self.turns[:quarter], self.turns[-quarter:]))
        width = self._width
        return [
            Band(band * width, (band + 1) * width, median(first[band]), median(last[band]))
            for band in sorted(first.keys() & last.keys())
        ]

    @property
    def slowdown(self) -> float | None:
        """Time per token in the last quarter by that in the first, at equal context: median over bands."""
        ratios = [band.ratio for band in self.bands()]
        return median(ratios) if ratios else None

    @property
    def _width(self) -> int:
        return max(int(self.facts["capacity"]) // _BANDS, 1)

    def _by_band(self, turns: Sequence[Turn]) -> dict[int, list[float]]:
        found: dict[int, list[float]] = {}
        for turn in turns:
            if (ms := turn.ms_per_token) is not None:
                found.setdefault(turn.prompt_tokens // self._width, []).append(ms)
        return found

    def as_json(self) -> dict[str, Any]:
        killed = self.killed
        return {
            "turns": len(self.turns),
            "context": self.facts["capacity"],
            "memory": self.facts["memory"],
            "peak_rss_bytes": self.peak,
            "settled_turn": self.settled_turn,
            "settled_rss_bytes": self.resident(self.settled_turn),
            "last_rss_bytes": self.resident(len(self.turns)),
            "growth_bytes": self.growth,
            "dropped_turns": self.dropped,
            "too_long": self.refused,
            "last_by_first_quarter": self.slowdown and rounded(self.slowdown),
            "bands": [
                {"low": band.low, "high": band.high, "first_ms": rounded(band.first_ms),
                 "last_ms": rounded(band.last_ms)}
                for band in self.bands()
            ],
            "killed": killed and {"after_turn": killed.turn, "compared": killed.compared,
                                  "same": killed.same, "notices": list(killed.notices)},
            "rss_bytes": [turn.rss_bytes for turn in self.turns],
            "ms_per_token": [turn.ms_per_token and rounded(turn.ms_per_token) for turn in self.turns],
            "prompt_tokens": [turn.prompt_tokens for turn in self.turns],
        }  # fmt: skip


def long_chat(side: Side, texts: Sequence[str], turns: int, *, progress: Progress) -> ChatReport:
    """A chat of ``turns`` turns of the user: ``texts`` over and over.

    Raises MemoryBudgetError when its budget is too small, and what ``Worker`` raises.
    """
    with Worker(side) as worker:
        facts = _opened(worker)
        return ChatReport(facts, _converse(worker, texts, range(turns), progress))


def killed_chat(
    side: Side, texts: Sequence[str], report: ChatReport, seed: int, *, progress: Progress
) -> Killed:
    """The same chat again up to a random turn of ``seed``, where its process is killed; what another process
    makes of the saved session, compared with ``report``. Raises UsageError for a chat of one turn.
    """
    count = len(report.turns)
    if count < 2:
        raise UsageError("a chat that is killed and goes on needs two turns", hint="use --turns 2 or more")
    at = random.Random(seed).randint(1, count - 1)
    after = range(at, min(at + COMPARED_TURNS, count))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "session")
        with Worker(side) as worker:
            _opened(worker)
            _converse(worker, texts, range(at), progress)
            worker.request("save", path=path)
            worker.kill()
        with Worker(side) as worker:
            facts = _opened(worker)
            notices = worker.request("restore", path=path)["notices"]
            found = _converse(worker, texts, after, progress)
    if facts["memory"]["choice"] != report.facts["memory"]["choice"]:
        notices.append("the restarted process measured more memory, so its plan gives up more")
    same = sum(mine.tokens == report.turns[turn].tokens for turn, mine in zip(after, found, strict=True))
    return Killed(at, len(after), same, tuple(notices))


def _opened(worker: Worker) -> dict[str, Any]:
    facts = worker.open()
    if "refused" in facts:
        raise MemoryBudgetError(facts["refused"])
    return facts


def _converse(worker: Worker, texts: Sequence[str], turns: range, progress: Progress) -> list[Turn]:
    found = []
    for turn in turns:
        progress("turns", turn - turns.start, len(turns))
        found.append(Turn(**worker.request("say", text=texts[turn % len(texts)])))
    progress("turns", len(turns), len(turns))
    return found
