"""Writes the files of a bundle; weights are packed and hashed in one streaming pass."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from onnx import helper

from edgedec.bundle.manifest import MANIFEST, MODEL, WEIGHTS, FileEntry
from edgedec.core.errors import StorageError, UsageError
from edgedec.core.progress import Progress, silent
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.files import check_name, sha256_of, storage_errors
from edgedec.export.model import (
    ExpertsWeight,
    ExportModel,
    PackedWeight,
    VectorWeight,
    Weight,
    attributes,
)
from edgedec.export.source import WeightSource
from edgedec.kernels.packing.experts import checksum
from edgedec.kernels.packing.layout import chunk_rows, pack
from edgedec.kernels.packing.recode import recode

_CHUNK = 1 << 20
_HEADROOM = 16 << 20
"""Free disk space required beyond the bytes to be written."""


def check_target(out: Path, manifest: str = MANIFEST, what: str = "EdgeDec bundle") -> None:
    """Refuse to replace anything but an empty directory or one with ``manifest``. Raises UsageError."""
    check_name(out)
    if not out.name or out.name == "..":
        raise UsageError(f"{out} can not be replaced from inside", hint="name the directory, as in ../NAME")
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise UsageError(f"{out} exists and is not a directory", hint="name a new directory")
    if out.is_dir() and not (out / manifest).is_file() and any(out.iterdir()):
        raise UsageError(f"{out} is not empty and is no {what}", hint="name a new directory")


def check_apart(out: Path, bundles: Sequence[Path]) -> None:
    """Raise UsageError where writing ``out`` would remove a bundle that it is made of."""
    for bundle in bundles:
        if bundle.resolve().is_relative_to(out.resolve()):
            raise UsageError(f"{bundle} lies in {out}, which would be replaced", hint="name another folder")


def check_space(out: Path, needed: int) -> None:
    """Refuse to start when the disk of ``out`` lacks ``needed`` bytes. Raises StorageError."""
    place = out.absolute()
    while not place.is_dir():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < needed + _HEADROOM:
        raise StorageError(
            f"exporting to {out} needs {(needed + _HEADROOM) / 1e6:.0f} MB, {free / 1e6:.0f} MB are free",
            hint="free some space or choose another disk",
        )


def place_file(source: Path, target: Path, report: Progress = silent) -> None:
    """Link to the same file where the file system allows it, else copy it. Raises StorageError."""
    with storage_errors(target.name):
        try:
            os.link(source.resolve(), target)
            return
        except OSError:
            target.unlink(missing_ok=True)
        total, done = source.stat().st_size, 0
        with source.open("rb") as reader, target.open("wb") as writer:
            while chunk := reader.read(_CHUNK):
                writer.write(chunk)
                done += len(chunk)
                if source.name == WEIGHTS:
                    report("copy", done, total)
        shutil.copystat(source, target)


def weights_bytes(model: ExportModel) -> int:
    """Return the size of weights.bin in bytes."""
    return max((offset + model.weights[name].nbytes for name, offset in model.placements.items()), default=0)


def table_bytes(model: ExportModel) -> int:
    """Return the bytes of an embedding table that only the look-up reads; 0 if the head reads it too."""
    lookups = [node for node in model.nodes if node.op_type == "QuantEmbedding"]
    return sum(model.weights[node.input[1]].nbytes for node in lookups if attributes(node)["alone"])


@dataclass(slots=True)
class BundleWriter:
    """Writes files into ``directory`` and remembers their sizes and hashes."""

    directory: Path
    files: dict[str, FileEntry]

    def bytes(self, name: str, data: bytes) -> None:
        """Write one small file. Raises StorageError."""
        with storage_errors(name):
            (self.directory / name).write_bytes(data)
        self.files[name] = FileEntry(len(data), hashlib.sha256(data).hexdigest())

    def written(self, name: str) -> None:
        """Record size and hash of a file that is already in the directory."""
        path = self.directory / name
        self.files[name] = FileEntry(path.stat().st_size, sha256_of(path))

    def model(self, model: ExportModel, name: str, metadata: dict[str, str], file: str = MODEL) -> None:
        """Write a graph."""
        self.bytes(file, model.to_onnx(name, metadata).SerializeToString(deterministic=True))

    def weights(self, model: ExportModel, source: WeightSource, progress: Progress) -> None:
        """Pack every placed weight into weights.bin, a few tiles or an expert at a time.

        Nodes over experts get the checks of theirs. Raises StorageError or BadFileError.
        """
        total, digest, position = weights_bytes(model), hashlib.sha256(), 0
        checks: dict[str, list[int]] = {}
        with storage_errors(WEIGHTS), (self.directory / WEIGHTS).open("wb") as stream:
            for name, offset in model.placements.items():
                stream.write(gap := bytes(offset - position))
                digest.update(gap)
                position = offset
                for piece in weight_pieces(model.weights[name], source):
                    stream.write(piece)
                    digest.update(piece)
                    position += len(piece)
                    progress("weights", position, total)
                    if isinstance(model.weights[name], ExpertsWeight):
                        checks.setdefault(name, []).append(checksum(bytes(piece)))
        self.files[WEIGHTS] = FileEntry(position, digest.hexdigest())
        for node in model.nodes:
            if node.op_type == "Experts":
                node.attribute.append(helper.make_attribute("checks", checks[node.input[2]]))


def weight_pieces(weight: Weight, source: WeightSource) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a weight as stored in weights.bin, in pieces of bounded size; experts one by one."""
    if isinstance(weight, VectorWeight):
        yield weight.values.astype("<f4").tobytes()
    elif isinstance(weight, PackedWeight):
        yield from _packed(weight, source)
    else:
        for expert in range(weight.count):
            yield b"".join(_expert(weight, expert, source))


def _packed(weight: PackedWeight, source: WeightSource) -> Iterator[memoryview]:
    step = chunk_rows(weight.cols)
    for start in range(0, weight.rows, step):
        raw = weight.read(partial(source.rows, weight.tensor), start, min(start + step, weight.rows))
        blocks = recode(weight.tensor.format, raw, weight.tensor.scale(weight.first))
        yield pack(weight.format, blocks).data.cast("B")


def _expert(weight: ExpertsWeight, expert: int, source: WeightSource) -> Iterator[bytes | memoryview]:
    """Yield the row of one expert: its matrices and biases, and the zeros before and behind them."""
    position, places = 0, weight.places
    for matrix, place in zip(weight.matrices(expert), places[:3], strict=True):
        yield bytes(place - position)
        yield from _packed(matrix, source)
        position = place + matrix.nbytes
    if weight.biases is not None:
        yield bytes(places.biases - position)
        yield (biases := weight.biases[expert].astype("<f4").tobytes())
        position = places.biases + len(biases)
    yield bytes(places.stride - position)
