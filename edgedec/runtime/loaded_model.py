"""From a bundle directory to something that can answer."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import BadFileError
from edgedec.core.manifest import Manifest
from edgedec.memory import KvType
from edgedec.memory.release import release_freed
from edgedec.telemetry.stats import Clock
from edgedec.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from edgedec.backends.backend import Backend
    from edgedec.core.forward import Forward
    from edgedec.text.template import ChatTemplate


@dataclass(slots=True)
class LoadedModel:
    """All that a session needs. ``template`` is None for base models; ``isa`` is the kernel row that runs,
    or the runtime that does, "onnxruntime" for a bundle made with optimum and "llama.cpp" for a GGUF file.
    ``kv`` is how the cache keeps keys and values, None where another runtime decides that.
    """

    forward: Forward
    tokenizer: Tokenizer
    template: ChatTemplate | None
    manifest: Manifest
    isa: str
    threads: int
    load_s: float
    kv: KvType | None = "fp16"
    backend: Backend | None = None
    """None in tests without a bundle."""


def load_model(
    bundle: Path,
    *,
    threads: int | None = None,
    context: int | None = None,
    kv: KvType = "fp16",
    clock: Clock = time.perf_counter,
) -> LoadedModel:
    """Open an exported bundle; None means as many threads, and as much context, as the backend thinks best.
    It has room for the passes that an ``Engine`` makes, and no longer ones.

    Raises NotFoundError or BadFileError for the bundle, UsageError for ``context`` beyond the model's own
    limit or an unavailable ``EDGEDEC_ISA``, UnsupportedError for a ``kv`` that the bundle cannot have,
    BackendError when the runtime refuses.
    """
    started = clock()
    manifest = Manifest.load(bundle)
    from edgedec.backends.open import open_backend
    from edgedec.decode.engine import LONGEST_PASS

    backend = open_backend(bundle, manifest, threads=threads)
    chosen = kv if kv != "fp16" or backend.caps.kv_kinds else None
    forward = backend.forward(CacheConfig(context, chosen, LONGEST_PASS))
    tokenizer = Tokenizer.load(bundle, manifest.tokenizer)
    if tokenizer.size > manifest.spec.vocab_size:
        raise BadFileError(
            f"the bundle's tokenizer has {tokenizer.size} tokens, and its model {manifest.spec.vocab_size}",
            hint="pull or export the model again",
        )
    release_freed()
    template = load_template(bundle, tokenizer, manifest)
    cores, isa, load_s = backend.threads, backend.runtime, clock() - started
    return LoadedModel(forward, tokenizer, template, manifest, isa, cores, load_s, chosen, backend)


def kv_of_draft(target: LoadedModel, draft: Manifest) -> KvType:
    """How the cache of a model that drafts is kept: like its target's, where that can be chosen."""
    return (target.kv or "fp16") if draft.kind == "edgedec" else "fp16"


def load_template(bundle: Path, tokenizer: Tokenizer, manifest: Manifest) -> ChatTemplate | None:
    """The bundle's chat template, None for a base model. Raises BadFileError, TemplateError."""
    if not manifest.tokenizer.chat_template:
        return None
    from edgedec.text.template import ChatTemplate

    bos, eos = manifest.tokenizer.bos_id, manifest.tokenizer.eos_ids[:1]
    return ChatTemplate.load(
        bundle,
        bos="" if bos is None else tokenizer.token_text(bos),
        eos="".join(tokenizer.token_text(token) for token in eos),
    )
