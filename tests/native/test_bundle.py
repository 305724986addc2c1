"""bundle/: manifests are read and refused as ``core.manifest`` does it."""

from __future__ import annotations

import copy
import json
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from edgedec.bundle.manifest import Manifest
from edgedec.bundle.preset import Preset
from edgedec.core.errors import EdgeDecError
from edgedec.disk import listed_files
from edgedec.native import probe
from tests.bundle.test_manifest import make_bundle

HASH = "0123456789abcdef" * 4
FACTS: dict[str, Any] = {
    "format": "edgedec-bundle",
    "version": 2,
    "kind": "edgedec",
    "name": "tiny \u00e4",
    "architecture": "llama",
    "spec": {
        "name": "tiny",
        "architecture": "llama",
        "vocab_size": 300,
        "n_layers": 2,
        "n_heads": 4,
        "n_kv_heads": 2,
        "head_dim": 16,
        "hidden_size": 64,
        "context_length": 256,
        "bos_id": 1,
        "eos_ids": [2, 7],
        "head_k": 64,
        "ffn_size": 128,
        "n_window_layers": 1,
        "window": 32,
        "table_bytes": 0,
    },
    "tokenizer": {"add_bos": True, "bos_id": 1, "eos_ids": [2, 7], "kind": "bpe", "chat_template": False},
    "preset": {
        "temperature": 0.2,
        "top_k": 40,
        "top_p": 0.9,
        "system": "Be brief.",
        "stops": ["\n\n", "END"],
    },
    "files": {
        name: {"bytes": 12, "sha256": HASH} for name in ("model.onnx", "weights.bin", "tokenizer.json")
    },
    "source": {"kind": "gguf", "bytes": 12, "licence": None, "float": 1e-7, "whole": 1.0},
    "versions": {"edgedec": "0.1.0"},
}
KEYS = {"kind": "keys", "name": "kv_cache", "layers": 1, "kv_heads": 2, "head_dim": 16, "window": 0}
RINGS = {"kind": "keys", "name": "kv_window", "layers": 3, "kv_heads": 1, "head_dim": 8, "window": 32}
STATES = {"kind": "states", "name": "delta", "layers": 1, "trail": 8, "tail": 3, "state": 16}
TRAIL = {"kind": "states", "name": "conv", "layers": 2, "trail": 8, "tail": 3, "state": 0}
EXPERTS = {
    "layers": 2, "count": 8, "chosen": 2, "width": 32, "slot_bytes": 4096, "nbytes": 65536, "shared": 0,
}  # fmt: skip
STRANGE: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31 - 1,
    2**31,
    2**63 - 1,
    2**63,
    10**30,
    0.0,
    -0.5,
    0.5,
    1.0,
    1.5,
    101.0,
    1e308,
    "",
    "x",
    "x" * 1001,
    "a\x1bb",
    "a\u200bb",
    "\u00a0",
    "\ud800",
    "bpe",
    "../x",
    HASH,
    HASH.upper(),
    [],
    [1],
    [-1],
    [0.5],
    ["a"],
    [""],
    ["a"] * 17,
    ["a" * 201],
    {},
    {"a": 1},
    {"a": []},
    {"a": {"bytes": 1, "sha256": HASH}},
    ...,
]


def native(text: str) -> dict[str, Any]:
    return probe.manifest(text.encode("utf-8", "surrogatepass"))


def expected(text: str) -> dict[str, Any]:
    try:
        manifest = Manifest.from_json(text)
    except EdgeDecError as error:
        return {"code": error.exit_code, "message": error.message, "hint": error.hint or ""}
    preset, tokenizer = asdict(manifest.preset), asdict(manifest.tokenizer)
    del tokenizer["infill"]  # the native engine fills no gaps
    return {
        "name": manifest.name,
        "kind": manifest.kind,
        "spec": {**manifest.spec.as_json(), "eos_ids": list(manifest.spec.eos_ids)},
        "tokenizer": {**tokenizer, "eos_ids": list(manifest.tokenizer.eos_ids)},
        "preset": {**preset, "stops": list(preset["stops"])},
        "files": {name: asdict(entry) for name, entry in manifest.files.items()},
    }


def agree(text: str) -> None:
    """Compare facts or errors; in what is wrong with a preset the two look in another order."""
    ours, theirs = native(text), expected(text)
    assert ours.get("code") == theirs.get("code"), (text[:2000], ours, theirs)
    if "code" not in theirs:
        assert ours == theirs
    else:
        assert ("'preset'" in ours["message"] and "'preset'" in theirs["message"]) or ours == theirs


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values below ``value``."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, below in items for found in ((*path, key), *places(below, (*path, key)))]


def changed(draw: random.Random, facts: dict[str, Any] = FACTS, below: tuple[str, ...] = ()) -> str:
    """Return a manifest with a few other values, of which all lie ``below`` a place."""
    facts = copy.deepcopy(facts)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        every = places(facts)
        *path, last = draw.choice([one for one in every if one[: len(below)] == below] or every)
        place = facts
        for key in path:
            place = place[key]
        value = draw.choice(STRANGE)
        if value is ...:
            del place[last]
        elif isinstance(place, dict) and draw.random() < 0.2:
            place[
                draw.choice(["new", "top_k", "eta", "min_p", "mirostat_eta", "weights.bin", "a b", "\u00e4"])
            ] = value
        else:
            place[last] = copy.deepcopy(value)
    if draw.random() < 0.2:
        return json.dumps(facts)
    text = listed_files.sealed(facts).encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return text.replace("tiny", "tony") if draw.random() < 0.1 else text


