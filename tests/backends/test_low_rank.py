"""Adapters as nodes of a graph: their meaning, bits that do not depend on the pass, drafts, memory."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgedec.backends.onnx.low_rank import LowRankGraph
from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.device_place import DevicePlace
from edgedec.bundle.manifest import MODEL, Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import UnsupportedError
from edgedec.core.ledger import Ledger
from edgedec.core.low_rank import F32, LoraAdapter, LowRank, together
from edgedec.core.rows import Rows
from edgedec.export import export_gguf
from edgedec.export.lora.reading import read_adapter
from edgedec.kernels.library import available
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_lora import LINEARS, random_pairs, write_gguf_adapter, write_merged
from tests.reference.graph import graph_logits
from tests.reference.model import reference_logits

TOKENS = [3, 9, 270, 41, 5, 5, 100, 17, 260, 33, 8, 64, 12, 250, 7, 90, 11, 2, 4, 6]
CONVOLUTIONS = (*LINEARS, "in_proj", "out_proj")
SHAPES = {"llama": 2, "qwen2": 2, "qwen3": 2, "gemma3": 2, "lfm2": 5}


class Place:
    """A tiny model, an adapter of all its linear layers, and both as one model of floats."""

    def __init__(self, folder: Path, architecture: str, formats: str) -> None:
        shape = TinyShape(layers=SHAPES[architecture])
        self.gguf = write_tiny(folder / "m.gguf", architecture, formats=formats, shape=shape)
        self.bundle = folder / "bundle"
        export_gguf(self.gguf, self.bundle)
        self.pairs = random_pairs(self.gguf, CONVOLUTIONS)
        self.file = write_gguf_adapter(folder / "a.gguf", self.pairs, architecture)
        self.adapter = read_adapter(f"{self.file}:0.5", self.bundle)
        self.folder = folder

    def model(self, *adapters: LoraAdapter, drafting: bool = False) -> OnnxModel:
        place = DevicePlace(adapters=tuple(partial(lambda one: one, one) for one in adapters))
        manifest = Manifest.load(self.bundle)
        return OnnxModel(self.bundle, manifest, threads=2, spin=False, drafting=drafting, place=place)

    def logits(self, *adapters: LoraAdapter, pieces: Sequence[int] = (len(TOKENS),)) -> bytes:
        """All logits of ``TOKENS``, read in passes over so many tokens."""
        forward, found, at = self.model(*adapters).forward(CacheConfig(64)), b"", 0
        for count in pieces:
            rows = forward.extend(TOKENS[at : at + count], rows=Rows(full=True))
            assert rows.logits is not None
            found, at = found + rows.logits.tobytes(), at + count
        assert at == len(TOKENS)
        return found

    def changed(self, *more: LoraAdapter) -> Path:
        """The bundle with the adapter's nodes in its file, for the graph's oracle."""
        graph = LowRankGraph(together([self.adapter, *more]))
        model = onnx.load_model_from_string(graph.apply((self.bundle / MODEL).read_bytes()))
        for tensor in model.graph.initializer:
            if tensor.name in graph.arrays:
                tensor.data_location = onnx.TensorProto.DEFAULT
                del tensor.external_data[:]
                tensor.raw_data = graph.arrays[tensor.name].tobytes()
        out = self.folder / "changed"
        shutil.copytree(self.bundle, out)
        (out / MODEL).write_bytes(model.SerializeToString())
        return out


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("llama"), "llama", "q8_0")


@pytest.mark.parametrize("architecture", SHAPES)
def test_the_graph_means_the_merged_model(architecture: str, tmp_path: Path) -> None:
    """8 / 4 is the file's own scale, and 0.5 the one that was asked for."""
    place = Place(tmp_path, architecture, "f32")
    merged = write_merged(place.gguf, place.pairs, 8 / 4 * 0.5, tmp_path / "merged.gguf")
    wanted = reference_logits(merged, TOKENS, dtype=np.float64)
    np.testing.assert_allclose(graph_logits(place.changed(), TOKENS), wanted, atol=1e-4)
    assert np.abs(wanted - reference_logits(place.gguf, TOKENS, dtype=np.float64)).max() > 0.1
    found = np.frombuffer(place.logits(place.adapter), np.float32).reshape(wanted.shape)
    np.testing.assert_allclose(found, wanted, atol=1e-2)  # keys and values are rounded to fp16


