"""From a Hugging Face model directory to a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgedec.core.errors import BadFileError, NotFoundError, UsageError
from edgedec.core.files import sha256_of
from edgedec.core.manifest import CHAT_TEMPLATE, TOKENIZER, Manifest, Scalar
from edgedec.export import QUANTS
from edgedec.export.bundle import Contents, printable_name, write_bundle
from edgedec.export.huggingface.config import Config, read_config
from edgedec.export.huggingface.files import read_object
from edgedec.export.huggingface.shards import INDEX, SINGLE, read_shards, weight_files
from edgedec.export.huggingface.source import HuggingFaceSource
from edgedec.export.huggingface.tokenizer import CONFIG, GENERATION, TOKENIZER_CONFIG, read_tokenizer
from edgedec.export.hyperparameters import read_hyperparameters
from edgedec.export.interrupt import terminations_raise
from edgedec.export.writer import Progress, check_target, silent

_TEXTS = (CONFIG, GENERATION, TOKENIZER, TOKENIZER_CONFIG, CHAT_TEMPLATE)


def export_huggingface(
    source: Path,
    out: Path,
    *,
    quant: str = "q8_0",
    name: str | None = None,
    provenance: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """See ``edgedec.export.export_huggingface``."""
    report = progress or silent
    check_target(out)
    if quant not in QUANTS:
        raise UsageError(f"no quantisation {quant[:40]!r}", hint=f"there are {', '.join(QUANTS)}")
    check_directories(source, out)
    with terminations_raise():
        config = read_config(read_object(source / CONFIG, required=True))
        hyper = read_hyperparameters(config.architecture, config.metadata)
        files = weight_files(source)
        weights = HuggingFaceSource(source, config, read_shards(files), quant)
        _check_vocabulary(weights, config)
        texts = read_tokenizer(source, config.vocab)
        title = name or printable_name(source.resolve().name)
        contents = Contents(title, hyper, config.vocab, texts.json, texts.info, texts.template)

        def origin() -> dict[str, Scalar]:
            return {**origin_of(source, files, report), "quant": quant, **(provenance or {})}

        return write_bundle(weights, contents, out, origin, report)


def check_directories(source: Path, out: Path) -> None:
    """Raises NotFoundError or UsageError."""
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


def origin_of(source: Path, files: list[Path], report: Progress) -> dict[str, Scalar]:
    """Name and size of the directory, and the hash of each file that went into the bundle."""
    index = [] if files[0].name == SINGLE else [INDEX]
    used = [source / name for name in (*_TEXTS, *index) if (source / name).is_file()] + files
    total, done = sum(file.stat().st_size for file in used), 0

    def count(chunk: int) -> None:
        nonlocal done
        done += chunk
        report("source", done, total)

    origin: dict[str, Scalar] = {
        "kind": "huggingface",
        "file": printable_name(source.resolve().name),
        "bytes": total,
    }
    return origin | {f"sha256 of {file.name}": sha256_of(file, count) for file in used}
