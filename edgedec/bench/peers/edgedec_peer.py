"""EdgeDec itself as a side of a comparison: the engine that ``edgedec generate`` runs, and nothing faster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from edgedec import __version__
from edgedec.backends.open import open_backend
from edgedec.core.cache_config import CacheConfig
from edgedec.core.manifest import Manifest
from edgedec.core.rows import Rows
from edgedec.decode.engine import Engine
from edgedec.draft import lookup_ahead
from edgedec.eviction.policies import policy_for
from edgedec.memory import KvType
from edgedec.sampling import SamplingParams

ROWS_BYTES = 64 << 20
"""Most bytes of logits rows asked for in one pass."""


class Peer:
    def open(
        self, model: str, threads: int, context: int, kv: KvType = "fp16", all_rows: bool = False,
        when_full: str | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Load the bundle at ``model``. ``all_rows`` makes no difference here: rows are chosen per pass.
        ``when_full``: ``logits`` may have more tokens than ``context``, see ``policy_for``.
        """
        del all_rows
        manifest = Manifest.load(Path(model))
        backend = open_backend(Path(model), manifest, threads=threads)
        chosen = kv if kv != "fp16" or backend.caps.kv_kinds else None
        self._forward = backend.forward(CacheConfig(context, chosen))
        self._policy = policy_for(when_full, self._forward, lookup_ahead)
        self._engine = Engine(self._forward)
        planned = self._forward.nbytes()
        return {"version": __version__, "isa": backend.runtime, "planned_bytes": planned}

    def generate(self, tokens: list[int], max_tokens: int) -> dict[str, Any]:
        """Greedy continuation by exactly ``max_tokens`` tokens from an empty cache, and both times in s."""
        self._engine.reset()
        started = time.perf_counter()
        steps = self._engine.generate(tokens, SamplingParams(), max_tokens=max_tokens, stop_ids=())
        out = [next(steps).token]
        first = time.perf_counter()
        out += [step.token for step in steps]
        return {"prefill_s": first - started, "decode_s": time.perf_counter() - first, "tokens": out}

    def logits(self, tokens: list[int], path: str) -> dict[str, Any]:
        """Write the logits f32[T, V] after each of ``tokens``, from an empty cache, to the .npy ``path``.

        What leaves a full cache is what would have left it in a reply: tokens to come are not known.
        """
        vocab = self._forward.spec.vocab_size
        rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(len(tokens), vocab))
        step = max(1, min(self._forward.caps.max_pass, ROWS_BYTES // (4 * vocab)))
        self._forward.rewind(0)
        start = 0
        while start < len(tokens):
            end = start + (min(step, self._policy.room(tokens[: start + 1])) if self._policy else step)
            rows[start:end] = self._forward.extend(tokens[start:end], rows=Rows(full=True)).logits
            start = end
        rows.flush()
        return {"shape": list(rows.shape)}
