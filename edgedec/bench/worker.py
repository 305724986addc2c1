"""One side of a comparison in a process of its own: requests and answers are JSON lines over pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from edgedec.core.errors import BackendError, UsageError

_SERVE = Path(__file__).parent / "peers" / "serve.py"
_PATIENCE_S = 10.0
_MOST_ENDING = 4096
_KILLED = "the system kills what takes too much memory; measure fewer peers at a time"


@dataclass(frozen=True, slots=True)
class Side:
    """What is measured: a program of ``peers``, the interpreter that runs it and the model it opens.

    ``settings`` are the arguments of its ``open``; ``modules`` what it imports and the user may lack;
    ``advice`` what to do when it cannot be imported or crashes; ``environment`` is added to ours.
    ``cache``: where it keeps the model that it has to make of ``model`` first (see ``prepare``).
    """

    name: str
    program: Path
    model: Path
    python: str = sys.executable
    settings: dict[str, Any] = field(default_factory=dict)
    advice: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    cache: Path | None = None


class Worker:
    """The process of one side, ready after ``open``; leaving the context ends it.

    Raises UsageError when the interpreter cannot be started or lacks a module, BackendError when the process
    dies or refuses a request.
    """

    def __init__(self, side: Side, begin: Callable[[], None] | None = None) -> None:
        """``begin`` runs in the new process before its program does."""
        self.side = side
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        try:
            self._process = subprocess.Popen(
                [side.python, str(_SERVE), str(side.program)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, **side.environment},
                encoding="utf-8",
                preexec_fn=begin,
            )
        except OSError as error:
            self._errors.close()
            raise UsageError(
                f"cannot run {side.python}: {error.strerror}", hint="name a Python with --peer-python"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._errors.close()
        if kind is not None:
            self._process.kill()
        with self._process:  # closes both pipes, which ends it, and waits
            try:
                assert self._process.stdin is not None
                self._process.stdin.close()
                self._process.wait(_PATIENCE_S)
            except (subprocess.TimeoutExpired, BrokenPipeError):
                self._process.kill()

    def open(self) -> dict[str, Any]:
        """Load the side's model. Keys of the answer: load_s (imports included), version, isa."""
        return self.request("open", model=str(self.side.model), **self.side.settings)

    def request(self, op: str, **arguments: Any) -> dict[str, Any]:
        """One request and its answer; the caller waits, so only one side ever works."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise self._death()
        answer: dict[str, Any] = json.loads(line)
        if "result" in answer:
            return dict(answer["result"])
        if missing := answer["missing"]:
            raise UsageError(f"{self.side.python} has no module {missing}", hint=self.side.advice)
        raise BackendError(f"{self.side.name} failed: {answer['error']}")

    def kill(self) -> None:
        """End the process at once, as the system does (SIGKILL); it hears of nothing."""
        self._process.kill()
        self._process.wait()

    def _death(self) -> BackendError:
        status = self._process.wait()
        how = f"ended with status {status}" if status >= 0 else f"crashed ({_signal_name(-status)})"
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - _MOST_ENDING))
        lines = self._errors.read().decode("utf-8", errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        hint = _KILLED if status == -signal.SIGKILL else self.side.advice
        return BackendError(f"{self.side.name} {how}" + (f": {last[:200]}" if last else ""), hint=hint)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