def damaged(draw: random.Random) -> bytes:
    text = bytearray(listed_files.sealed(FACTS).encode())
    for _ in range(draw.randrange(1, 5)):
        at = draw.randrange(len(text))
        text[at : at + draw.randrange(3)] = draw.randbytes(draw.randrange(3))
    return bytes(text)


def test_a_manifest_is_read_as_python_reads_it() -> None:
    agree(listed_files.sealed(FACTS))
    agree(json.dumps(FACTS))
    for text in ("", "[]", "{}", "1", '{"format": 1}', "null", '{"format": "edgedec-bundle"}'):
        agree(text)


def test_other_versions_are_told_apart() -> None:
    for version in (1, 3):
        for source in ({"kind": "package index"}, {"kind": "gguf"}, [], {"a": []}):
            agree(json.dumps(FACTS | {"version": version, "source": source}))


def with_caches(*kinds: dict[str, Any]) -> dict[str, Any]:
    facts = copy.deepcopy(FACTS)
    facts["spec"]["caches"] = copy.deepcopy(list(kinds))
    return facts


def test_kinds_of_cache_are_read_as_python_reads_them() -> None:
    for kinds in ([KEYS], [STATES], [KEYS, RINGS], [KEYS, RINGS, STATES], [RINGS, TRAIL]):
        text = listed_files.sealed(with_caches(*kinds))
        assert native(text)["spec"]["caches"] == kinds
        agree(text)
    for kinds in ([], [KEYS, KEYS], [STATES, TRAIL | {"tail": 2}], [KEYS | {"name": "conv"}], [3], [{}]):
        text = listed_files.sealed(with_caches(*kinds))
        assert native(text)["code"] == 4
        agree(text)
    agree(listed_files.sealed(FACTS | {"spec": FACTS["spec"] | {"caches": 3}}))


def test_changed_kinds_of_cache_are_refused_as_python_refuses_them() -> None:
    draw = random.Random(5)
    for _ in range(800):
        agree(changed(draw, with_caches(KEYS, RINGS, STATES, TRAIL), ("spec", "caches")))


def with_experts(**sizes: Any) -> dict[str, Any]:
    facts = copy.deepcopy(FACTS)
    facts["spec"]["experts"] = EXPERTS | sizes
    return facts


def test_experts_are_read_as_python_reads_them() -> None:
    text = listed_files.sealed(with_experts())
    assert native(text)["spec"]["experts"] == EXPERTS
    agree(text)
    for sizes in (
        {"chosen": 9}, {"slot_bytes": 1 << 20}, {"nbytes": 65535}, {"nbytes": 1 << 20}, {"layers": 1 << 51},
        {"count": 1 << 50}, {"width": 0}, {"shared": -1}, {"width": 1.0},
    ):  # fmt: skip
        text = listed_files.sealed(with_experts(**sizes))
        assert native(text)["code"] == 4
        agree(text)
    for value in (3, [], None, {}):
        agree(listed_files.sealed(FACTS | {"spec": FACTS["spec"] | {"experts": value}}))


def test_changed_experts_are_refused_as_python_refuses_them() -> None:
    draw = random.Random(7)
    for _ in range(400):
        agree(changed(draw, with_experts(), ("spec", "experts")))


def test_changed_manifests_are_refused_as_python_refuses_them() -> None:
    draw = random.Random(1)
    for _ in range(800):
        agree(changed(draw))


@pytest.mark.slow
def test_a_hundred_thousand_damaged_manifests() -> None:
    draw = random.Random(2)
    for turn in range(100_000):
        if turn % 2:
            agree(changed(draw))
        else:
            found = probe.manifest(damaged(draw))
            assert "code" in found or found["kind"] == "edgedec"


def test_presets_of_all_kinds_come_through() -> None:
    values = dict.fromkeys(asdict(Preset()))
    draw = random.Random(3)
    for _ in range(500):
        preset = {name: draw.choice(STRANGE[5:22]) for name in values if draw.random() < 0.2}
        agree(listed_files.sealed(FACTS | {"preset": preset}))


def test_a_bundle_is_checked_with_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    make_bundle(folder)
    assert probe.bundle(str(folder), verify=True)["name"] == "tiny"
    assert probe.bundle(str(tmp_path / "none"))["code"] == 3

    (folder / "weights.bin").write_bytes(b"WEIGHTS")
    assert "code" not in probe.bundle(str(folder))
    assert probe.bundle(str(folder), verify=True)["message"] == "weights.bin of the bundle fails its SHA-256"
    (folder / "weights.bin").write_bytes(b"more weights")
    assert "has 12 bytes, not 7" in probe.bundle(str(folder))["message"]
    (folder / "weights.bin").unlink()
    assert probe.bundle(str(folder))["message"] == "the bundle lacks weights.bin"
    (tmp_path / "secret").write_bytes(b"weights")
    (folder / "weights.bin").symlink_to(tmp_path / "secret")
    assert "leads out of it" in probe.bundle(str(folder))["message"]
    (folder / "weights.bin").unlink()
    (folder / "weights.bin").mkdir()
    assert probe.bundle(str(folder))["message"] == "the bundle lacks weights.bin"
    (folder / "manifest.json").write_bytes(b" " * ((1 << 20) + 1))
    assert probe.bundle(str(folder))["code"] == 4
