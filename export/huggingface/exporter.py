"""Turns a Hugging Face model directory into a bundle."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from edgedec.bundle.manifest import CHAT_TEMPLATE, TOKENIZER, Manifest, Scalar
from edgedec.core.errors import BadFileError, NotFoundError, UsageError
from edgedec.core.low_rank import LowRank, hash_of
from edgedec.core.progress import Progress, counted, silent
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.files import sha256_of
from edgedec.export.bundle import About, Contents, printable_name, write_bundle
from edgedec.export.calibration.moments import sample, second_moments
from edgedec.export.encoders.sentence import SENTENCE_TEXTS
from edgedec.export.graph import build_graph
from edgedec.export.huggingface.by_size import set_formats_within
from edgedec.export.huggingface.config import Config, read_config
from edgedec.export.huggingface.files import read_object
from edgedec.export.huggingface.groups import QUANTS, parse_quant, show_quant
from edgedec.export.huggingface.merged import merged
from edgedec.export.huggingface.shards import INDEX, SINGLE, read_shards, weight_files
from edgedec.export.huggingface.source import HuggingFaceSource
from edgedec.export.huggingface.tokenizer import (
    CONFIG,
    GENERATION,
    TEMPLATE_JSON,
    TOKENIZER_CONFIG,
    read_tokenizer,
)
from edgedec.export.hyperparameters import Hyperparameters, read_hyperparameters
from edgedec.export.interrupt import terminations_raise
from edgedec.export.lora.peft import read_folders
from edgedec.export.notes import LEFT_OUT
from edgedec.export.tensors import Tensors
from edgedec.export.texts import TextFiles
from edgedec.export.writer import check_target

_TEXTS = (CONFIG, GENERATION, TOKENIZER, TOKENIZER_CONFIG, CHAT_TEMPLATE, TEMPLATE_JSON, *SENTENCE_TEXTS)


@dataclass(frozen=True, slots=True)
class Choices:
    """How a directory is exported; see ``edgedec.export.export_huggingface``."""

    quant: str | int
    calibration: str | None = None
    lora: Sequence[str] = ()


def export_directory(
    source: Path, out: Path, how: Choices, name: str | None, progress: Progress | None
) -> Manifest:
    """Export a model whose graph EdgeDec builds; see ``edgedec.export.export_huggingface``."""
    report = progress or silent
    check_target(out)
    formats = parse_quant(how.quant if isinstance(how.quant, str) else QUANTS[0])
    check_directories(source, out)
    with terminations_raise():
        adapters = read_folders(how.lora)
        read = read_model(source, formats, adapters.values())
        weights, hyper, texts = read.weights, read.hyper, read.texts
        chosen: dict[str, Scalar] = {"quant": show_quant(formats)}
        if weights.left_out:
            chosen[LEFT_OUT] = f"{weights.left_out} tensors for pictures"
        for adapter, changes in adapters.items():
            chosen[f"sha256 of the adapter {adapter}"] = hash_of(changes)
        if how.calibration is not None:
            chosen |= _calibrate(weights, hyper, texts, how.calibration, report)
        if isinstance(how.quant, int):
            contents = read.contents(name, report, {})
            chosen |= set_formats_within(how.quant, weights, contents, how.calibration, report)
        return write_bundle(weights, read.contents(name, report, chosen), out, report)


@dataclass(frozen=True, slots=True)
class ReadModel:
    """A model directory that was read, but for its weights."""

    source: Path
    config: Config
    hyper: Hyperparameters
    weights: HuggingFaceSource
    texts: TextFiles

    def contents(self, name: str | None, report: Progress, chosen: Mapping[str, Scalar]) -> Contents:
        """Return the contents of a bundle; ``chosen`` are further facts for its manifest."""

        def origin() -> dict[str, Scalar]:
            return {**origin_of(self.source, report), **chosen}

        about = About(name or printable_name(self.source.resolve().name), self.texts.preset, origin)
        return Contents(about, self.hyper, self.config.vocab, self.texts)


def read_model(
    source: Path, formats: Mapping[str, str], adapters: Iterable[Mapping[str, LowRank]] = ()
) -> ReadModel:
    """Read a model directory whose matrices get ``formats``.

    ``adapters``: changes by the name of a module, which are merged.

    Raises BadFileError or UnsupportedError.
    """
    config = read_config(read_object(source / CONFIG, required=True))
    hyper = read_hyperparameters(config.architecture, config.metadata)
    stored = read_shards(weight_files(source))
    for changes in adapters:
        stored = merged(stored, changes)
    weights = HuggingFaceSource(source, config, stored, formats)
    _check_vocabulary(weights, config)
    return ReadModel(source, config, hyper, weights, read_tokenizer(source, config.vocab))


def _calibrate(
    weights: HuggingFaceSource, hyper: Hyperparameters, texts: TextFiles, text: str, report: Progress
) -> dict[str, Scalar]:
    """Measure the inputs of each matrix and return the manifest's entries about the text."""
    bos = texts.info.bos_id if texts.info.add_bos else None
    windows = sample(text, texts.json, bos, hyper.context)
    weights.importance = second_moments(
        build_graph(hyper, Tensors(weights)),
        lambda weight, start, stop: weights.floats(weight.tensor, start, stop),
        windows,
        lambda done, total: report("calibration", done, total),
    )
    return {
        "calibration tokens": sum(map(len, windows)),
        "sha256 of the calibration text": hashlib.sha256(text.encode()).hexdigest(),
    }


def check_directories(source: Path, out: Path) -> None:
    """Check that ``source`` is a directory other than ``out``. Raises NotFoundError or UsageError."""
    if not source.is_dir():
        raise NotFoundError(f"no directory {source}", hint="name a Hugging Face model directory")
    if source.resolve() == out.resolve():
        raise UsageError(f"{out} is the model itself", hint="name a new directory")


def _check_vocabulary(weights: HuggingFaceSource, config: Config) -> None:
    table = weights.tensors.get("token_embd.weight")
    if table is None:
        raise BadFileError(f"the model lacks tensor {weights.spelling('token_embd.weight')}")
    if table.shape[:1] != (config.vocab,):
        shape = list(table.shape)
        raise BadFileError(f"config.json has a vocabulary of {config.vocab}, the embedding the shape {shape}")
    if not config.tied and "output.weight" not in weights.tensors:
        raise BadFileError("the model lacks tensor lm_head.weight, and its embedding is not tied")


def huggingface_files(source: Path) -> list[Path]:
    """Return the files of the model directory ``source`` that an export reads: texts first, then weights.

    Raises NotFoundError, BadFileError or UnsupportedError.
    """
    source = Path(source)
    files = weight_files(source)
    index = [] if files[0].name == SINGLE else [INDEX]
    return [source / name for name in (*_TEXTS, *index) if (source / name).is_file()] + files


def origin_of(source: Path, report: Progress) -> dict[str, Scalar]:
    """Return name and size of the directory, and the hash of each file that the export reads."""
    used = huggingface_files(source)
    total = sum(file.stat().st_size for file in used)
    count = counted(report, "source", total)
    origin: dict[str, Scalar] = {
        "kind": "huggingface",
        "file": printable_name(source.resolve().name),
        "bytes": total,
    }
    return origin | {f"sha256 of {file.name}": sha256_of(file, count) for file in used}
