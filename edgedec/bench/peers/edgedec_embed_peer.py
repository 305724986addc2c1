"""EdgeDec's encoder as a side of a comparison, with its defaults."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from edgedec.core.version import __version__
from edgedec.embed.encoder import load_encoder


class Peer:
    def open(self, model: str, threads: int) -> dict[str, Any]:
        """Open the bundle at ``model``."""
        self._encoder = load_encoder(Path(model), threads=threads)
        return {"version": __version__}

    def embed(self, texts: list[str]) -> dict[str, Any]:
        """Time the vectors of all texts, in s."""
        started = time.perf_counter()
        found = self._encoder.embed(texts)
        return {"seconds": time.perf_counter() - started, "tokens": found.tokens}

    def vectors(self, texts: list[str]) -> dict[str, Any]:
        """Return the vector of each text."""
        return {"vectors": self._encoder.embed(texts).vectors.tolist()}
