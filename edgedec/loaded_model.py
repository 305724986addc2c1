"""From a bundle directory to a model in memory: weights, tokenizer and chat template, but no KV cache yet."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.backends.backend import Backend
from edgedec.bundle.device_folder import check_carried
from edgedec.bundle.device_place import ON_CPU, DevicePlace
from edgedec.bundle.exits import LayerOutputs
from edgedec.bundle.manifest import Manifest
from edgedec.bundle.model_id import ModelId
from edgedec.bundle.verification import verify
from edgedec.core.errors import BadFileError, UsageError
from edgedec.core.progress import Progress, silent
from edgedec.core.quick_dataclass import dataclass
from edgedec.system.allocator import release_freed
from edgedec.telemetry.cores import check_usable
from edgedec.text.codec import Codec
from edgedec.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from edgedec.core.cache_config import KvType
    from edgedec.core.model_spec import ModelSpec
    from edgedec.text.template import ChatTemplate


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model whose weights are mapped. ``load_s`` is the time that loading took, in seconds."""

    backend: Backend
    codec: Codec
    manifest: Manifest
    load_s: float = 0.0
    bundle: Path | None = None
    """The folder that it was opened from."""

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def spec(self) -> ModelSpec:
        return self.backend.spec

    @property
    def tokenizer(self) -> Tokenizer:
        return self.codec.tokenizer

    @property
    def template(self) -> ChatTemplate | None:
        return self.codec.template

    @property
    def isa(self) -> str:
        """The kernel row that computes, or the name of another runtime: "onnxruntime" or "llama.cpp"."""
        return self.backend.runtime

    @property
    def threads(self) -> int:
        return self.backend.threads

    def kv_kind(self, kv: KvType) -> KvType | None:
        """Return ``kv`` if the model's KV cache can be of that kind, else "fp16".

        None where another runtime keeps the cache and decides.
        """
        kinds = self.backend.caps.kv_kinds
        return kv if kv in kinds else "fp16" if kinds else None

    def with_template(self, source: str | None, thinking: bool | None = None) -> LoadedModel:
        """Return it with another chat template, as ``RunConfig.template`` says; None: with its own.

        ``thinking``: as ``RunConfig.thinking``. Raises UsageError where the template has no switch for it.
        """
        template = self.template
        if source is not None:
            from edgedec.text.template import ChatTemplate

            bos, eos = _told(self.tokenizer, self.manifest)
            template = ChatTemplate(source, bos=bos, eos=eos) if source else None
        if thinking is not None:
            if template is None:
                raise UsageError(f"{self.name} has no chat template, so it has no thinking to turn on or off")
            template = template.thinking(thinking)
        return replace(self, codec=replace(self.codec, template=template))


def load_model(
    bundle: Path,
    *,
    threads: int | None = None,
    drafting: LayerOutputs = False,
    place: DevicePlace = ON_CPU,
    home: Path | None = None,
    progress: Progress = silent,
) -> LoadedModel:
    """Open an exported bundle. ``threads``: None for one per physical core.

    - ``drafting``: with what drafters of the model itself need, where the bundle has it.
    - ``place``: where it runs, as the bundle's kind allows, and changes of its matrices.
    - ``home``: verify files that changed since the record there before anything of them is used, which
      ``progress`` follows; None to trust them.

    Raises NotFoundError or BadFileError for the bundle and the ``device.json`` it may have, UsageError for
    an unavailable ``EDGEDEC_ISA`` or more threads than usable cores, BackendError when the runtime refuses.
    """
    check_usable(threads)
    started = time.perf_counter()
    manifest = Manifest.load(bundle)
    check_carried(bundle)
    if home:
        verify(bundle, manifest, home, progress=progress)
    from edgedec.backends.open import open_backend

    backend = open_backend(
        bundle, manifest, threads=threads, drafting=drafting, place=place, progress=progress
    )
    tokenizer = Tokenizer.load(bundle, manifest.tokenizer, manifest.tokenizer_sha256)
    if tokenizer.size > manifest.spec.vocab_size:
        raise BadFileError(
            f"the bundle's tokenizer has {tokenizer.size} tokens, and its model {manifest.spec.vocab_size}",
            hint="pull or export the model again",
        )
    release_freed()
    template, identity = load_template(bundle, tokenizer, manifest), ModelId.of(manifest, backend.changed_by)
    codec = Codec(tokenizer, template, identity)
    return LoadedModel(backend, codec, manifest, time.perf_counter() - started, bundle)


def load_template(bundle: Path, tokenizer: Tokenizer, manifest: Manifest) -> ChatTemplate | None:
    """Return the bundle's chat template, None for a base model. Raises BadFileError, TemplateError."""
    if not manifest.tokenizer.chat_template:
        return None
    from edgedec.text.template import ChatTemplate

    bos, eos = _told(tokenizer, manifest)
    return ChatTemplate.load(bundle, bos=bos, eos=eos)


def _told(tokenizer: Tokenizer, manifest: Manifest) -> tuple[str, str]:
    """Return the texts of the first and the last token, which a template is told."""
    bos, eos = manifest.tokenizer.bos_id, manifest.tokenizer.eos_ids[:1]
    first = "" if bos is None else tokenizer.token_text(bos)
    return first, "".join(tokenizer.token_text(token) for token in eos)
