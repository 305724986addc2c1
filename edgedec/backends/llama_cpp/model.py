"""A bundle that holds a GGUF file, loaded by llama.cpp."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edgedec.backends.backend import DEFAULT_CACHE, Backend
from edgedec.backends.llama_cpp.forward import MAX_PASS_TOKENS, MOST_BRANCHES, LlamaCppForward
from edgedec.backends.llama_cpp.probe import probe
from edgedec.bundle.manifest import GGUF, Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import BadFileError
from edgedec.core.forward import Capabilities
from edgedec.core.ledger import Ledger


class LlamaCppModel(Backend):
    """The ``Backend`` of a GGUF file, tried in another process before this one loads it.

    Raises UsageError, BadFileError for another model than the manifest describes, and the errors of
    ``probe``.
    """

    def __init__(
        self, bundle: Path, manifest: Manifest, *, threads: int | None = None, drafting: bool = False
    ) -> None:
        caps = Capabilities(max_pass=MAX_PASS_TOKENS, trees=True, exact=False)
        super().__init__(manifest.spec, caps, threads)
        facts = probe(bundle / GGUF, manifest.files[GGUF].sha256)
        if (facts["vocab"], facts["layers"]) != (manifest.spec.vocab_size, manifest.spec.n_layers):
            raise BadFileError(
                f"{GGUF} of the bundle is not the model that its manifest describes",
                hint="export the model again",
            )
        from edgedec.backends.llama_cpp.binding import LlamaModel

        self._model = LlamaModel(bundle / GGUF)
        self.weight_bytes = self._model.weight_bytes
        self.caps = replace(caps, trees=self._model.rewinds)

    @staticmethod
    def runtime_name() -> str:
        """See ``BackendClass.runtime_name``."""
        return "llama.cpp"

    def forward(self, cache: CacheConfig = DEFAULT_CACHE, ledger: Ledger | None = None) -> LlamaCppForward:
        """See ``Backend.forward``."""
        from edgedec.backends.llama_cpp.binding import LlamaCpp

        cells, _, _ = self._limits(cache)
        runner = LlamaCpp(
            self._model, threads=self.threads, cells=cells, batch=MAX_PASS_TOKENS, sequences=MOST_BRANCHES
        )
        return LlamaCppForward(runner, self.spec, cells, ledger)
