"""Export a GGUF file or a Hugging Face directory as a bundle, the directory that EdgeDec runs.

Importing this package is cheap: it loads the exporters only when one is called.
"""

from __future__ import annotations

from pathlib import Path

from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import UnsupportedError, UsageError
from edgedec.core.progress import Progress
from edgedec.export.huggingface.groups import QUANTS, ROLES
from edgedec.export.model_card import ModelCard
from edgedec.export.npu.plan import NpuPlan

__all__ = [
    "BACKENDS",
    "QUANTS",
    "ROLES",
    "TARGETS",
    "ModelCard",
    "NpuPlan",
    "check_huggingface",
    "export_for_npu",
    "export_gguf",
    "export_huggingface",
    "huggingface_files",
]

BACKENDS = ("edgedec", "llama.cpp")
"""Runtimes that a bundle of a GGUF file can be for."""
TARGETS = ("npu", "htp")
"""Devices other than the CPU that a bundle can be for: any NPU, or also compiled for Qualcomm's HTP."""


def export_gguf(
    source: Path,
    out: Path,
    *,
    name: str | None = None,
    card: ModelCard | None = None,
    progress: Progress | None = None,
    backend: str | None = None,
) -> Manifest:
    """Turn the GGUF file ``source`` into the bundle directory ``out`` and return its manifest.

    Weights keep their exact values. ``out`` must be new, empty or a bundle. It is replaced in one step, when
    everything is written: an error, Ctrl-C or SIGTERM leaves it as it was.

    - ``name`` defaults to the name in the file.
    - ``card`` has facts for the manifest. Without a preset there it is that of the file, if it has one.
    - ``progress(stage, done_bytes, total_bytes)`` is called for the stages "source" (hashing) and "weights".
    - ``backend`` is one of BACKENDS. None: EdgeDec's kernels if they support the architecture, else
      llama.cpp if llama-cpp-python is installed and runs the file. A bundle for llama.cpp holds the GGUF
      file itself.

    Raises NotFoundError, BadFileError, UnsupportedError, UsageError or StorageError.
    """
    from edgedec.export.exporter import export_gguf as export

    source, out = Path(source), Path(out)
    return export(source, out, name=name, card=card, progress=progress, backend=backend)


def export_for_npu(
    source: Path,
    out: Path,
    *,
    name: str | None = None,
    card: ModelCard | None = None,
    progress: Progress | None = None,
    plan: NpuPlan | None = None,
) -> Manifest:
    """Turn a GGUF file or a Hugging Face directory into a bundle for NPUs.

    It has passes of fixed lengths in 8- and 16-bit integers. ``plan`` has the choices: the text on which
    ranges of values are measured (of at least 64 tokens), the tokens of the cache (1,024), and whether QNN
    compiles the graphs ahead of time. ``progress`` is also called for the stages "calibration" and "compile".
    Everything else is as for ``export_gguf``.

    Raises UnsupportedError for an architecture that EdgeDec does not build, and where QNN is wanted and not
    installed; BackendError where it refuses a graph; and as ``export_gguf``.
    """
    from edgedec.export.npu.exporter import export_for_npu as export

    return export(Path(source), Path(out), name=name, card=card, progress=progress, plan=plan)


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

    - ``quant`` is the format of the matrices: one of QUANTS (None: q8_0), with q8_0 for embedding and head;
      or a format for each role, as in "q4_0,attn=q5_1,head=q8_0". Norms and biases stay f32. Values that a
      format can represent are kept exactly.
    - ``calibration`` is a text of at least 64 tokens. The exporter runs the float model over up to 4,096 of
      them and weighs quantisation errors by the measured inputs of each matrix. Scales of 4- and 5-bit
      formats are always searched for the least squared error.
    - ``name`` defaults to the name of the directory.
    - ``progress`` is also called for the stage "calibration".

    Everything else is as for ``export_gguf``. Matrices are quantised a few rows at a time.

    An architecture that EdgeDec does not build is exported with optimum, if the extra of that name is
    installed. The bundle is then a decoder in standard ops and float32, written only if its results agree
    with transformers. ``quant`` and ``calibration`` must be None; ``progress`` has the stage "optimum", with
    a total of 0.

    The preset is that of generation_config.json, if there is one.

    Raises NotFoundError, BadFileError, UnsupportedError, UsageError or StorageError.
    """
    from edgedec.export.huggingface.config import builds
    from edgedec.export.huggingface.exporter import export_huggingface as export
    from edgedec.export.huggingface.files import read_object
    from edgedec.export.no_model import refuse_adapter_folder
    from edgedec.export.optimum.exporter import export_with_optimum

    source, out = Path(source), Path(out)
    refuse_adapter_folder(source)
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


def check_huggingface(source: Path) -> None:
    """Check that EdgeDec builds a graph for ``config.json`` in the directory ``source``.

    Raises UnsupportedError, NotFoundError or BadFileError.
    """
    from edgedec.export.huggingface.config import builds, read_config
    from edgedec.export.huggingface.files import read_object

    config = read_object(source / "config.json", required=True)
    if not builds(config):
        kind = config.get("model_type")
        raise UnsupportedError(
            f"EdgeDec builds no graph for models of type {kind}", hint="choose a repository with GGUF files"
        )
    read_config(config)


def huggingface_files(source: Path) -> list[Path]:
    """Return the files of the model directory ``source`` that an export reads: texts first, then weights.

    Raises NotFoundError, BadFileError or UnsupportedError.
    """
    from edgedec.export.huggingface.exporter import used_files

    return used_files(Path(source))
