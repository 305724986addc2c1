"""Directories as Hugging Face's transformers writes them: damaged headers, shards, configs and tokenizers."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

from edgedec.bundle.manifest import Manifest
from edgedec.export import export_huggingface
from tests.fixtures.tiny_huggingface import write_huggingface
from tests.fuzz.mutate import INTERESTING, integer, mutate_bytes, mutate_json, mutate_template, value
from tests.fuzz.target import MODELS, OUTSIDE, Files, Link, run_bundle, tiny_gguf

_STORED = (("F32", 1), ("BF16", 2), ("F16", 3), ("F32", 2), ("F32", 2), ("BF16", 1), ("F16", 1), ("F32", 1))
_DTYPES = ("F32", "F16", "BF16", "F64", "I64", "U8", "BOOL", "F8_E4M3", "I32", "f32", "", "X" * 300)
_NAMES = (
    "",
    "../x",
    "x\n\x1b[31m",
    "a" * 5000,
    "model.layers.9.mlp.up_proj.weight",
    "model.layers.²0.mlp.up_proj.weight",
    "__metadata__",
)
NUMBERS: tuple[Any, ...] = (
    -1,
    0,
    1,
    3,
    7,
    2**24,
    2**31,
    2**53,
    2**64,
    -(2**63),
    10**400,
    0.5,
    1e300,
    True,
    False,
    None,
    "32",
    [],
)


def seeds(folder: Path) -> list[tuple[Files, Files]]:
    """A model of each kind, as other types of floats and over several files."""
    out: list[tuple[Files, Files]] = []
    for (architecture, formats), (dtype, shards) in zip(MODELS, _STORED, strict=True):
        gguf, directory = tiny_gguf(folder, architecture, formats), folder / f"{architecture}-hf"
        if not directory.exists():
            write_huggingface(directory, gguf, dtype=dtype, shards=shards)
            (directory / "generation_config.json").write_text('{"eos_token_id": [1, 2], "bos_token_id": 1}')
        out.append(({path.name: path.read_bytes() for path in directory.iterdir()}, {}))
    return out


def mutate(files: Files, rng: random.Random) -> None:
    """Damage to one file, mostly in the way that its kind calls for; or a file that is another one."""
    kinds = {".safetensors": _safetensors, ".jinja": mutate_template}
    name = rng.choice(sorted(files))
    if rng.random() < 0.4:
        name = rng.choice([other for other in sorted(files) if other.endswith(".safetensors")] or [name])
    if rng.random() < 0.04:
        _other_files(files, name, rng)
    elif name == "config.json" and rng.random() < 0.6:
        files[name] = _config(files[name], rng)
    elif not isinstance(files[name], Link):
        files[name] = kinds.get(Path(name).suffix, mutate_json)(files[name], rng)


def _other_files(files: Files, name: str, rng: random.Random) -> None:
    action = rng.choice(("remove", "exchange", "link", "link", "copy", "folder"))
    if action == "exchange":
        other = rng.choice(sorted(files))
        files[name], files[other] = files[other], files[name]
    elif action == "link":
        files[name] = Link(rng.choice((f"{OUTSIDE}/secret", "/dev/null", name, "nowhere", ".")).encode())
    elif action == "copy":
        files["model-00009-of-00009.safetensors"] = files[name]
    else:
        data = files.pop(name)
        if action == "folder":
            files[f"{name}/x"] = data


def _config(data: bytes, rng: random.Random) -> bytes:
    """A number of the configuration becomes one that it can not be."""
    try:
        document = json.loads(data)
        key = rng.choice(sorted(document))
    except (ValueError, AttributeError, TypeError, IndexError, RecursionError):
        return mutate_bytes(data, rng)
    document[key] = rng.choice((*NUMBERS, float("nan"), float("inf"), integer(rng, signed=True)))
    if rng.random() < 0.2:
        kind = rng.choice(("linear", "llama3", "longrope", "su", "dynamic", "yarn", "default", "x", 3))
        names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
        document["rope_scaling"] = {name: rng.choice((8.0, 1e-30, 1e29, 2, *NUMBERS)) for name in names}
        document["rope_scaling"] |= {"rope_type": kind, "short_factor": [1.0] * rng.choice((1, 8))}
    return json.dumps(document).encode()


def _safetensors(data: bytes, rng: random.Random) -> bytes:
    """Lies about the header's length, or about type, shape or place of a tensor in it."""
    length = int.from_bytes(data[:8], "little")
    if rng.random() < 0.15:
        return integer(rng).to_bytes(8, "little") + data[8:]
    try:
        header = json.loads(data[8 : 8 + length])
    except (ValueError, RecursionError):
        return mutate_bytes(data, rng)
    if rng.random() < 0.3 or not isinstance(header, dict):
        text = mutate_json(data[8 : 8 + length], rng)
    else:
        try:
            text = _header(header, rng)
        except (TypeError, KeyError, IndexError, AttributeError):  # an earlier step damaged it
            return mutate_bytes(data, rng)
    kept = length if rng.random() < 0.1 else len(text)
    return kept.to_bytes(8, "little") + text + data[8 + length :]


def _header(header: dict[str, Any], rng: random.Random) -> bytes:
    names = [name for name, entry in header.items() if isinstance(entry, dict) and "shape" in entry]
    if not names:
        return json.dumps(header).encode()
    name, other = rng.choice(names), rng.choice(names)
    entry = header[name]
    action = rng.choice(("type", "shape", "shape", "place", "place", "overlap", "rename", "again", "extra"))
    if action == "type":
        entry["dtype"] = rng.choice(_DTYPES)
    elif action == "shape":
        _shape(entry, rng)
    elif action == "place":
        places = entry.setdefault("data_offsets", [0, 0])
        places[rng.randrange(len(places))] = rng.choice(
            (integer(rng), -1, 0.5, places[0] + 2, places[-1] + 4, places[-1] * 2, True, None)
        )
    elif action == "overlap":
        entry["data_offsets"] = header[other]["data_offsets"]
    elif action == "rename":
        header[rng.choice((other, *_NAMES))] = header.pop(name)
    elif action == "extra":
        header["x" * rng.choice((1, 3000))] = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    text = json.dumps(header)
    if action == "again":
        text = text[:-1] + f", {json.dumps(name)}: {json.dumps(header[other])}}}"
    return text.encode()


def _shape(entry: dict[str, Any], rng: random.Random) -> None:
    shape = entry["shape"]
    action = rng.choice(("dim", "near", "flat", "split", "more", "reverse", "value"))
    if action in ("dim", "near") and shape:
        at = rng.randrange(len(shape))
        shape[at] = rng.choice(INTERESTING) if action == "dim" else shape[at] + rng.choice((-1, 1))
    elif action == "flat" and len(shape) == 2:
        entry["shape"] = [shape[0] * shape[1]]
    elif action == "split" and shape:
        entry["shape"] = [shape[0] // 2, 2, *shape[1:]]
    elif action == "more":
        entry["shape"] = rng.choice(([*shape, 1], [1, *shape], shape + [2**33] * 2, [0, *shape], [1] * 300))
    elif action == "reverse":
        shape.reverse()  # of a square matrix, this is no damage
    else:
        entry["shape"] = value(rng)


def read(folder: Path) -> None:
    """Export, and run what came of it."""
    out = folder / "out"
    try:
        export_huggingface(folder, out)
        run_bundle(out, Manifest.load(out))
    finally:
        shutil.rmtree(out, ignore_errors=True)
