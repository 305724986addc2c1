"""Writes the bundle of a GGUF file for llama.cpp: the file itself, tokenizer, template and manifest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgedec.backends.llama_cpp.probe import Facts, installed, probe
from edgedec.bundle.manifest import GGUF, FileEntry, Manifest, TokenizerInfo
from edgedec.core.errors import BackendError, BadFileError, UnsupportedError
from edgedec.core.model_spec import ModelSpec
from edgedec.disk.files import atomic_path
from edgedec.disk.installing import pip_install
from edgedec.export.bundle import About, printable_name, versions
from edgedec.export.gguf_source import GgufSource
from edgedec.export.interface import HEAD_K
from edgedec.export.texts import TextFiles, finish_bundle
from edgedec.export.tokenizer import build_tokenizer, template_of
from edgedec.export.writer import BundleWriter, check_space, place_file

_MOST = 1 << 24


def bundle_for_llama_cpp(gguf: GgufSource, out: Path, about: About) -> Manifest:
    """Write the bundle.

    Raises UnsupportedError when llama.cpp is not installed, cannot run the model, or the tokenizer is of an
    unknown kind; BackendError when llama.cpp crashes; BadFileError or StorageError.
    """
    if not installed():
        raise UnsupportedError("llama-cpp-python is not installed", hint=pip_install("gguf"))
    if len(gguf.paths) > 1:
        raise UnsupportedError(
            f"a bundle for llama.cpp has one GGUF file, and {gguf.path.name} is one of {len(gguf.paths)}",
            hint="merge them with llama-gguf-split --merge",
        )
    text, info = build_tokenizer(gguf.metadata)
    if gguf.metadata.get(f"{gguf.metadata.get('general.architecture')}.attention.causal") is False:
        raise UnsupportedError("the model is none that continues text: its attention is not causal")
    check_space(out, gguf.nbytes + len(text.encode()))
    name, where_from = about.name, about.origin()
    facts = probe(gguf.path, str(where_from["sha256"]))
    spec = _spec(gguf.metadata, name, facts, info)
    with atomic_path(out, directory=True) as directory:
        writer = BundleWriter(directory, {})
        place_file(gguf.path, directory / GGUF)
        writer.files[GGUF] = FileEntry(gguf.nbytes, str(where_from["sha256"]))
        texts = TextFiles(text, info, template_of(gguf.metadata), about.preset)
        made_by = versions("gguf", "llama-cpp-python")
        return finish_bundle(writer, texts, spec, where_from, made_by, "gguf")


def instead(ours: UnsupportedError, gguf: GgufSource, out: Path, about: About) -> Manifest:
    """Write the bundle for llama.cpp of a file that EdgeDec refused with the error ``ours``.

    Raises ``ours`` with a hint, or with the reason why llama.cpp cannot run the file either.
    """
    try:
        build_tokenizer(gguf.metadata)
    except (UnsupportedError, BadFileError):
        raise ours from None  # no runtime could be given tokens
    if not installed():
        hint = f"llama.cpp may run it: {pip_install('gguf')}"
        raise UnsupportedError(ours.message, hint=f"{ours.hint}; {hint}" if ours.hint else hint) from None
    try:
        return bundle_for_llama_cpp(gguf, out, about)
    except (UnsupportedError, BackendError) as theirs:
        raise type(theirs)(f"{ours.message}; and {theirs.message}", hint=theirs.hint or ours.hint) from None


def _spec(metadata: Mapping[str, Any], name: str, facts: Facts, info: TokenizerInfo) -> ModelSpec:
    """Return the sizes that llama.cpp reports; those that a recurrent model lacks are 1."""
    architecture = str(metadata["general.architecture"])
    heads, kv_heads = max(1, facts["heads"]), max(1, facts["kv_heads"])
    head_dim = metadata.get(f"{architecture}.attention.key_length")
    if type(head_dim) is not int or not 0 < head_dim < _MOST:
        head_dim = max(1, facts["hidden"] // heads)
    return ModelSpec(
        name=name,
        architecture=printable_name(architecture),
        vocab_size=facts["vocab"],
        n_layers=facts["layers"],
        n_heads=heads,
        n_kv_heads=kv_heads if heads % kv_heads == 0 else 1,
        head_dim=head_dim,
        hidden_size=facts["hidden"],
        context_length=facts["context"],
        bos_id=info.bos_id,
        eos_ids=info.eos_ids,
        head_k=min(HEAD_K, facts["vocab"]),
    )
