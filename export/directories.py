"""Exports a Hugging Face model directory: with EdgeDec's own graph, or with optimum where it builds none."""

from __future__ import annotations

from pathlib import Path

from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import UnsupportedError, UsageError
from edgedec.core.progress import Progress, silent
from edgedec.export.encoders.directory import encodes, export_encoder
from edgedec.export.huggingface.config import builds, read_config
from edgedec.export.huggingface.exporter import Choices, export_directory
from edgedec.export.huggingface.files import read_object
from edgedec.export.huggingface.groups import QUANTS
from edgedec.export.huggingface.merged import WithAdapters
from edgedec.export.huggingface.tokenizer import CONFIG
from edgedec.export.no_model import refuse_adapter_folder
from edgedec.export.optimum.exporter import export_with_optimum


def export_huggingface(
    source: Path | WithAdapters,
    out: Path,
    *,
    quant: str | int | None = None,
    calibration: str | None = None,
    name: str | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Turn the model directory ``source`` (config.json, *.safetensors, tokenizer.json) into a bundle.

    - ``quant`` is the format of the matrices: one of QUANTS (None: q8_0), with q8_0 for embedding and head;
      or a format for each role, as in "q4_0,attn=q5_1,head=q8_0". Norms and biases stay f32. Values that a
      format can represent are kept exactly. A number is the most bytes that the bundle may have: formats of
      4 to 8 bits are then chosen matrix by matrix, by what they would change in predictions on
      ``calibration`` or on a text of the exporter's own. It is for layers without experts and states.
    - ``calibration`` is a text of at least 64 tokens. The exporter runs the float model over up to 4,096 of
      them and weighs quantisation errors by the measured inputs of each matrix. Scales of 4- and 5-bit
      formats are always searched for the least squared error.
    - ``name`` defaults to the name of the directory.
    - ``progress`` is also called for the stages "calibration" and "formats".

    ``WithAdapters`` names a directory with adapters: they are added to the matrices before these are
    quantised.
    Everything else is as for ``export_gguf``. Matrices are quantised a few rows at a time.

    An architecture that EdgeDec does not build is exported with optimum, if the extra of that name is
    installed. The bundle is then a decoder in standard ops and float32, written only if its results agree
    with transformers. ``quant`` and ``calibration`` must be None; ``progress`` has the stage "optimum", with
    a total of 0.

    The preset is that of generation_config.json, if there is one.

    Raises NotFoundError, BadFileError, UnsupportedError, UsageError or StorageError.
    """
    lora = source.lora if isinstance(source, WithAdapters) else ()
    source, out = Path(source.directory if isinstance(source, WithAdapters) else source), Path(out)
    refuse_adapter_folder(source)
    known = builds(read_object(source / CONFIG))
    if lora and (not known or encodes(source)):
        raise UsageError("the export of this model merges no adapters", hint="merge them by PEFT first")
    if isinstance(quant, int) and (not known or encodes(source)):
        raise UsageError("no formats are chosen for this model", hint="leave out the size, or state formats")
    if encodes(source):
        if calibration is not None:
            raise UsageError("the export of an encoder needs no text", hint="leave out the calibration text")
        assert not isinstance(quant, int)
        return export_encoder(source, out, quant, name, progress or silent)
    if known:
        return export_directory(source, out, Choices(quant or QUANTS[0], calibration, lora), name, progress)
    if calibration is not None:
        raise UsageError(
            "nothing is quantised in an export with optimum", hint="leave out the calibration text"
        )
    assert not isinstance(quant, int)
    return export_with_optimum(source, out, quant=quant, name=name, progress=progress)


def check_huggingface(source: Path) -> None:
    """Check that EdgeDec builds a graph for ``config.json`` in the directory ``source``.

    Raises UnsupportedError, NotFoundError or BadFileError.
    """
    config = read_object(source / CONFIG, required=True)
    if encodes(source):
        return
    if not builds(config):
        kind = config.get("model_type")
        raise UnsupportedError(
            f"EdgeDec builds no graph for models of type {kind}", hint="choose a repository with GGUF files"
        )
    read_config(config)
