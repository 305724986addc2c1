"""Runs Python code that a model wrote: in a process of its own, with limits, in an empty folder.

It keeps mistakes from doing harm: endless loops, memory without end, files, processes, connections. It is no
wall against code that was written to break out.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence

_SECONDS = 10
_MEMORY_BYTES = 1 << 30
_FENCE = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_GUARD = f"""
import sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CPU, ({_SECONDS}, {_SECONDS}))
    resource.setrlimit(resource.RLIMIT_AS, ({_MEMORY_BYTES}, {_MEMORY_BYTES}))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    del resource
except ImportError:
    pass
def _guard(event, args):
    if event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn",
                         "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.kill", "os.chmod",
                         "shutil.", "ctypes.")):
        raise PermissionError(event)
    if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        raise PermissionError(event)
code, tests = eval(sys.stdin.read())
sys.addaudithook(_guard)
known = {{"__name__": "solution"}}
exec(code, known)
for test in tests:
    if not eval(test, known):
        sys.exit(1)
print("all tests hold", flush=True)
"""


def code_of(reply: str) -> str:
    """Return the first fenced block of code of a reply, or all of it."""
    found = _FENCE.search(reply)
    return found[1] if found else reply


def passes(code: str, tests: Sequence[str], *, seconds: float = _SECONDS) -> bool:
    """Whether ``code`` runs and all ``tests``, expressions, are true after it."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            ended = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _GUARD],
                input=repr((code, tuple(tests))),
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
                cwd=folder,
                env={},
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
    return ended.returncode == 0 and ended.stdout.endswith("all tests hold\n")
