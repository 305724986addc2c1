"""Feeds inputs to EdgeDec in a process of its own, whose address space is limited.

It says ``ready``; then a request is a line of JSON, ``{"target", "seed", "indices", "keep"}``. Every input is
answered by a line: its ``index``, the number of ``steps`` that damaged it, its ``outcome`` (accepted, or the
class of the error), the ``seconds`` it took, and ``finding`` when the outcome is one that no user may meet.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgedec.core.errors import EdgeDecError
from tests.fuzz.target import Files, Target
from tests.fuzz.targets import TARGETS, damaged
from tests.fuzz.watch import Memory, Place

_MOST_CHARS = 2500
Seeds = list[tuple[Files, Files]]


def main() -> None:
    corpus, memory = Path(sys.argv[1]), int(sys.argv[2])
    sys.modules["llama_cpp"] = None  # type: ignore[assignment] # what EdgeDec refuses stays refused
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as channel:
        os.dup2(2, 1)  # what libraries print is no answer
        warnings.simplefilter("ignore")
        wanted = [TARGETS[name] for name in sys.argv[3:] or TARGETS]
        with (corpus / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another worker may be writing the same files again
            seeds = {target.name: target.seeds(corpus) for target in wanted}
        with tempfile.TemporaryDirectory(prefix="edgedec-fuzz-") as name:
            place = Place(Path(name))
            _warm_up(wanted, seeds, place)
            _limit(memory)
            channel.write("ready\n")
            channel.flush()
            for line in sys.stdin:
                for answer in _answers(json.loads(line), seeds, place, memory):
                    channel.write(json.dumps(answer) + "\n")
                    channel.flush()


def _warm_up(wanted: list[Target], seeds: dict[str, Seeds], place: Place) -> None:
    """Read every seed undamaged: imports take memory before the limit, and seeds that fail test nothing."""
    for target in wanted:
        for files, rest in seeds[target.name]:
            place.put(files | rest)
            target.read(place.folder)


def _limit(memory: int) -> None:
    """At most ``memory`` bytes of address space beyond what is in use, and no core dumps.

    A sanitizer's shadow takes more than there is; the peak of what is resident is watched all the same.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if "libasan" in os.environ.get("LD_PRELOAD", ""):
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    total = pages * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_AS, (total, total))


def _answers(
    request: dict[str, Any], seeds: dict[str, Seeds], place: Place, most: int
) -> Iterator[dict[str, Any]]:
    target, memory = TARGETS[request["target"]], Memory()
    for index in request["indices"]:
        keep = None if request.get("keep") is None else tuple(request["keep"])
        files, rest, steps = damaged(target, seeds[target.name], request["seed"], index, keep)
        place.put(files | rest)
        started = time.perf_counter()
        with memory.measured(), place.watched():
            found = _outcome(target, place.folder)
        seconds = time.perf_counter() - started
        if "finding" not in found and (misdeed := place.misdeed()):
            found |= {"finding": "misdeed", "where": "", "error": misdeed}
        if "finding" not in found and memory.peak > most // 4:
            found |= {"finding": "hunger", "where": "", "error": f"{memory.peak >> 20} MiB"}
        yield {"index": index, "steps": steps, "seconds": seconds, "peak": memory.peak, **found}


def _outcome(target: Target, folder: Path) -> dict[str, str]:
    try:
        target.read(folder)
    except EdgeDecError as error:
        text, kind = str(error), type(error).__name__
        wrong = None
        if not text.strip() or not text.isprintable() or len(text) > _MOST_CHARS:
            wrong = "not a readable line"
        elif not any(part in text for part in target.parts):
            wrong = "names no part"
        if wrong is None:
            return {"outcome": kind}
        return {"outcome": kind, "finding": wrong, "where": _where(error), "error": repr(text)[:300]}
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
    here = str(Path(__file__).parent)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(here)]
    own = [
        frame
        for frame in frames
        if "site-packages" not in frame.filename and "/lib/python" not in frame.filename
    ]
    frame = (own or frames or [None])[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}" if frame else "?"


if __name__ == "__main__":
    main()
