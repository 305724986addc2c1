"""Sides made of the fake peer, and what they were asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgedec.bench.harness.worker import Side
from edgedec.telemetry.energy.estimate import MODEL

PROGRAM = Path(__file__).with_name("fake_peer.py")


def estimated(facts: dict[str, Any]) -> list[str]:
    """The sides of a report whose joules are an estimate within its bounds, of those it has: all."""
    found = facts["energy"]
    assert found["reason"]
    for side in found["sides"].values():
        assert (side["source"], side["estimated"]) == (MODEL, True)
        assert 0 <= side["low"] <= side["joules_per_token"] <= side["high"] > 0
    return list(found["sides"])


class Fakes:
    """Fake sides that write to one log."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "log"

    def side(
        self,
        name: str,
        *,
        seconds: float = 1.0,
        trouble: str = "",
        advice: str | None = None,
        cache: Path | None = None,
        megabytes: int = 0,
        capacity: int = 0,
    ) -> Side:
        environment = {
            "FAKE_LOG": str(self._log),
            "FAKE_NAME": name,
            "FAKE_SECONDS": str(seconds),
            "FAKE_TROUBLE": trouble,
            "FAKE_MB": str(megabytes),
            "FAKE_CAPACITY": str(capacity),
        }
        return Side(name, PROGRAM, Path("model"), advice=advice, environment=environment, cache=cache)

    def asked(self, op: str | None = None) -> list[dict[str, Any]]:
        """Every request in the order of time, or those of one kind."""
        lines = [json.loads(line) for line in self._log.read_text(encoding="utf-8").splitlines()]
        return [line for line in lines if op in (None, line["op"])]
