"""draft/: the native engine reads and says another vocabulary as Python does."""

from __future__ import annotations

import ctypes
import json
import random
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import pytest

from edgedec import native
from edgedec.bundle.manifest import Manifest
from edgedec.core.tree import ROOT
from edgedec.draft import TextBridge
from edgedec.draft.tree_builder import TreeBuilder
from edgedec.drafters.pairing import bridge
from edgedec.drafters.vocabulary_maps import vocabulary_maps
from edgedec.export.device import DeviceOrder, choose_drafters, write_device_folder
from edgedec.loaded_model import load_model
from edgedec.native import probe
from edgedec.native.ready import make_ready
from tests.fixtures.tiny_models import tiny_bundle
from tests.native.test_api_drafters import SETTINGS, plain, tokens

PAIRS = [("llama", "gemma3"), ("gemma3", "llama")]


class NativeBridge:
    def __init__(self, target: Path, draft: Path, maps: Path) -> None:
        paths = (str(path).encode() for path in (target, draft, maps))
        self._handle = probe.function("bridge", c_void_p, c_char_p, c_char_p, c_char_p)(*paths)
        assert self._handle

    def close(self) -> None:
        probe.function("bridge_close", None, c_void_p)(self._handle)

    def read(self, tokens: list[int], kept: int) -> Any:
        call = probe.text_function("bridge_read", c_void_p, POINTER(c_int32), c_size_t, c_int64)
        return json.loads(call(self._handle, (c_int32 * len(tokens))(*tokens), len(tokens), kept))

    def tree(self, sketch: TreeBuilder) -> Any:
        call = probe.text_function(
            "bridge_tree", c_void_p, POINTER(c_int32), POINTER(c_int), POINTER(c_double), c_size_t
        )
        count = len(sketch)
        rows = (
            (c_int32 * count)(*sketch.tokens),
            (c_int * count)(*sketch.parents),
            (c_double * count)(*sketch.reach),
        )
        return json.loads(call(self._handle, *rows, count))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def sides(place: Path, target: str, draft: str) -> tuple[NativeBridge, TextBridge, tuple[int, int]]:
    bundles = [tiny_bundle(place, name) for name in (target, draft)]
    for one in bundles:
        make_ready(one)
    theirs, mine = (load_model(one, threads=1) for one in bundles)
    sizes = theirs.spec.vocab_size, mine.spec.vocab_size
    maps = vocabulary_maps(theirs.tokenizer, mine.tokenizer, sizes)
    folder = place / f"{target}-{draft}"
    folder.mkdir(exist_ok=True)
    (folder / "to_target.i32").write_bytes(maps.to_target.astype("<i4").tobytes())
    (folder / "to_draft.i32").write_bytes(maps.to_draft.astype("<i4").tobytes())
    python = bridge(theirs, mine, same=False)
    assert isinstance(python, TextBridge)
    return NativeBridge(bundles[0], bundles[1], folder), python, sizes


def random_sketch(draw: random.Random, ids: int) -> TreeBuilder:
    sketch = TreeBuilder()
    for _ in range(draw.randrange(1, 12)):
        parent = draw.randrange(-1, len(sketch))
        above = 1.0 if parent == ROOT else sketch.reach[parent]
        sketch.add(draw.randrange(ids), parent, above * draw.choice((0.5, 0.3, 0.9)))
    return sketch


@pytest.mark.parametrize(("target", "draft"), PAIRS)
def test_random_texts_are_read_and_said_alike(place: Path, target: str, draft: str) -> None:
    ours, theirs, (vocabulary, ids) = sides(place, target, draft)
    draw, said = random.Random(4), 0
    text: list[int] = []
    for _ in range(150):
        new = [draw.randrange(vocabulary) for _ in range(draw.choice((1, 2, 5, 30, 90)))]
        if draw.random() < 0.3:
            kept = draw.randrange(len(text) + 1)
            text = [*text[:kept], *new]
            theirs.begin(text, kept)
            found = ours.read(text, kept)
        else:
            text += new
            theirs.commit(new)
            found = ours.read(new, -1)
        assert found == theirs.read()
        for _ in range(3):
            sketch = random_sketch(draw, ids)
            tree, count = theirs.in_target_ids(sketch), len(sketch) - 1
            told = ours.tree(sketch)
            nodes = [list(node) for node in zip(tree.tokens, tree.parents, tree.reach, strict=True)]
            assert told["nodes"] == nodes
            path = [sketch.tokens[node] for node in sketch.path(count)]
            assert told["length"] == theirs.length(path)
            said += len(nodes)
    ours.close()
    assert said > 300


def test_a_folder_with_another_vocabulary_drafts_through_its_maps(place: Path, tmp_path: Path) -> None:
    target, small = tiny_bundle(place), tiny_bundle(place, "gemma3", seed=3)
    chosen = choose_drafters((), target, tmp_path / "home")
    write_device_folder(DeviceOrder("android", target, chosen, small, tmp_path / "home"), tmp_path / "phone")
    found, drafted, told = tokens(tmp_path / "phone")
    assert found == plain(target)
    assert list(drafted) == ["lookup", "recycling", small.name]
    assert drafted[small.name]["queries"]
    assert not [line for line in told if "drafter" in line]
    parts = native.plan(tmp_path / "phone", **SETTINGS)["parts"]
    assert parts["drafter"] > Manifest.load(small).spec.vocab_size


@pytest.mark.parametrize("wrong", [b"", b"\x00" * 10, b"same size", None])
def test_damaged_maps_cost_a_line(place: Path, tmp_path: Path, wrong: bytes | None) -> None:
    target, small = tiny_bundle(place), tiny_bundle(place, "gemma3", seed=3)
    chosen = choose_drafters((), target, tmp_path / "home")
    write_device_folder(DeviceOrder("android", target, chosen, small, tmp_path / "home"), tmp_path / "phone")
    file = tmp_path / "phone" / "maps" / small.name / "to_target.i32"
    size = file.stat().st_size
    if wrong == b"same size":  # an id that there is, but not the one of the list
        first = file.read_bytes()
        wrong = first[4:8] + first[:4] + first[8:]
    file.write_bytes(bytes(ctypes.c_int32(1 << 30)) * (size // 4) if wrong is None else wrong)
    found, drafted, told = tokens(tmp_path / "phone")
    assert found == plain(target)
    assert list(drafted) == ["lookup", "recycling"]
    assert len([line for line in told if "which drafts for it: to_target.i32" in line]) == 1
