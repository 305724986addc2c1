"""A process of this Python that answers one JSON object on a line with another one.

It is for work that can crash or hang its process. The process ends with the object that started it, and with
this program, also when that is killed.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

PROGRAM = "import sys, runpy; sys.path += sys.argv[2:]; runpy.run_module(sys.argv[1], run_name='__main__')"
"""The program of every such process. Its arguments are a module, and the folders to import it from."""


class ProcessEnded(Exception):  # noqa: N818 - its reader says whose error it is
    """The process ended instead of answering.

    ``written``: all that it wrote. ``code``: its exit status, negative for a signal. ``stopped``: it was
    killed because it did neither.
    """

    def __init__(self, written: bytes, code: int, stopped: bool) -> None:
        super().__init__(f"it ended with {code}")
        self.written, self.code, self.stopped = written, code, stopped


class LineProcess:
    """A process that runs ``module``, which may import ``packages`` beside this one.

    Not for several threads at once. Raises OSError where no process can start, and ImportError for a package
    that is not installed.
    """

    def __init__(self, module: str, packages: Sequence[str]) -> None:
        places = [str(Path(__file__).parents[2]), *map(_import_path, packages)]
        command = [sys.executable, "-I", "-S", "-c", PROGRAM, module, *dict.fromkeys(places)]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere)
        weakref.finalize(self, _end, self.process)

    def ask(self, request: Mapping[str, Any], most_s: float) -> dict[str, Any]:
        """Return the answer to a request; wait ``most_s`` seconds for it. Raises ProcessEnded."""
        stopped = threading.Event()
        try:
            answer = exchange(self.process, request, stopped, most_s)
        except BaseException:  # Ctrl-C too: an answer that nobody read would be taken for the next one's
            self.close()
            raise
        if answer.startswith(b"{"):
            document: dict[str, Any] = json.loads(answer.decode("utf-8", "surrogatepass"))
            return document
        code = self.process.wait()
        self.close()
        raise ProcessEnded(answer, code, stopped.is_set())

    def close(self) -> None:
        """End the process; once is enough."""
        _end(self.process)


def exchange(
    process: subprocess.Popen[bytes], request: Mapping[str, Any], stopped: threading.Event, most_s: float
) -> bytes:
    """Return one line of answer, or everything that the process wrote if it ended instead.

    ``stopped`` is set where it was killed, because it did neither.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    message = json.dumps(request, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"

    def stop() -> None:
        stopped.set()
        process.kill()

    backstop = threading.Timer(most_s, stop)
    backstop.start()
    try:
        process.stdin.write(message)
        process.stdin.flush()
        answer = process.stdout.readline()
        return answer if answer.startswith(b"{") else answer + process.stdout.read()
    except BrokenPipeError:
        return process.stdout.read()
    finally:
        backstop.cancel()


def _import_path(name: str) -> str:
    """Return the folder from which Python imports the package ``name``."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"the package {name} is not installed")
    return str(Path(spec.origin).parents[1])


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # the rest of a request has no reader
                pipe.close()
