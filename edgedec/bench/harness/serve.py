"""Serve one peer over pipes: requests are lines of JSON on standard input, answers on standard output.

``python serve.py PEER.py``: the file defines ``class Peer``. A request names one of its public methods, whose
arguments and results are plain JSON. This module answers ``memory`` and ``resident``; a peer may add to
``memory``.
The answer to ``{"op": "open", "model": ...}`` is ``{"result": {...}}`` or
``{"error": "one line", "missing": "module" or null}``.
The module, and what it takes of ``edgedec.system``, need nothing but the standard library on Linux, so that
any interpreter can run them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
import types
from typing import Any


def module_at(path: str) -> Any:
    """Return the module of the file at ``path``."""
    spec = importlib.util.spec_from_file_location("edgedec_bench_peer", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def counted_memory() -> Any:
    """Return ``edgedec.system.memory`` of this checkout; a peer that imports EdgeDec gets its own."""
    package = types.ModuleType("edgedec")
    package.__path__ = [os.path.join(os.path.dirname(__file__), "..", "..")]
    sys.modules["edgedec"] = package
    try:
        return importlib.import_module("edgedec.system.memory")
    finally:
        for name in [one for one in sys.modules if one.partition(".")[0] == "edgedec"]:
            del sys.modules[name]


memory = counted_memory()


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
            return {"peak_rss_bytes": memory.peak_rss_bytes(), **more}
        if op == "resident":
            own = getattr(self._peer, "process", None)  # the process that has the model, if not this one
            return dict(zip(("mapped_bytes", "private_bytes"), memory.parts_of(own), strict=True))
        if op == "prepare":
            return module_at(self._path).Peer().prepare(**request)
        if op != "open":
            return getattr(self._peer, op)(**request)
        started = time.perf_counter()
        self._peer = module_at(self._path).Peer()
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
