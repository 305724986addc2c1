"""Serve one peer over pipes: requests are lines of JSON on standard input, answers on standard output.

``python serve.py PEER.py``: the file defines ``class Peer``. A request names one of its public methods, whose
arguments and results are plain JSON. This module answers ``memory`` and ``resident``; a peer may add to
``memory``.
The answer to ``{"op": "open", "model": ...}`` is ``{"result": {...}}`` or
``{"error": "one line", "missing": "module" or null}``.
The module needs nothing but the standard library, so that any interpreter can run it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from typing import Any


def load(path: str) -> Any:
    """Return an instance of the ``Peer`` class of the file at ``path``."""
    spec = importlib.util.spec_from_file_location("edgedec_bench_peer", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Peer()


def peak_rss_bytes() -> int:
    """Return the peak of physical memory, mapped weights included; 0 where it is not known."""
    if peak := _status("VmHWM"):
        return peak
    try:
        import resource
    except ImportError:  # not a Unix
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, others KiB


def _status(name: str) -> int:
    """Return a number of bytes from Linux's /proc/self/status; 0 elsewhere."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith(name + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


class Server:
    """Keeps the peer between requests. Its imports happen inside ``open`` and count as loading."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._peer: Any = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        op = request.pop("op")
        if op.startswith("_"):
            return {"error": f"unknown request {op!r}", "missing": None}
        try:
            return {"result": self._do(op, request)}
        except ModuleNotFoundError as error:
            return {"error": str(error), "missing": error.name}
        except Exception as error:  # the other side of the pipe has to learn of any error
            text = " ".join(str(error).split()) or "no message"
            return {"error": f"{type(error).__name__}: {text}", "missing": None}

    def _do(self, op: str, request: dict[str, Any]) -> Any:
        if op == "memory":
            more = self._peer.memory() if hasattr(self._peer, "memory") else {}
            return {"peak_rss_bytes": peak_rss_bytes(), **more}
        if op == "resident":
            return {"mapped_bytes": _status("RssFile"), "private_bytes": _status("RssAnon")}
        if op == "prepare":
            return load(self._path).prepare(**request)
        if op != "open":
            return getattr(self._peer, op)(**request)
        started = time.perf_counter()
        self._peer = load(self._path)
        facts = self._peer.open(**request)
        return {"load_s": time.perf_counter() - started, **facts}


def main() -> None:
    # The pipe gets another descriptor: libraries print to standard error then, not into the protocol.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as channel:
        os.dup2(2, 1)
        sys.path.pop(0)  # this directory holds no modules that a peer should find
        server = Server(sys.argv[1])
        for line in sys.stdin:
            channel.write(json.dumps(server.answer(json.loads(line))) + "\n")
            channel.flush()


if __name__ == "__main__":
    main()
