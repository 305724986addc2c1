"""Export: a GGUF file or a Hugging Face directory becomes a bundle, the directory that EdgeDec runs.

Importing this costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgedec.core.errors import UsageError
from edgedec.core.manifest import Manifest
from edgedec.core.progress import Progress

__all__ = ["BACKENDS", "QUANTS", "ROLES", "export_gguf", "export_huggingface", "huggingface_files"]

QUANTS = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "bf16", "f16", "f32")
"""Formats for the matrices of a Hugging Face model: groups of 32 with a scale each, or floats."""
BACKENDS = ("edgedec", "llama.cpp")
"""Runtimes for a GGUF file."""
ROLES = ("attn", "mlp", "head")
"""Parts of a model that can have formats of their own; ``head`` is the embedding too."""


def export_gguf(
    source: Path,
    out: Path,
    *,
    name: str | None = None,
    provenance: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    backend: str | None = None,
) -> Manifest:
    """Turn the GGUF file ``source`` into the bundle directory ``out`` and return its manifest.

    Weights keep their exact values. ``out`` is replaced as a whole when everything is written, and only
    when it is empty or a bundle; an error, Ctrl-C or SIGTERM leaves it as it was. ``name`` defaults to the
    model's own; ``provenance`` is added to the manifest's source; ``progress(stage, done_bytes,
    total_bytes)`` is called for the stages "source" (hashing) and "weights".

    A file of an architecture that EdgeDec does not build becomes a bundle of the file itself for llama.cpp,
    if llama-cpp-python is installed and runs it. ``backend`` leaves no choice: one of BACKENDS.

    Raises NotFoundError, BadFileError, UnsupportedError, UsageError or StorageError.
    """
    from edgedec.export.exporter import export_gguf as export

    source, out = Path(source), Path(out)
    return export(source, out, name=name, provenance=provenance, progress=progress, backend=backend)


def export_huggingface(
    source: Path,
    out: Path,
    *,
    quant: str | None = None,
    calibration: str | None = None,
    name: str | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Turn the model directory ``source`` (config.json, *.safetensors, tokenizer.json) into a bundle.

    Matrices are quantised to ``quant``, a few rows at a time: one of QUANTS (None: q8_0), then embedding and
    head get q8_0; or by role, as in "q4_0,attn=q5_1,head=q8_0". Scales of 4 and 5 bits are searched for the
    least squared error; ``calibration``, a text of at least 64 tokens, lets the float model run over some
    thousand tokens of it first, and weighs the errors by the inputs of the matrices. Norms and biases stay
    f32. Values that a format can represent are kept exactly. ``name`` defaults to that of the directory;
    ``progress`` has the stage "calibration" too; everything else is as for ``export_gguf``.

    An architecture that EdgeDec does not build is exported with optimum, if the extra of that name is
    installed: in float32, as a decoder in standard ops, once its results have been found to agree with
    transformers. ``quant`` and ``calibration`` must be None then; ``progress`` has the stage "optimum", with
    total 0.

    Raises NotFoundError, BadFileError, UnsupportedError, UsageError or StorageError.
    """
    from edgedec.export.huggingface.config import builds
    from edgedec.export.huggingface.exporter import export_huggingface as export
    from edgedec.export.huggingface.files import read_object
    from edgedec.export.optimum.exporter import export_with_optimum

    source, out = Path(source), Path(out)
    if not builds(read_object(source / "config.json")):
        if calibration is not None:
            raise UsageError(
                "nothing is quantised in an export with optimum", hint="leave out the calibration text"
            )
        return export_with_optimum(source, out, quant=quant, name=name, progress=progress)
    return export(
        source,
        out,
        quant=quant or QUANTS[0],
        calibration=calibration,
        name=name,
        progress=progress,
    )


def huggingface_files(source: Path) -> list[Path]:
    """The files of the model directory ``source`` that an export reads: texts that are there, then weights.

    Raises NotFoundError, BadFileError or UnsupportedError.
    """
    from edgedec.export.huggingface.exporter import used_files

    return used_files(Path(source))
