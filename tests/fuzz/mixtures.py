"""Models with experts: GGUF files in parts, directories, and bundles whose experts come from the disk."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from edgedec.bundle.manifest import MANIFEST, MODEL, WEIGHTS, Manifest
from edgedec.core.rows import ALL_ROWS
from edgedec.disk.listed_files import sealed
from edgedec.export import export_gguf, export_huggingface
from tests.fixtures.tiny_experts import ExpertShape
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_huggingface import write_huggingface
from tests.fuzz import huggingface
from tests.fuzz.mutate import integer, mutate_bytes, mutate_json
from tests.fuzz.mutate_gguf import Field, content, fields, mutate_gguf
from tests.fuzz.mutate_onnx import mutate_bundle, mutate_op
from tests.fuzz.target import SHAPE, SHAPES, Files, with_true_sizes

_EXPERTS = ExpertShape(count=6, chosen=2, width=32, shared=32)
_MODELS = {
    "qwen3moe": replace(SHAPE, layers=2, experts=_EXPERTS),
    "lfm2moe": replace(SHAPES["lfm2"], experts=_EXPERTS),
    "granitemoe": replace(SHAPE, experts=_EXPERTS),
    "qwen35moe": replace(SHAPES["qwen35"], experts=_EXPERTS),
    "gemma4moe": replace(SHAPES["gemma4"], experts=_EXPERTS),
    "gpt-oss": replace(SHAPE, heads=4, layers=2, experts=_EXPERTS),
}
_FORMATS = {"gpt-oss": {"*": "q4_0", **{f"ffn_{part}_exps": "mxfp4" for part in ("gate", "up", "down")}}}
"""Formats of matrices, where they are others than q4_0: directories have such experts as they are."""
_STEM, _ALONE = "model", "model.gguf"
_OTHER = "other/"
"""Folder of parts that belong to another model, from which damage takes them."""
_ABOUT = (b"split.", b"expert", b"exps", b"ffn_gate_inp", b"exp_probs", b"leading_dense", b"sinks")
"""Pieces of the names of what these models have besides."""
_ON_DISK = 1
"""A budget in which no model fits, so that its experts stay on the disk."""


def part_seeds(folder: Path) -> list[tuple[Files, Files]]:
    """A model of each architecture in one file, in two parts and in many, and parts of another one."""
    out: list[tuple[Files, Files]] = []
    for name in _MODELS:
        whole = _gguf(folder, name)
        out.append(({_ALONE: whole.read_bytes()}, {}))
        for tensors in (3, 7):
            out.append((_in_parts(folder, name, tensors, 0) | _others(folder, name, tensors), {}))
    return out


def _gguf(folder: Path, name: str, tensors_a_part: int = 0, seed: int = 0) -> Path:
    path = folder / f"{name}-{tensors_a_part}-{seed}" / _ALONE
    first = [path, *sorted(path.parent.glob(f"{_STEM}-00001-of-*.gguf"))][-1]
    if not first.exists():
        path.parent.mkdir(exist_ok=True)
        first = write_tiny(
            path,
            name,
            formats=_FORMATS.get(name, "q4_0"),
            shape=_MODELS[name],
            tensors_a_part=tensors_a_part,
            seed=seed,
        )
    return first


def _in_parts(folder: Path, name: str, tensors: int, seed: int) -> Files:
    first = _gguf(folder, name, tensors, seed)
    return {path.name: path.read_bytes() for path in sorted(first.parent.glob(f"{_STEM}-*.gguf"))}


def _others(folder: Path, name: str, tensors: int) -> Files:
    """Parts of the same model with other weights, and of one of another architecture."""
    names = list(_MODELS)
    other = names[(names.index(name) + 1) % len(names)]
    weights = _in_parts(folder, name, tensors, 1)
    return {
        f"{_OTHER}{part}": data for part, data in (_in_parts(folder, other, tensors, 0) | weights).items()
    }


def mutate_parts(files: Files, rng: random.Random) -> None:
    """Other fields about experts or parts; parts missing, twice, cut, out of order or of another model; other
    weights.
    """
    own = sorted(name for name in files if "/" not in name)
    name = rng.choice(own) if own else ""
    if not own or (len(own) > 1 and rng.random() < 0.35):
        _other_parts(files, own, rng)
    elif rng.random() < 0.2:
        data = files[name]
        files[name] = data[: len(data) // 2] + rng.randbytes(8) + data[len(data) // 2 + 8 :]
    elif rng.random() < 0.7:
        files[name] = _about_experts(files[name], rng)
    else:
        files[name] = mutate_gguf(files[name], rng)


def _other_parts(files: Files, own: list[str], rng: random.Random) -> None:
    others = [name for name in files if name.startswith(_OTHER)]
    if not own:
        return
    name, same = rng.choice(own), rng.choice(own)
    action = rng.choice(("remove", "swap", "again", "cut", "foreign", "foreign", "name", "empty"))
    if action == "remove":
        del files[name]
    elif action == "swap":
        files[name], files[same] = files[same], files[name]
    elif action == "again":
        files[name] = files[same]
    elif action == "cut":
        files[name] = files[name][: rng.randrange(len(files[name]) + 1)]
    elif action == "foreign" and others:
        files[name] = files[rng.choice(others)]
    elif action == "name":
        number, count = rng.randrange(9), rng.randrange(9)
        files[f"{_STEM}-{number:05}-of-{count:05}.gguf"] = files.pop(name)
    else:
        files[name] = b""


def _about_experts(data: bytes, rng: random.Random) -> bytes:
    """Rewrite a field behind a name that has to do with experts or parts."""
    places = _about(data)
    if not places:
        return mutate_gguf(data, rng)
    field = rng.choice(places)
    return data[: field.at] + content(field, data, rng) + data[field.at + field.size :]


@cache
def _about(data: bytes) -> tuple[Field, ...]:
    found, close = [], False
    for field in fields(data):
        if field.kind == "text":
            text = data[field.at : field.at + field.size]
            close = any(word in text for word in _ABOUT)
        if close and field.kind not in ("text", "length"):
            found.append(field)
    return tuple(found)


def read_parts(folder: Path) -> None:
    """Export, and run what came of it: with experts from the disk it says the same as with all in memory."""
    shutil.rmtree(folder / _OTHER, ignore_errors=True)
    parts = sorted(folder.glob(f"{_STEM}-*.gguf"))
    with _exported(folder) as out:
        export_gguf(parts[0] if parts else folder / _ALONE, out)
        _run_both_ways(out)


def directory_seeds(folder: Path) -> list[tuple[Files, Files]]:
    """A directory of each architecture, with a tensor for each expert and with one for all of a layer."""
    out: list[tuple[Files, Files]] = []
    for name in _MODELS:
        for stacked in (False, True):
            directory = folder / f"{name}-{stacked}"
            if not directory.exists():
                write_huggingface(directory, _gguf(folder, name), dtype="BF16", stacked=stacked)
            out.append(({path.name: path.read_bytes() for path in directory.iterdir()}, {}))
    return out


def mutate_directory(files: Files, rng: random.Random) -> None:
    """Half of the damage is done to fields about experts."""
    if rng.random() < 0.5 or "config.json" not in files:
        huggingface.mutate(files, rng)
        return
    try:
        document = json.loads(files["config.json"])
        keys = [
            key for key in document if "expert" in key or "moe" in key or "dense" in key or "norm_" in key
        ]
        document[rng.choice(keys)] = rng.choice((*huggingface.NUMBERS, integer(rng, signed=True)))
    except (ValueError, TypeError, IndexError, RecursionError):  # damaged by an earlier step
        huggingface.mutate(files, rng)
        return
    files["config.json"] = json.dumps(document).encode()


def read_directory(folder: Path) -> None:
    with _exported(folder) as out:
        export_huggingface(folder, out)
        _run_both_ways(out)


@contextmanager
def _exported(folder: Path) -> Iterator[Path]:
    out = folder / "out"
    try:
        yield out
    finally:
        shutil.rmtree(out, ignore_errors=True)


def bundles(folder: Path) -> list[Path]:
    """Bundles of all architectures, made once."""
    for name in _MODELS:
        if not (folder / f"{name}-bundle").exists():
            export_gguf(_gguf(folder, name), folder / f"{name}-bundle")
    return [folder / f"{name}-bundle" for name in _MODELS]


def streamed_seeds(folder: Path) -> list[tuple[Files, Files]]:
    """Bundles of all architectures."""
    out: list[tuple[Files, Files]] = []
    damaged = (MANIFEST, MODEL, WEIGHTS)
    for bundle in bundles(folder):
        files = {path.name: path.read_bytes() for path in bundle.iterdir() if path.is_file()}
        out.append(({one: files.pop(one) for one in damaged}, files))
    return out


def mutate_streamed(files: Files, rng: random.Random) -> None:
    """Other facts about experts, other attributes or places of them, and other or fewer bytes on the disk."""
    action = rng.random()
    if action < 0.3:
        files[MANIFEST] = _other_facts(files[MANIFEST], rng)
    elif action < 0.7:
        files[MODEL] = mutate_op(files[MODEL], rng, "Experts")
    elif action < 0.8:
        mutate_bundle(files, rng)
    elif action < 0.9:
        files[WEIGHTS] = mutate_bytes(files[WEIGHTS], rng)
    else:
        files[WEIGHTS] = files[WEIGHTS][: rng.randrange(len(files[WEIGHTS]) + 1)]


def _other_facts(data: bytes, rng: random.Random) -> bytes:
    try:
        document = json.loads(data)
        facts = next(one for one in _objects(document) if "slot_bytes" in one)
        key = rng.choice(list(facts))
        near = facts[key] * rng.choice((1, 2, 64, 1 << 20)) + rng.choice((-4096, -1, 0, 1, 4096))
        facts[key] = rng.choice((near, near, integer(rng), *huggingface.NUMBERS))
    except (ValueError, TypeError, StopIteration, IndexError, RecursionError):  # damaged by an earlier step
        return mutate_json(data, rng)
    return sealed(document).encode("utf-8", "surrogatepass")


def _objects(value: object) -> Iterator[dict]:  # type: ignore[type-arg]
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _objects(inner)


def read_streamed(folder: Path) -> None:
    """A pass with experts from the disk, under a manifest that states the sizes that files have."""
    manifest = Manifest.from_json((folder / MANIFEST).read_text(encoding="utf-8", errors="replace"))
    _rows(folder, with_true_sizes(folder, manifest), _ON_DISK)


def _run_both_ways(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    assert _rows(bundle, manifest, _ON_DISK) == _rows(bundle, manifest, None)


def _rows(bundle: Path, manifest: Manifest, memory: int | None) -> list[bytes]:
    """The best tokens and their logits of a pass of two, and of one behind it."""
    from edgedec.backends.onnx.model import OnnxModel
    from edgedec.bundle.device_place import DevicePlace
    from edgedec.core.cache_config import CacheConfig

    capacity = min(16, manifest.spec.context_length)
    model = OnnxModel(bundle, manifest, threads=1, spin=False, place=DevicePlace(memory=memory))
    forward = model.forward(CacheConfig(capacity))
    tokens = [0, 1 % manifest.spec.vocab_size, 2 % manifest.spec.vocab_size][:capacity]
    results = [forward.extend(part, rows=ALL_ROWS) for part in (tokens[:2], tokens[2:]) if part]
    return [part.tobytes() for result in results for part in (result.ids, result.values)]
