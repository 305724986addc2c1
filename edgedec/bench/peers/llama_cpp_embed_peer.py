"""llama.cpp as a side of a comparison of encoders, by its Python package."""

from __future__ import annotations

import time
from typing import Any

import llama_cpp

TOKENS = 512
"""Tokens of a batch: its own default, into which short texts are packed."""


class Peer:
    def open(self, model: str, threads: int, normalised: bool) -> dict[str, Any]:
        """Open the GGUF file ``model``, whose pooling it states."""
        self._model = llama_cpp.Llama(
            model, embedding=True, verbose=False, n_threads=threads, n_threads_batch=threads,
            n_ctx=TOKENS, n_batch=TOKENS, n_ubatch=TOKENS,
        )  # fmt: skip
        self._normalised = normalised
        return {"version": f"llama-cpp-python {llama_cpp.__version__}"}

    def embed(self, texts: list[str]) -> dict[str, Any]:
        """Time the vectors of all texts, in s."""
        started = time.perf_counter()
        self._model.embed(texts, normalize=self._normalised)
        return {"seconds": time.perf_counter() - started}

    def vectors(self, texts: list[str]) -> dict[str, Any]:
        """Return the vector of each text."""
        return {"vectors": self._model.embed(texts, normalize=self._normalised)}
