"""Models with random weights that run for real, as the command line gets them."""

from __future__ import annotations

from pathlib import Path

from edgedec.core.manifest import Manifest
from edgedec.export import export_gguf
from edgedec.memory import KvType
from edgedec.session.assemble import LoadedModel, load_model
from edgedec.session.chat import Session
from edgedec.session.fit import DROP
from edgedec.session.reply import Settings
from edgedec.session.state import ModelId
from edgedec.speculation import Speculation
from tests.fixtures.tiny_gguf import TinyShape, write_tiny

CONTEXT = 512


def tiny_bundle(folder: Path, architecture: str = "llama", *, seed: int = 0) -> Path:
    """Exported once; its context is of ``CONTEXT`` tokens."""
    bundle = folder / f"{architecture}-{seed}"
    if not bundle.exists():
        source = folder / f"{architecture}-{seed}.gguf"
        export_gguf(write_tiny(source, architecture, shape=TinyShape(context=CONTEXT), seed=seed), bundle)
    return bundle


def session_of(
    model: LoadedModel,
    settings: Settings,
    *,
    system: str | None = None,
    speculation: Speculation | None = None,
    when_full: str = DROP,
) -> Session:
    return Session(
        model.forward,
        model.tokenizer,
        model.template,
        settings,
        system=system,
        speculation=speculation,
        when_full=when_full,
    )


def opened(bundle: Path, context: int = 256, kv: KvType = "fp16") -> tuple[LoadedModel, ModelId]:
    return load_model(bundle, threads=1, context=context, kv=kv), ModelId.of(Manifest.load(bundle))
