"""A manifest survives the round trip, and a hostile one is one clear line."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgedec.bundle.manifest import FileEntry, Manifest, TokenizerInfo, is_outdated
from edgedec.core.cache_kinds import Keys, States
from edgedec.core.errors import BadFileError, EdgeDecError, NotFoundError, Remedy, UnsupportedError
from edgedec.core.model_spec import ModelSpec
from tests.bundle import hostile
from tests.bundle.hostile import edit

FILES = {
    "model.onnx": b"graph",
    "weights.bin": b"weights",
    "tokenizer.json": b"{}",
    "chat_template.jinja": b"hi",
}


def make_bundle(directory: Path) -> Manifest:
    directory.mkdir(exist_ok=True)
    for name, data in FILES.items():
        (directory / name).write_bytes(data)
    manifest = Manifest(
        name="tiny",
        spec=ModelSpec("tiny", "llama", 300, 2, 4, 2, 16, 64, 256, bos_id=1, eos_ids=(2, 7)),
        tokenizer=TokenizerInfo(True, 1, (2, 7), "bpe", True),
        files={n: FileEntry(len(d), hashlib.sha256(d).hexdigest()) for n, d in FILES.items()},
        source={"kind": "gguf", "bytes": 12, "licence": "apache-2.0"},
        versions={"edgedec": "0.1.0"},
    )
    manifest.save(directory)
    return manifest


def test_round_trip(tmp_path: Path) -> None:
    manifest = make_bundle(tmp_path)
    assert Manifest.load(tmp_path, verify=True) == manifest
    assert manifest.total_bytes == sum(map(len, FILES.values()))


def test_kinds_of_cache_survive_the_round_trip(tmp_path: Path) -> None:
    made = make_bundle(tmp_path)
    assert "caches" not in made.to_json()
    assert made.spec.kinds == (Keys("kv_cache", 2, 2, 16),)
    kinds = (Keys("kv_cache", 1, 1, 32), Keys("kv_window", 1, 2, 16, 8), States("delta", 3, 40, 3, 512))
    manifest = replace(made, spec=replace(made.spec, caches=kinds, n_window_layers=1, window=8))
    manifest.save(tmp_path)
    loaded = Manifest.load(tmp_path)
    assert loaded.spec.kinds == kinds
    assert (loaded.spec.keys, loaded.spec.states) == (kinds[:2], kinds[2:])


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {},
        "keys",
        [1],
        [{"kind": "keys", "name": "kv_cache", "layers": 0, "kv_heads": 1, "head_dim": 16, "window": 0}],
        [{"kind": "keys", "name": "kv_cache", "layers": 1, "kv_heads": 1, "head_dim": 16, "window": 4}],
        [{"kind": "keys", "name": "kv_window", "layers": 1, "kv_heads": 1, "head_dim": 16, "window": 0}],
        [{"kind": "keys", "name": "delta", "layers": 1, "kv_heads": 1, "head_dim": 16, "window": 0}],
        [{"kind": "states", "name": "conv", "layers": 1, "trail": 2**40, "tail": 2, "state": 0}],
        [{"kind": "states", "name": "conv", "layers": 1, "trail": 8, "tail": 32, "state": 0}],
        [{"kind": "states", "name": "conv", "layers": 1, "trail": 8, "tail": 2, "state": 0}] * 2,
        [{"kind": ["states"], "name": "conv", "layers": 1, "trail": 8, "tail": 2, "state": 0}],
        [{"kind": "states", "name": ["conv"], "layers": 1, "trail": 8, "tail": 2, "state": 0}],
    ],
)
def test_damaged_kinds_of_cache_are_refused(tmp_path: Path, wrong: Any) -> None:
    make_bundle(tmp_path)
    edit(tmp_path / "manifest.json", ("spec", "caches"), wrong)
    with pytest.raises(BadFileError, match="'caches'"):
        Manifest.load(tmp_path)


def test_the_kind_of_bundle_decides_which_files_it_needs(tmp_path: Path) -> None:
    assert make_bundle(tmp_path).kind == "edgedec"
    for kind in ("optimum", "edgedec", "another"):
        edit(tmp_path / "manifest.json", ("kind",), kind)
        assert Manifest.load(tmp_path).kind == kind
    edit(tmp_path / "manifest.json", ("kind",), "gguf")
    with pytest.raises(BadFileError, match=r"does not list model\.gguf"):
        Manifest.load(tmp_path)
    for wrong in (1, None, ["optimum"], {}, ...):
        edit(tmp_path / "manifest.json", ("kind",), wrong)
        with pytest.raises(BadFileError, match="'kind'"):
            Manifest.load(tmp_path)


def test_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no EdgeDec bundle"):
        Manifest.load(tmp_path)
    with pytest.raises(NotFoundError, match="no EdgeDec bundle"):
        Manifest.load(tmp_path / "absent")


@pytest.mark.parametrize(
    ("version", "kind", "hint", "remedies"),
    [
        (1, "package index", "pull the model again", (Remedy("pull", "tiny"),)),
        (1, "gguf", "pull or export the model again", ()),
        (3, "package index", "update EdgeDec", ()),
    ],
)
def test_another_version_is_refused_with_the_way_to_a_new_one(
    tmp_path: Path, version: int, kind: str, hint: str, remedies: tuple[Remedy, ...]
) -> None:
    make_bundle(tmp_path)
    assert not is_outdated(tmp_path)
    edit(tmp_path / "manifest.json", ("version",), version)
    edit(tmp_path / "manifest.json", ("source", "kind"), kind)
    assert is_outdated(tmp_path) == (version == 1)
    with pytest.raises(UnsupportedError, match=f"bundle tiny has version {version}") as caught:
        Manifest.load(tmp_path)
    assert (caught.value.hint, caught.value.remedies) == (hint, remedies)


@pytest.mark.parametrize("field", ["head_k", "ffn_size", "n_window_layers", "window", "table_bytes"])
def test_every_field_of_the_spec_is_stated(tmp_path: Path, field: str) -> None:
    make_bundle(tmp_path)
    edit(tmp_path / "manifest.json", ("spec", field), ...)
    with pytest.raises(BadFileError, match=f"spec lacks '{field}'"):
        Manifest.load(tmp_path)


HOSTILE: list[tuple[tuple[str, ...], Any]] = [
    *hostile.FILES,
    (("format",), "other"),
    (("format",), ...),
    (("version",), "1"),
    (("version",), True),
    (("name",), 3),
    (("name",), "two\nlines"),
    (("spec",), []),
    (("spec", "n_layers"), 0),
    (("spec", "n_layers"), -1),
    (("spec", "n_layers"), 2.0),
    (("spec", "n_layers"), 10**30),
    (("spec", "n_kv_heads"), 3),
    (("spec", "head_k"), 301),
    (("spec", "eos_ids"), [300]),
    (("spec", "eos_ids"), "2"),
    (("spec", "bos_id"), -5),
    (("spec", "vocab_size"), ...),
    (("spec", "n_window_layers"), 1),
    (("spec", "n_window_layers"), -1),
    (("spec", "window"), 512),
    (("spec", "window"), 2**40),
    (("tokenizer",), None),
    (("tokenizer", "kind"), "wordpiece"),
    (("tokenizer", "add_bos"), 1),
    (("files", "weights.bin"), ...),
    (("files", "chat_template.jinja"), ...),
    (("files", "weights.bin"), {"bytes": -1, "sha256": "0" * 64}),
    (("files", "weights.bin"), {"bytes": 7, "sha256": "xyz"}),
    (("files", "weights.bin"), 7),
    (("source",), {"a": {"b": 1}}),
    (("versions",), 1),
]


def test_layers_with_a_window(tmp_path: Path) -> None:
    made = make_bundle(tmp_path)
    assert (made.spec.n_window_layers, made.spec.window) == (0, 0)
    edit(tmp_path / "manifest.json", ("spec", "window"), 512)
    edit(tmp_path / "manifest.json", ("spec", "n_window_layers"), made.spec.n_layers)
    assert Manifest.load(tmp_path).spec == replace(made.spec, window=512, n_window_layers=made.spec.n_layers)
    edit(tmp_path / "manifest.json", ("spec", "n_window_layers"), made.spec.n_layers + 1)
    with pytest.raises(BadFileError, match="do not fit each other"):
        Manifest.load(tmp_path)


def test_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(BadFileError, match="UTF-8"):
        Manifest.load(tmp_path)


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_bundle(tmp_path)
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "weights.bin")
    with pytest.raises(BadFileError, match=r"weights\.bin cannot be read"):
        Manifest.load(tmp_path)


def test_size_is_checked_always_and_hash_on_request(tmp_path: Path) -> None:
    make_bundle(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"wEights")
    assert Manifest.load(tmp_path).name == "tiny"
    with pytest.raises(BadFileError, match=r"weights\.bin .* SHA-256"):
        Manifest.load(tmp_path, verify=True)
    (tmp_path / "weights.bin").write_bytes(b"weight")
    with pytest.raises(BadFileError, match="6 bytes, not 7"):
        Manifest.load(tmp_path)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(EdgeDecError, match=r"lacks weights\.bin"):
        Manifest.load(tmp_path)


def test_every_flipped_bit_of_its_facts_is_found(tmp_path: Path) -> None:
    text = make_bundle(tmp_path).to_json().encode()
    for at in range(len(text)):
        for bit in range(0, 8, 3):
            flipped = bytearray(text)
            flipped[at] ^= 1 << bit
            try:
                Manifest.from_json(flipped.decode())
            except (EdgeDecError, UnicodeDecodeError):
                continue
            assert json.loads(flipped) == json.loads(text)  # only space between its facts


def test_a_manifest_of_earlier_versions_has_no_hash_and_no_strange_field(tmp_path: Path) -> None:
    manifest = make_bundle(tmp_path)
    facts = json.loads(manifest.to_json())
    del facts["sha256"]
    assert Manifest.from_json(json.dumps(facts)) == manifest
    with pytest.raises(BadFileError, match="'sha255' is none of its fields"):
        Manifest.from_json(json.dumps({**facts, "sha255": "0" * 64}))
