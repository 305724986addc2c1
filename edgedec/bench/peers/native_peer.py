"""The engine without Python as a side of a comparison: this process only starts it and hands lines on."""

from __future__ import annotations

import atexit
import json
import subprocess
import time
from typing import Any

_TOO_SMALL = 10
"""Exit status of the program where its budget is too small, see ``edgedec_code`` in edgedec.h."""


class Peer:
    def open(self, model: str, host: str, runtime: str, version: str, numbers: list[int]) -> dict[str, Any]:
        """Start the program ``host``, see kernels/host/host.cc, with ONNX Runtime's library ``runtime``.

        ``numbers`` are threads, context, budget and ``edgedec_kv``. The answer has ``refused`` where the
        budget is too small.
        """
        started = time.perf_counter()
        command = [host, model, runtime, *map(str, numbers)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        atexit.register(self._process.communicate)  # its memory is given back before another side is measured
        try:
            self._stats = self._line()
        except RuntimeError as error:
            if self._process.wait() != _TOO_SMALL:
                raise
            return {"refused": str(error)}
        planned = {"weights": self._stats["weight_bytes"], "kv_cache": self._stats["kv_cache_bytes"]}
        return {
            "load_s": time.perf_counter() - started,
            "version": f"{version} without Python",
            "isa": self._stats["isa"],
            "planned_bytes": planned,
        }

    @property
    def process(self) -> int:
        """The process that has the model."""
        return self._process.pid

    def generate(self, tokens: list[int], max_tokens: int) -> dict[str, Any]:
        """Continue greedily by exactly ``max_tokens`` tokens from an empty cache. Times are in seconds."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, (max_tokens, *tokens))).encode() + b"\n")
        self._process.stdin.flush()
        found = self._line()
        self._stats = self._line()
        return found

    def memory(self) -> dict[str, int]:
        """The peak of the program, in place of that of this process."""
        return {"peak_rss_bytes": self._stats["peak_rss_bytes"]}

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            assert self._process.stderr is not None
            words = self._process.stderr.read().decode("utf-8", "replace").strip()
            raise RuntimeError(words or f"the program ended with status {self._process.wait()}")
        return dict(json.loads(line))
