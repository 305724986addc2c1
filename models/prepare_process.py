"""Prepare a model in a process of its own, so that its memory is free again when the model is opened.

The worker is ``python -P -m edgedec.models.prepare_worker``. It gets the order as JSON in its argument, and
writes one JSON object a line: a notice, progress, and at last the bundle or the error. It ends when its
standard input does, so it does not outlive this process.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgedec.core import errors
from edgedec.core.errors import BackendError, EdgeDecError, NotFoundError, Remedy
from edgedec.core.progress import Notice, Progress
from edgedec.core.quick_dataclass import dataclass
from edgedec.system.process import ask_to_end, own_group

WORKER = (sys.executable, "-P", "-m", "edgedec.models.prepare_worker")
_PATIENCE_S = 10.0
"""Time for a worker to clean up after itself before it is killed."""


@dataclass(frozen=True, slots=True)
class Order:
    """The arguments of ``Store.pull``, and the home of its store; paths as text."""

    home: str
    reference: str
    force: bool = False
    keep_source: bool = False
    source: str | None = None

    def to_json(self) -> str:
        """Return the order as one line of ASCII. File names that are not valid text survive."""
        return json.dumps(asdict(self))


def prepare_in_subprocess(order: Order, notice: Notice, progress: Progress) -> Path:
    """Carry out ``order`` in a worker and return the bundle.

    Any exception in this process, Ctrl-C too, ends the worker first. Raises the errors of ``Store.pull``, and
    BackendError when the worker dies.
    """
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    # The worker has a group of its own: Ctrl-C reaches this process alone, which then ends the worker.
    with subprocess.Popen([*WORKER, order.to_json()], **own_group(), **pipes) as worker:
        try:
            assert worker.stdout is not None
            for line in worker.stdout:
                message = json.loads(line)
                if "progress" in message:
                    progress(*message["progress"])
                elif "notice" in message:
                    notice(message["notice"])
                elif "error" in message:
                    raise rebuilt(message["error"])
                else:
                    return Path(message["bundle"])
        except BaseException:
            ask_to_end(worker)
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.wait(_PATIENCE_S)
            worker.kill()
            raise
    hint = "it may need more memory than there is" if worker.returncode < 0 else None
    ended = f"its process ended with status {worker.returncode}"
    raise BackendError(f"{order.reference} could not be prepared: {ended}", hint=hint)


def described(error: Exception) -> dict[str, Any]:
    """Return an error as JSON data for ``rebuilt``."""
    if isinstance(error, EdgeDecError):
        kind = next(one for one in type(error).__mro__ if one.__module__ == errors.__name__)
        remedies = [[one.name, one.value] for one in error.remedies]
        near = {"near": error.near} if isinstance(error, NotFoundError) else {}
        fields = {"message": error.message, "hint": error.hint, "remedies": remedies}
        return {"kind": kind.__name__, **fields, **near}
    if isinstance(error, OSError):
        file = None if error.filename is None else str(error.filename)
        return {"kind": "OSError", "errno": error.errno, "message": error.strerror, "file": file}
    return {"kind": type(error).__name__, "message": str(error)}


def rebuilt(found: dict[str, Any]) -> Exception:
    """Return an error of the worker as one of this process."""
    kind, message = found["kind"], found["message"]
    if "remedies" in found:
        remedies = tuple(Remedy(name, value) for name, value in found["remedies"])
        known: type[EdgeDecError] = getattr(errors, kind)
        near = {"near": found["near"]} if "near" in found else {}
        return known(message, hint=found["hint"], remedy=remedies, **near)
    if kind == "OSError":
        return OSError(found["errno"], message, found["file"])
    if kind == "MemoryError":
        return MemoryError(message)
    return RuntimeError(f"{kind}: {message}")
