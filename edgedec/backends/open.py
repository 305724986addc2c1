"""The backend that runs a bundle, by the kind that its manifest states."""

from __future__ import annotations

from pathlib import Path

from edgedec.core.errors import BadFileError, Remedy, UnsupportedError
from edgedec.core.forward import Forward
from edgedec.core.manifest import GGUF, Manifest
from edgedec.memory import KvType


def open_forward(
    bundle: Path,
    manifest: Manifest,
    *,
    threads: int | None = None,
    capacity: int | None = None,
    kv: KvType = "fp16",
    max_pass: int | None = None,
) -> Forward:
    """Load a bundle; arguments and errors are those of ``OnnxForward``. UnsupportedError, too, for another
    ``kv`` than "fp16" where another runtime keeps the cache. None for ``max_pass``: as many as are possible;
    other runtimes choose it themselves.
    """
    if kv != "fp16" and manifest.kind != "edgedec":
        raise UnsupportedError(
            f"a cache in {kv} is not possible: {kernels_of(manifest)} runs this model, and keeps its own",
            hint="use fp16, or export the model for EdgeDec's kernels",
            remedy=(Remedy("kv"), Remedy("export")),
        )
    if manifest.kind == "optimum":
        from edgedec.backends.optimum import DecoderForward

        return DecoderForward(bundle, manifest, threads=threads, capacity=capacity)
    if manifest.kind == "gguf":
        return open_llama_cpp(bundle, manifest, threads=threads, capacity=capacity)
    from edgedec.backends.onnx.forward import MAX_PASS, OnnxForward

    most = max_pass or MAX_PASS
    return OnnxForward(bundle, manifest, threads=threads, capacity=capacity, kv=kv, max_pass=most)


def open_llama_cpp(
    bundle: Path, manifest: Manifest, *, threads: int | None = None, capacity: int | None = None
) -> Forward:
    """A bundle that holds a GGUF file, tried in another process before it is loaded in this one.

    Raises UsageError, BadFileError for another model than the manifest describes, and what ``probe`` raises.
    """
    from edgedec.backends.checks import check_threads, checked_capacity
    from edgedec.backends.llama_cpp.probe import probe

    chosen = checked_capacity(manifest.spec, capacity)
    check_threads(threads)
    facts = probe(bundle / GGUF, manifest.files[GGUF].sha256)
    if (facts["vocab"], facts["layers"]) != (manifest.spec.vocab_size, manifest.spec.n_layers):
        raise BadFileError(
            f"{GGUF} of the bundle is not the model that its manifest describes",
            hint="export the model again",
        )
    from edgedec.backends.llama_cpp.binding import LlamaCpp
    from edgedec.backends.llama_cpp.forward import MAX_PASS, MOST_BRANCHES, LlamaCppForward
    from edgedec.backends.onnx.session import physical_cores

    cores = threads or physical_cores()
    runner = LlamaCpp(bundle / GGUF, threads=cores, cells=chosen, batch=MAX_PASS, sequences=MOST_BRANCHES)
    return LlamaCppForward(runner, manifest.spec, chosen)


def kernels_of(manifest: Manifest) -> str:
    """What computes: the kernel row that this machine runs, or another runtime. Raises UsageError."""
    if manifest.kind != "edgedec":
        return {"optimum": "onnxruntime", "gguf": "llama.cpp"}[manifest.kind]
    from edgedec.kernels.library import isa

    return isa()
