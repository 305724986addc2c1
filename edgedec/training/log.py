"""The log of training, a line of JSON each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgedec.disk.files import atomic_path, storage_errors
from edgedec.training.unrolling import Agreement

LOG = "log.jsonl"


class TrainingLog:
    """Lines of losses (``loss`` by depth) and of agreement on held-out replies (``agreement`` by depth)."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOG

    def lines(self) -> list[dict[str, Any]]:
        """Return all whole lines."""
        if not self._path.is_file():
            return []
        return [json.loads(line) for line in self._path.read_bytes().splitlines(True) if line.endswith(b"\n")]

    def seconds_after(self, step: int) -> float:
        """Return the seconds of training until the last line about a later step; 0 without one."""
        return float(max((line["seconds"] for line in self.lines() if line["step"] > step), default=0.0))

    def forget_after(self, step: int) -> None:
        """Drop lines about steps that a kill lost."""
        lines = self.lines()
        kept = [line for line in lines if line["step"] <= step]
        if self._path.is_file():
            with atomic_path(self._path) as temporary:
                temporary.write_text("".join(_line(one) for one in kept), encoding="utf-8", newline="\n")

    def steps(self, step: int, seconds: float, recent: Sequence[dict[str, Any]]) -> None:
        """Add the means of the ``recent`` steps, the last of which is ``step``."""
        means = {
            name: [round(float(value), 4) for value in np.mean([one[name] for one in recent], axis=0)]
            for name in ("loss", "right")
        }
        last = recent[-1]["rate"]
        self._add({"step": step, "seconds": round(seconds, 1), **means, "rate": last})

    def held_out(self, step: int, seconds: float, found: Agreement) -> None:
        """Add a measurement on held-out replies."""
        rates = [round(one, 4) for one in found.rates]
        facts = {"agreement": rates, "tokens_a_pass": round(found.tokens_a_pass, 4)}
        self._add({"step": step, "seconds": round(seconds, 1), **facts})

    def _add(self, fields: dict[str, Any]) -> None:
        with storage_errors(str(self._path)):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8", newline="\n") as stream:
                stream.write(_line(fields))


def _line(fields: dict[str, Any]) -> str:
    return json.dumps(fields) + "\n"
