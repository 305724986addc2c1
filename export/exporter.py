"""From a GGUF file to a bundle: read, build, fuse, write."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.files import atomic_path, sha256_of
from edgedec.core.manifest import CHAT_TEMPLATE, TOKENIZER, Manifest, Scalar, TokenizerInfo
from edgedec.core.types import ModelSpec
from edgedec.export.architectures import ARCHITECTURES, Architecture
from edgedec.export.gguf_source import GgufSource, open_gguf
from edgedec.export.graph import HEAD_K, build_graph
from edgedec.export.hyperparameters import Hyperparameters, read_hyperparameters
from edgedec.export.interrupt import terminations_raise
from edgedec.export.passes import DEFAULT_PASSES, run_passes
from edgedec.export.tensors import Tensors
from edgedec.export.tokenizer import build_tokenizer
from edgedec.export.writer import BundleWriter, Progress, check_space, check_target, weights_bytes


def export_gguf(
    source: Path,
    out: Path,
    *,
    name: str | None = None,
    provenance: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """See ``edgedec.export.export_gguf``."""
    report = progress or _silent
    check_target(out)
    with open_gguf(source) as gguf, terminations_raise():
        architecture = _architecture(gguf)
        hyper = read_hyperparameters(architecture, gguf.metadata)
        tokenizer_json, info = build_tokenizer(gguf.metadata)
        template = _template(gguf, info)
        model = build_graph(hyper, Tensors(gguf))
        run_passes(model, DEFAULT_PASSES)
        spec = _spec(name or _name(gguf), hyper, _vocabulary(gguf), info)
        check_space(out, weights_bytes(model) + len(tokenizer_json.encode()))
        origin = _origin(gguf, provenance or {}, report)
        with atomic_path(out, directory=True) as directory:
            writer = BundleWriter(directory, {})
            writer.model(model, spec.name, {"architecture": spec.architecture, "format": "edgedec-bundle"})
            writer.weights(model, gguf, report)
            writer.bytes(TOKENIZER, tokenizer_json.encode())
            if template is not None:
                writer.bytes(CHAT_TEMPLATE, template.encode())
            manifest = Manifest(spec.name, spec, info, writer.files, origin, _versions())
            Manifest.from_json(manifest.to_json())  # what can not be loaded must not be written
            manifest.save(directory)
    return manifest


def _silent(_stage: str, _done: int, _total: int) -> None:
    return None


def _architecture(gguf: GgufSource) -> Architecture:
    name = gguf.metadata.get("general.architecture")
    if not isinstance(name, str):
        raise BadFileError("the GGUF metadata lacks general.architecture")
    if name not in ARCHITECTURES:
        raise UnsupportedError(
            f"architecture {name[:40]!r} is not supported", hint=f"supported are {', '.join(ARCHITECTURES)}"
        )
    return ARCHITECTURES[name]


def _name(gguf: GgufSource) -> str:
    """The model's own name, or the file's, as one printable line."""
    name = gguf.metadata.get("general.name")
    text = name if isinstance(name, str) and name.strip() else gguf.path.stem
    return "".join(char for char in text if char.isprintable())[:200] or "model"


def _vocabulary(gguf: GgufSource) -> int:
    rows = gguf.tensors["token_embd.weight"].shape[0]
    tokens = gguf.metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or len(tokens) != rows:
        count = len(tokens) if isinstance(tokens, list) else 0
        raise BadFileError(f"the tokenizer has {count} tokens, the embedding {rows} rows")
    return rows


def _template(gguf: GgufSource, info: TokenizerInfo) -> str | None:
    template = gguf.metadata.get("tokenizer.chat_template")
    return template if info.chat_template and isinstance(template, str) else None


def _spec(name: str, hyper: Hyperparameters, vocab: int, info: TokenizerInfo) -> ModelSpec:
    return ModelSpec(
        name=name,
        architecture=hyper.architecture.name,
        vocab_size=vocab,
        n_layers=hyper.layers,
        n_heads=hyper.heads,
        n_kv_heads=hyper.kv_heads,
        head_dim=hyper.head_dim,
        hidden_size=hyper.hidden,
        context_length=hyper.context,
        bos_id=info.bos_id,
        eos_ids=info.eos_ids,
        head_k=min(HEAD_K, vocab),
    )


def _origin(gguf: GgufSource, provenance: Mapping[str, str], report: Progress) -> dict[str, Scalar]:
    done = 0

    def count(chunk: int) -> None:
        nonlocal done
        done += chunk
        report("source", done, gguf.nbytes)

    origin: dict[str, Scalar] = {
        "kind": "gguf",
        "file": gguf.path.name,
        "bytes": gguf.nbytes,
        "sha256": sha256_of(gguf.path, count),
    }
    for key, field in (("licence", "general.license"), ("url", "general.source.url")):
        value: Any = gguf.metadata.get(field)
        if isinstance(value, str):
            origin[key] = value[:200]
    return {**origin, **provenance}


def _versions() -> dict[str, Scalar]:
    versions: dict[str, Scalar] = {}
    for package in ("edgedec", "onnx", "gguf", "numpy"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "unknown"
    return versions
