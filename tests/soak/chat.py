"""A long chat within one memory budget: growth of memory, and a kill in between."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgedec.bench.harness.worker import Side, Worker

SETTLED_TURN = 20
"""Turn by which buffers have their largest size and the context is full; half of a shorter chat."""
_WINDOW_TURNS = 10
"""Turns over which the peak is taken. Memory goes up and down, because dropped turns are freed."""
COMPARED_TURNS = 5
"""Replies after a restart that are compared with those of the chat that was not killed."""
PEER = Path(__file__).with_name("chat_peer.py")


@dataclass(frozen=True, slots=True)
class LongChat:
    """All turns as ``chat_peer`` tells them. ``facts``: those of the model: ``capacity``, ``memory``."""

    facts: dict[str, Any]
    turns: list[dict[str, Any]]

    def most(self, name: str) -> int:
        return max(turn[name] for turn in self.turns)

    @property
    def growth(self) -> int:
        """Bytes by which resident memory grew from the turn at which it had settled to the last one."""
        settled = min(SETTLED_TURN, len(self.turns) // 2)
        window = min(_WINDOW_TURNS, settled)
        resident = [turn["rss_bytes"] for turn in self.turns]
        return max(resident[-window:]) - max(resident[settled - window : settled])


def side_of(bundle: Path, max_tokens: int, **config: Any) -> Side:
    """Return the side that has a chat with the bundle; ``config``: fields of ``RunConfig``."""
    return Side("edgedec", PEER, bundle, settings={"config": config, "max_tokens": max_tokens})


def long_chat(side: Side, texts: Sequence[str], turns: int) -> LongChat:
    """Have a chat of ``turns`` turns of the user, who repeats ``texts``."""
    with Worker(side) as worker:
        return LongChat(worker.open(), _converse(worker, texts, range(turns)))


def replies_after_a_kill(side: Side, texts: Sequence[str], turn: int) -> list[list[int]]:
    """Have the same chat again, save it after ``turn``, kill its process, and continue in another."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "session")
        with Worker(side) as worker:
            worker.open()
            _converse(worker, texts, range(turn))
            worker.request("save", path=path)
            worker.kill()
        with Worker(side) as worker:
            worker.open()
            worker.request("restore", path=path)
            after = _converse(worker, texts, range(turn, turn + COMPARED_TURNS))
    return [one["tokens"] for one in after]


def _converse(worker: Worker, texts: Sequence[str], turns: range) -> list[dict[str, Any]]:
    return [worker.request("say", text=texts[turn % len(texts)]) for turn in turns]
