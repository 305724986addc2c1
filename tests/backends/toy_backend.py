"""A backend in one file: a model that counts upwards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgedec.backends.backend import DEFAULT_CACHE, Backend
from edgedec.backends.cache_forward import CacheForward
from edgedec.backends.head_rows import head_rows
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.forward import Capabilities
from edgedec.core.ledger import Ledger
from edgedec.core.rows import LAST_ROW, HeadRows, Rows
from edgedec.memory import CacheBook


class ToyModel(Backend):
    """Its weights are nothing; after a token comes the next id."""

    weight_bytes = 0

    def __init__(
        self, bundle: Path, manifest: Manifest, *, threads: int | None = None, drafting: bool = False
    ) -> None:
        caps = Capabilities(max_pass=64, trees=True, exact=True)
        super().__init__(manifest.spec, caps, threads)

    @staticmethod
    def runtime_name() -> str:
        return "toy"

    def forward(self, cache: CacheConfig = DEFAULT_CACHE, ledger: Ledger | None = None) -> ToyForward:
        capacity, _, caps = self._limits(cache)
        return ToyForward(self.spec, caps, CacheBook(capacity), ledger)


class ToyForward(CacheForward):
    """Remembers how many tokens it was fed, and no more."""

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        planned = self._book.plan(len(tokens), parents)
        chosen = rows.resolve(len(tokens))
        logits = np.zeros((len(chosen), self.spec.vocab_size), np.float32)
        logits[range(len(chosen)), [(tokens[row] + 1) % self.spec.vocab_size for row in chosen]] = 9.0
        self._book.append(planned)
        return head_rows(logits, self.spec.head_k, full=rows.full, temperature=rows.temperature)

    def keep_path(self, nodes: Sequence[int]) -> None:
        self._book.keep(nodes)

    def nbytes(self) -> dict[str, int]:
        return {"weights": 0, "kv_cache": 0}
