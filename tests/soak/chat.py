"""A long chat within one memory budget: growth of memory and of time per token, and a kill in between."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from edgedec.bench.harness.worker import Side, Worker
from edgedec.core.errors import MemoryBudgetError, UsageError

SETTLED_TURN = 20
"""Turn by which buffers have their largest size and the context is full; half of a shorter chat."""
_WINDOW_TURNS = 10
"""Turns over which the peak is taken. Memory goes up and down, because dropped turns are freed."""
COMPARED_TURNS = 5
"""Replies after a restart that are compared with those of the chat that was not killed."""
_BANDS = 8
"""Contexts are equal when they are in the same eighth of the longest."""


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """A reply with its memory and times. ``refused``: the reason why a turn has no reply."""

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
        """Decoding time; None for a reply of one token."""
        return 1e3 * self.decode_s / (len(self.tokens) - 1) if len(self.tokens) > 1 else None


@dataclass(frozen=True, slots=True)
class ContextBand:
    """Contexts of ``low`` to ``high`` tokens: median ms per token in a chat's first and last quarter."""

    low: int
    high: int
    first_ms: float
    last_ms: float

    @property
    def ratio(self) -> float:
        return self.last_ms / self.first_ms


@dataclass(frozen=True, slots=True)
class KilledChat:
    """A chat that was saved after turn ``turn``, killed (SIGKILL) and restored in another process.

    ``same`` of the next ``compared`` replies have the tokens of the chat that was not killed.
    """

    turn: int
    compared: int
    same: int
    notices: tuple[str, ...] = ()


@dataclass(slots=True)
class LongChatReport:
    """All turns. ``facts`` are those of the side when it loaded its model: ``capacity``, ``memory``."""

    facts: dict[str, Any]
    turns: list[ChatTurn]
    killed: KilledChat | None = None

    @property
    def settled_turn(self) -> int:
        """Turn (from 1) whose memory is compared with that of the last one."""
        return max(min(SETTLED_TURN, len(self.turns) // 2), 1)

    def resident(self, turn: int) -> int:
        """Return the most bytes that were resident after a turn (from 1) and the turns just before it."""
        window = min(_WINDOW_TURNS, self.settled_turn)
        return max(one.rss_bytes for one in self.turns[turn - window : turn])

    @property
    def growth(self) -> int:
        """Bytes by which resident memory grew from the settled turn to the last one."""
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

    def bands(self) -> list[ContextBand]:
        """Return the contexts that both the first and the last quarter had, shortest first."""
        quarter = max(len(self.turns) // 4, 1)
        first, last = (self._by_band(some) for some in (self.turns[:quarter], self.turns[-quarter:]))
        width = self._width
        return [
            ContextBand(band * width, (band + 1) * width, median(first[band]), median(last[band]))
            for band in sorted(first.keys() & last.keys())
        ]

    @property
    def slowdown(self) -> float | None:
        """Time per token in the last quarter divided by the first, at equal context: median over bands."""
        ratios = [band.ratio for band in self.bands()]
        return median(ratios) if ratios else None

    @property
    def _width(self) -> int:
        return max(int(self.facts["capacity"]) // _BANDS, 1)

    def _by_band(self, turns: Sequence[ChatTurn]) -> dict[int, list[float]]:
        found: dict[int, list[float]] = {}
        for turn in turns:
            if (ms := turn.ms_per_token) is not None:
                found.setdefault(turn.prompt_tokens // self._width, []).append(ms)
        return found


PEER = Path(__file__).with_name("chat_peer.py")


def side_of(bundle: Path, max_tokens: int, **config: Any) -> Side:
    """Return the side that has a chat with the bundle; ``config``: fields of ``RunConfig``."""
    return Side("edgedec", PEER, bundle, settings={"config": config, "max_tokens": max_tokens})


def long_chat(side: Side, texts: Sequence[str], turns: int) -> LongChatReport:
    """Have a chat of ``turns`` turns of the user, who repeats ``texts``.

    Raises MemoryBudgetError when its budget is too small, and the errors of ``Worker``.
    """
    with Worker(side) as worker:
        facts = _opened(worker)
        return LongChatReport(facts, _converse(worker, texts, range(turns)))


def killed_chat(side: Side, texts: Sequence[str], report: LongChatReport, seed: int) -> KilledChat:
    """Have the same chat again up to a random turn of ``seed``, kill its process, and continue in another.

    The replies after it are compared with ``report``. Raises UsageError for a chat of one turn.
    """
    count = len(report.turns)
    if count < 2:
        raise UsageError("a chat that is killed and continues needs two turns", hint="use two turns or more")
    at = random.Random(seed).randint(1, count - 1)
    after = range(at, min(at + COMPARED_TURNS, count))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "session")
        with Worker(side) as worker:
            _opened(worker)
            _converse(worker, texts, range(at))
            worker.request("save", path=path)
            worker.kill()
        with Worker(side) as worker:
            facts = _opened(worker)
            notices = worker.request("restore", path=path)["notices"]
            found = _converse(worker, texts, after)
    if facts["memory"]["choice"] != report.facts["memory"]["choice"]:
        notices.append("the restarted process measured more memory, so its plan gives up more")
    same = sum(mine.tokens == report.turns[turn].tokens for turn, mine in zip(after, found, strict=True))
    return KilledChat(at, len(after), same, tuple(notices))


def _opened(worker: Worker) -> dict[str, Any]:
    facts = worker.open()
    if "refused" in facts:
        raise MemoryBudgetError(facts["refused"])
    return facts


def _converse(worker: Worker, texts: Sequence[str], turns: range) -> list[ChatTurn]:
    found = []
    for turn in turns:
        found.append(ChatTurn(**worker.request("say", text=texts[turn % len(texts)])))
    return found
