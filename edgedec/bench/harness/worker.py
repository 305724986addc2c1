"""A process for one side of a comparison. Requests and answers are JSON lines over pipes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from edgedec.core.errors import BackendError, UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.system.process import ended_by, was_killed

_SERVE = Path(__file__).with_name("serve.py")
_EXIT_WAIT_S = 10.0
_MOST_ERROR_BYTES = 4096
_KILLED = "the system kills processes that take too much memory; measure fewer peers at a time"


@dataclass(frozen=True, slots=True)
class Side:
    """A side of a comparison: a program of ``peers``, its interpreter, and the model it opens.

    - ``settings``: arguments of the program's ``open``.
    - ``advice``: hint for a user whose interpreter lacks the runtime, or whose runtime crashes.
    - ``environment``: variables added to those of this process.
    - ``cache``: folder for the model that the side makes of ``model`` first; see ``prepare``.
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
    """Process of one side, ready after ``open``. Leaving the context ends it.

    Raises UsageError when the interpreter cannot be started or lacks a module, BackendError when the process
    dies or refuses a request.
    """

    def __init__(self, side: Side, begin: Callable[[], None] | None = None) -> None:
        """``begin`` runs in the new process before the program."""
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
                f"cannot run {side.python}: {error.strerror}", hint="name another Python for this runtime"
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
                self._process.wait(_EXIT_WAIT_S)
            except (subprocess.TimeoutExpired, BrokenPipeError):
                self._process.kill()

    def open(self) -> dict[str, Any]:
        """Load the side's model. The answer has load_s (seconds, imports included), version and isa."""
        return self.request("open", model=str(self.side.model), **self.side.settings)

    def request(self, op: str, **arguments: Any) -> dict[str, Any]:
        """Send one request and return its result. The caller waits, so only one side ever works."""
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
        """End the process at once with SIGKILL, without a chance to clean up."""
        self._process.kill()
        self._process.wait()

    def _death(self) -> BackendError:
        status = self._process.wait()
        by = ended_by(status)
        how = f"crashed ({by})" if by else f"ended with status {status}"
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - _MOST_ERROR_BYTES))
        lines = self._errors.read().decode("utf-8", errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        hint = _KILLED if was_killed(status) else self.side.advice
        return BackendError(f"{self.side.name} {how}" + (f": {last[:200]}" if last else ""), hint=hint)
