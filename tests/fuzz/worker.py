"""Feeds inputs to EdgeDec in a process of its own, whose address space is limited.

It says ``ready``; then a request is a line of JSON, ``{"target", "seed", "indices", "keep"}``. Every input is
answered by a line: its ``index``, the number of ``steps`` that damaged it, its ``outcome`` (accepted, or the
class of the error), the ``seconds`` it took, and ``finding`` when the outcome is one that no user may meet.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgedec.core.errors import EdgeDecError
from tests.fuzz.targets import TARGETS, Files, Target, damaged

_MOST_CHARS = 2500
Seeds = list[tuple[Files, Files]]


def main() -> None:
    corpus, memory = Path(sys.argv[1]), int(sys.argv[2])
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as channel:
        os.dup2(2, 1)  # what libraries print is no answer
        warnings.simplefilter("ignore")
        seeds = {target.name: target.seeds(corpus) for target in TARGETS.values()}
        _warm_up(seeds)
        _limit(memory)
        channel.write("ready\n")
        channel.flush()
        with tempfile.TemporaryDirectory(prefix="edgedec-fuzz-") as name:
            for line in sys.stdin:
                for answer in _answers(json.loads(line), seeds, Path(name)):
                    channel.write(json.dumps(answer) + "\n")
                    channel.flush()


def _warm_up(seeds: dict[str, Seeds]) -> None:
    """Read every seed undamaged: imports take memory before the limit, and seeds that fail test nothing."""
    with tempfile.TemporaryDirectory(prefix="edgedec-fuzz-") as name:
        for target in TARGETS.values():
            for files, rest in seeds[target.name]:
                _write(Path(name), files | rest)
                target.read(Path(name))


def _limit(memory: int) -> None:
    """At most ``memory`` bytes of address space beyond what is in use, and no core dumps."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    total = pages * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_AS, (total, total))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answers(request: dict[str, Any], seeds: dict[str, Seeds], folder: Path) -> Iterator[dict[str, Any]]:
    target = TARGETS[request["target"]]
    for index in request["indices"]:
        keep = None if request.get("keep") is None else tuple(request["keep"])
        files, rest, steps = damaged(target, seeds[target.name], request["seed"], index, keep)
        _write(folder, files | rest)
        started = time.perf_counter()
        found = _outcome(target, folder)
        yield {"index": index, "steps": steps, "seconds": time.perf_counter() - started, **found}


def _write(folder: Path, files: Files) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "link").symlink_to("/etc/passwd")
    for name, data in files.items():
        (folder / name).write_bytes(data)


def _outcome(target: Target, folder: Path) -> dict[str, str]:
    try:
        target.read(folder)
    except EdgeDecError as error:
        text = str(error)
        if not text.strip() or not text.isprintable() or len(text) > _MOST_CHARS:
            kind, where = type(error).__name__, _where(error)
            return {
                "outcome": kind,
                "finding": "not a readable line",
                "where": where,
                "error": repr(text)[:300],
            }
        return {"outcome": type(error).__name__}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # panics of the tokenizers library are no Exception
        where = _where(error)
        return {
            "outcome": "finding",
            "finding": type(error).__name__,
            "where": where,
            "error": str(error)[:300],
        }
    return {"outcome": "accepted"}


def _where(error: BaseException) -> str:
    """The innermost line of EdgeDec that was running."""
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if f"{os.sep}fuzz{os.sep}" not in f.filename
    ]
    own = [
        frame
        for frame in frames
        if "site-packages" not in frame.filename and "/lib/python" not in frame.filename
    ]
    frame = (own or frames or [None])[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}" if frame else "?"


if __name__ == "__main__":
    main()
