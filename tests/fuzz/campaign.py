"""Keeps workers busy, restarts those that die or hang, and makes what was found small."""

from __future__ import annotations

import json
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.fuzz.target import Link
from tests.fuzz.targets import TARGETS, damaged

WORKER = ("-m", "tests.fuzz.worker")
BATCH = 50
_START_S = 300.0
_KEPT = 40
"""Findings made small and written out; any more are only counted."""


@dataclass(frozen=True, slots=True)
class Plan:
    """``inputs`` in all, in equal shares; ``limit_s`` for each; ``memory``: bytes beyond a worker's start."""

    targets: tuple[str, ...]
    inputs: int
    seed: int = 0
    seconds: float = float("inf")
    workers: int = 2
    limit_s: float = 10.0
    memory: int = 1 << 30
    save: Path | None = None


@dataclass(slots=True)
class Tally:
    """What became of the inputs of one target."""

    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    most_bytes: int = 0
    """Resident at the peak of one input, beyond those before it."""


@dataclass(slots=True)
class Finding:
    """An input that ended in neither success nor a one-line EdgeDecError. ``steps``: the damage it needs."""

    target: str
    seed: int
    index: int
    kind: str
    where: str
    error: str = ""
    steps: tuple[int, ...] = ()
    times: int = 1


@dataclass(slots=True)
class Summary:
    """Of a campaign, by target; ``seconds`` it ran."""

    tallies: dict[str, Tally]
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0


class Died(Exception):  # noqa: N818 - a worker that dies is news, no error
    """A worker ended or had to be ended; says how."""


class NotStartedError(RuntimeError):
    """A worker ended before its first input, which the next one would do as well: the campaign ends."""