def test_bits_depend_neither_on_the_length_of_a_pass_nor_on_the_instruction_set(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = place.logits(place.adapter)
    assert place.logits(place.adapter, pieces=[1, 2, 3, 1, 5, 8]) == whole
    for row in available():
        monkeypatch.setenv("EDGEDEC_ISA", row)
        assert place.logits(place.adapter, pieces=[7, 13]) == whole, row


def test_a_change_by_zeros_keeps_every_bit(place: Place) -> None:
    """Gate and up are computed apart then, with the bits of the two together."""
    zeros = {name: LowRank.of(one.down, 0 * one.up) for name, one in place.adapter.changes.items()}
    assert place.logits(LoraAdapter("zeros", "", zeros)) == place.logits()
    assert place.logits(LoraAdapter("none", "", {})) == place.logits()
    assert place.logits(place.adapter) != place.logits()


def test_two_adapters_are_added(tmp_path: Path) -> None:
    place = Place(tmp_path, "llama", "f32")
    more = random_pairs(place.gguf, ["attn_q", "ffn_up"], rank=3, seed=1)
    other = read_adapter(str(write_gguf_adapter(tmp_path / "b.gguf", more, alpha=3)), place.bundle)
    merged = write_merged(place.gguf, place.pairs, 1.0, tmp_path / "one.gguf")
    merged = write_merged(merged, more, 1.0, tmp_path / "two.gguf")
    wanted = reference_logits(merged, TOKENS, dtype=np.float64)
    np.testing.assert_allclose(graph_logits(place.changed(other), TOKENS), wanted, atol=1e-4)


def test_the_graph_for_drafting_is_changed_too(place: Place) -> None:
    forwards = [
        place.model(place.adapter, drafting=drafting).forward(CacheConfig(64)) for drafting in (False, True)
    ]
    plain, drafting = (forward.extend(TOKENS, rows=Rows(full=True)).logits for forward in forwards)
    assert plain is not None
    assert drafting is not None
    assert plain.tobytes() == drafting.tobytes()
    assert place.model(place.adapter, drafting=True).caps.exits


def test_the_ledger_has_room_for_what_a_pass_holds(place: Place) -> None:
    plain, changed = Ledger(), Ledger()
    models = place.model(), place.model(place.adapter)
    ledgers = zip(models, (plain, changed), strict=True)
    held = [one.forward(CacheConfig(64), ledger) for one, ledger in ledgers]
    width = TinyShape.ffn
    assert len(held) == 2
    assert changed.by_name()["scratch"] > plain.by_name()["scratch"] + 64 * 2 * width * 4


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("token_embd.weight", (300, 64), "token_embd.weight, which cannot be changed"),
        ("blk.7.attn_q.weight", (64, 64), "blk.7.attn_q.weight, which cannot be changed"),
        ("blk.0.attn_q.weight", (64, 32), "as if it had 64 x 32 numbers, and it has 64 x 64"),
        ("blk.0.ffn_up.weight", (64, 64), "as if it had 64 x 64 numbers, and it has 96 x 64"),
    ],
)
def test_what_cannot_be_changed(place: Place, name: str, shape: tuple[int, int], words: str) -> None:
    change = LowRank.of(np.ones((2, shape[1]), np.float32), np.ones((shape[0], 2), np.float32))
    with pytest.raises(UnsupportedError, match=words):
        place.model(LoraAdapter("a", "", {name: change}))


def test_matrices_take_the_smallest_format_that_has_their_values(place: Place) -> None:
    def nbytes(kept: Callable[[F32], F32]) -> int:
        changes = place.adapter.changes.items()
        graph = LowRankGraph({name: LowRank.of(kept(one.down), kept(one.up)) for name, one in changes})
        graph.apply((place.bundle / MODEL).read_bytes())
        return graph.nbytes

    def begin(values: F32, bits: int) -> F32:
        return (values.view(np.uint32) >> np.uint32(bits) << np.uint32(bits)).view(np.float32)

    whole = nbytes(lambda values: values)
    assert nbytes(lambda values: begin(values, 8)) == whole
    assert nbytes(lambda values: begin(values, 16)) == whole // 2
    assert nbytes(lambda values: values.astype(np.float16).astype(np.float32)) == whole // 2
