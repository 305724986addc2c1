"""Whether the installed llama.cpp can run a file: found out in another process, which may crash, and kept."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import util
from pathlib import Path
from typing import Any

from edgedec.backends.llama_cpp.advice import REBUILD
from edgedec.core.errors import BackendError, EdgeDecError, StorageError, UnsupportedError
from edgedec.core.version import __version__
from edgedec.disk.files import atomic_path
from edgedec.disk.home import default_home
from edgedec.disk.installing import pip_install
from edgedec.system.process import ended_by, was_killed
from edgedec.telemetry.machine import describe

MODULE = "llama_cpp"
WORKER = [sys.executable, "-P", "-m", "edgedec.backends.llama_cpp.probe_worker"]
"""-P, for a file llama_cpp.py where the user happens to stand is not to be run."""
PATIENCE_S = 60.0
_BYTES_PER_S = 50e6
"""A disk slower than this is not waited for."""
_SIZES = ("vocab", "layers", "heads", "kv_heads", "hidden", "context")
_MOST_CHARS = 1 << 16

Facts = dict[str, Any]


def installed() -> bool:
    """Whether there is a llama-cpp-python; it is not imported."""
    return util.find_spec(MODULE) is not None


def probe(model: Path, sha256: str) -> Facts:
    """Facts about the GGUF file ``model``, of this hash: ``vocab``, ``layers``, ``heads``, ``kv_heads``,
    ``hidden`` and ``context``.

    The first time a process of its own loads it and runs a pass over 8 tokens; these facts are
    kept in EDGEDEC_HOME until the library, the processor or the file changes. Failures are not kept.
    Raises UnsupportedError without the library, with one too old, or for a model that it cannot run;
    BackendError when it crashes or hangs.
    """
    if not installed():
        raise UnsupportedError("running this model takes llama-cpp-python", hint=pip_install("gguf"))
    kept = default_home() / "llama.cpp" / f"{_conditions(model, sha256)}.json"
    if (facts := _read(kept)) is not None:
        return facts
    facts = _facts(_ask(model))
    try:
        with atomic_path(kept) as temporary:
            temporary.write_text(json.dumps(facts), encoding="utf-8", newline="\n")
    except StorageError:
        return facts  # the next start asks again
    return facts


def _conditions(model: Path, sha256: str) -> str:
    """A name for this file, library and processor."""
    spec = util.find_spec(MODULE)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files = sorted(file for folder in folders for file in Path(folder).glob("lib/*"))
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    stats += [(folder, 0, Path(folder).stat().st_mtime_ns) for folder in folders]
    stats.append((sha256, model.stat().st_size, model.stat().st_mtime_ns))
    machine = describe()
    named = [__version__, sys.executable, stats, machine.cpu, machine.features]
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()[:32]


def _read(kept: Path) -> Facts | None:
    try:
        return _checked(json.loads(kept.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return None


def _checked(facts: Any) -> Facts | None:
    whole = isinstance(facts, dict) and all(type(facts.get(name)) is int for name in _SIZES)
    return facts if whole else None


def _ask(model: Path) -> dict[str, Any]:
    """The worker's answer. Raises BackendError when there is none."""
    limit = PATIENCE_S + model.stat().st_size / _BYTES_PER_S
    try:
        done = subprocess.run(
            [*WORKER, str(model.resolve())],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit,
            check=False,
            env={**os.environ, "GGML_NO_BACKTRACE": "1"},
        )
    except subprocess.TimeoutExpired:
        raise BackendError(
            f"llama.cpp did not load {model.name} and run 8 tokens within {limit:.0f} s", hint=REBUILD
        ) from None
    except OSError as error:
        raise BackendError(f"cannot start {WORKER[0]}: {error.strerror}") from error
    answer = _last_object(done.stdout.decode("utf-8", errors="replace").split("\n"))
    if answer is None:
        raise _death(done.returncode, done.stderr.decode("utf-8", errors="replace")[-_MOST_CHARS:])
    return answer


def _last_object(lines: Sequence[str]) -> dict[str, Any] | None:
    last = next((line for line in reversed(lines) if line.strip()), "")
    try:
        found = json.loads(last[:_MOST_CHARS])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _facts(answer: dict[str, Any]) -> Facts:
    """Raises the error that the answer is about."""
    facts = _checked(answer.get("facts"))
    if facts is None:
        raise _refusal(answer)
    if not facts.get("generates"):
        raise UnsupportedError("llama.cpp loads this model, but it is none that continues text")
    return facts


def _refusal(answer: dict[str, Any]) -> EdgeDecError:
    if missing := answer.get("missing"):
        hint = pip_install("gguf")
        return UnsupportedError(f"llama-cpp-python cannot be imported: no module {missing}", hint=hint)
    if old := answer.get("old"):
        message = f"llama-cpp-python {old} is too old: it has no {answer.get('lacks')}"
        return UnsupportedError(message, hint=pip_install("gguf", "--upgrade"))
    return UnsupportedError(str(answer.get("error", "llama.cpp gave no answer that can be read")))


def _death(status: int, errors: str) -> BackendError:
    lines = [line.strip() for line in errors.split("\n") if line.strip()]
    said = f": {lines[-1][:200]}" if lines else ""
    if (by := ended_by(status)) is None:
        return BackendError(f"llama.cpp ended with status {status}{said}", hint=REBUILD)
    if was_killed(status):
        return BackendError(
            "llama.cpp was killed while it loaded the model", hint="it may need more memory than there is"
        )
    return BackendError(f"llama.cpp crashed ({by}){said}", hint=REBUILD)