class _Worker:
    def __init__(self, corpus: Path, plan: Plan) -> None:
        self._limit_s = plan.limit_s
        command = [sys.executable, *WORKER, str(corpus), str(plan.memory), *plan.targets]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0
        )
        self._ready = False

    def send(self, **request: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The next one. Raises Died: a line is small and written at once, so part of one means death."""
        out = self._process.stdout
        assert out is not None
        if not self._ready:
            if not self._within(_START_S):
                raise NotStartedError(f"a worker did not start within {_START_S:.0f} s")
            if self._line() != b"ready\n":
                self._process.wait(_START_S)  # its last words come behind the end of its answers
                raise NotStartedError(f"a worker did not start: {self._last_words()}")
            self._ready = True
        if not self._within(self._limit_s):
            raise Died("hang")
        line = self._line()
        if not line.endswith(b"\n"):
            status = self._process.wait()
            raise Died(
                signal.Signals(-status).name if status < 0 else f"status {status}: {self._last_words()}"
            )
        return dict(json.loads(line))

    def _within(self, seconds: float) -> bool:
        return bool(select.select([self._process.stdout], [], [], seconds)[0])

    def _line(self) -> bytes:
        # The pipe is unbuffered, so that select never waits for what has been read already.
        out, line = self._process.stdout, b""
        assert out is not None
        while not line.endswith(b"\n") and (piece := out.read(1)):
            line += piece
        return line

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        reports = [line for line in lines if "runtime error:" in line or "ERROR: AddressSanitizer" in line]
        return next((line for line in [*reports, *reversed(lines)] if line.strip()), "")[:300]

    def close(self) -> None:
        self._process.kill()
        with self._process:
            self._errors.close()


class Campaign:
    """Runs a plan; ``summary`` is complete when ``run`` returns."""

    def __init__(self, plan: Plan, corpus: Path) -> None:
        self._plan, self._corpus = plan, corpus
        self._seeds = {name: TARGETS[name].seeds(corpus) for name in plan.targets}
        self._lock = threading.Lock()
        self._work: queue.SimpleQueue[tuple[str, list[int]]] = queue.SimpleQueue()
        self.summary = Summary({name: Tally() for name in plan.targets})

    def run(self) -> Summary:
        started = time.monotonic()
        self._deadline = started + self._plan.seconds
        share = -(-self._plan.inputs // len(self._plan.targets))
        for start in range(0, share, BATCH):
            for name in self._plan.targets:
                self._work.put((name, list(range(start, min(start + BATCH, share)))))
        with ThreadPoolExecutor(self._plan.workers) as threads:
            for served in [threads.submit(self._serve) for _ in range(self._plan.workers)]:
                served.result()  # an error of the fuzzer itself ends the campaign
        self.summary.seconds = time.monotonic() - started
        return self.summary

    def _serve(self) -> None:
        worker = _Worker(self._corpus, self._plan)
        try:
            while time.monotonic() < self._deadline:
                target, indices = self._work.get_nowait()
                while indices:  # after a death, the rest of the batch goes to a new worker
                    left = self._batch(worker, target, indices)
                    if left is not None:
                        worker.close()
                        worker = _Worker(self._corpus, self._plan)
                    indices = left or []
        except queue.Empty:
            pass
        finally:
            worker.close()

    def _batch(self, worker: _Worker, target: str, indices: list[int]) -> list[int] | None:
        """None when all are done, else what is left after the input at which the worker died."""
        worker.send(target=target, seed=self._plan.seed, indices=indices)
        for number, index in enumerate(indices):
            try:
                answer = worker.answer()
            except Died as death:
                self._note(
                    target, index, {"outcome": "finding", "finding": str(death), "where": "", "steps": 5}
                )
                return indices[number + 1 :]
            self._note(target, index, answer)
        return None

    def _note(self, target: str, index: int, answer: dict[str, Any]) -> None:
        with self._lock:
            tally = self.summary.tallies[target]
            tally.inputs += 1
            tally.outcomes[answer["outcome"]] += 1
            tally.slowest_s = max(tally.slowest_s, answer.get("seconds", 0.0))
            tally.most_bytes = max(tally.most_bytes, answer.get("peak", 0))
            if "finding" not in answer:
                return
            found = Finding(
                target, self._plan.seed, index, answer["finding"], answer["where"], answer.get("error", "")
            )
            same = [
                f
                for f in self.summary.findings
                if (f.target, f.kind, f.where) == (target, found.kind, found.where)
            ]
            if same and found.where:
                same[0].times += 1
                return
            self.summary.findings.append(found)
            if len(self.summary.findings) > _KEPT:
                return
        found.steps = self._smallest(found, int(answer["steps"]))
        self._save(found)

    def _smallest(self, found: Finding, steps: int) -> tuple[int, ...]:
        """The steps of damage without any that can be left out."""
        kept = tuple(range(steps))
        for step in range(steps):
            fewer = tuple(number for number in kept if number != step)
            if self._again(found, fewer) == found.kind:
                kept = fewer
        return kept

    def _again(self, found: Finding, keep: tuple[int, ...]) -> str | None:
        worker = _Worker(self._corpus, self._plan)
        try:
            worker.send(target=found.target, seed=found.seed, indices=[found.index], keep=keep)
            answer = worker.answer()
            return str(answer.get("finding")) if "finding" in answer else None
        except Died as death:
            return str(death)
        finally:
            worker.close()

    def _save(self, found: Finding) -> None:
        if self._plan.save is None:
            return
        folder = self._plan.save / f"{found.target}-{found.seed}-{found.index}"
        folder.mkdir(parents=True, exist_ok=True)
        target = TARGETS[found.target]
        files, rest, _ = damaged(target, self._seeds[found.target], found.seed, found.index, found.steps)
        for name, data in (files | rest).items():
            path = folder / (f"{name}.link" if isinstance(data, Link) else name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        (folder / "finding.json").write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")


def run(plan: Plan) -> Summary:
    """All of ``plan``, with its seeds in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="edgedec-corpus-") as name:
        return Campaign(plan, Path(name)).run()
