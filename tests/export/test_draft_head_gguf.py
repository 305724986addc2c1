"""A drafting head as a GGUF file of llama.cpp's architecture eagle3."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from gguf import quants
from numpy.typing import NDArray

from edgedec.bundle.exits import taps_of
from edgedec.bundle.head_facts import GRAPH
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.export.draft_head.bundle import export_head
from edgedec.export.draft_head.gguf import NAMES, halves, neighbours
from edgedec.export.draft_head.weights import HeadWeights
from edgedec.export.drafters.gguf import write_drafter_gguf
from edgedec.export.eagle3.files import open_head
from edgedec.export.gguf_source import open_gguf
from edgedec.export.stored import GraphWeights
from tests.fixtures.draft_heads import VARIANTS, random_head, varied
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import tiny_bundle
from tests.reference.draft_head import _turned


def installed(bundle: Path, folder: Path, quant: str = "q8_0") -> dict[str, NDArray[np.float32]]:
    """Write a head, and return the arrays that it has."""
    manifest = Manifest.load(bundle)
    head = random_head(manifest.spec.hidden_size, manifest.spec.vocab_size, ids=64)
    export_head(head, bundle, folder, quant=quant)
    stored = GraphWeights(folder, GRAPH)
    found = {name: one.read(0, one.rows) for name, one in stored.matrices.items()}
    return found | {name: stored.vector(name) for name in head.shapes() if name not in found}


def written(bundle: Path, folder: Path, source: Path | None = None) -> Path:
    """The head in ``folder`` as a GGUF file beside it."""
    path = folder.with_suffix(".gguf")
    own = source or bundle.parent / "llama-0.gguf"  # beside it
    write_drafter_gguf(path, folder, Manifest.load(bundle), own, name="a head")
    return path


def read_back(path: Path, bundle: Path) -> HeadWeights:
    with open_head(path, Manifest.load(bundle).spec) as found:
        return found.weights


@pytest.mark.parametrize("base", [1e5, 5e5, 1e6, 1234.5])
def test_the_rotary_base_is_read_back_exactly(bundle: Path, tmp_path: Path, base: float) -> None:
    """Wide heads have many frequencies in float32, from which it is computed."""
    manifest = Manifest.load(bundle)
    made = random_head(manifest.spec.hidden_size, manifest.spec.vocab_size, ids=64, dim=128)
    export_head(replace(made, rope_base=base), bundle, tmp_path / "head")
    assert read_back(written(bundle, tmp_path / "head"), bundle).rope_base == base


@pytest.mark.parametrize("quant", ["q8_0", "q4_0", "q4_1", "q4_0,head=q5_1"])
def test_the_file_has_the_heads_own_values(bundle: Path, tmp_path: Path, quant: str) -> None:
    head = installed(bundle, tmp_path / "head", quant)
    path = written(bundle, tmp_path / "head")
    with open_gguf(path) as gguf:
        usual = {mine: name for mine, name in NAMES.items() if mine in head}
        assert gguf.tensors.keys() == {"d2t", *usual.values()}
        for mine, theirs in usual.items():
            tensor, wanted = gguf.tensors[theirs], head[mine]
            if wanted.ndim == 1:
                assert np.array_equal(gguf.vector(tensor), wanted)
                continue
            plain, _, of_head = quant.partition(",head=")
            assert tensor.format == (of_head or "q8_0" if mine == "head" else plain)
            found = quants.dequantize(gguf.rows(tensor, 0, tensor.shape[0]), tensor.type)
            found = halves(found, 16) if mine in ("attn_q", "attn_k") else found
            assert np.array_equal(found, wanted), mine
        ids = gguf.rows(gguf.tensors["d2t"], 0, 64).view(np.int64).ravel()
        assert np.array_equal(ids, random_head(64, Manifest.load(bundle).spec.vocab_size, ids=64).keep)
        assert gguf.metadata["general.architecture"] == "eagle3"
        assert gguf.metadata["eagle3.target_layers"] == [1, 2, 2]
        assert gguf.metadata["eagle3.block_count"] == 1


def test_neighbouring_pairs_turn_as_distant_ones_did() -> None:
    head = random_head(64, 100, ids=64)
    x = np.random.default_rng(0).standard_normal((5, 128)).astype(np.float32)
    places = np.arange(5, dtype=np.int64)
    distant = _turned(head, (x @ head.attn_q.T).reshape(5, 4, 16), places)
    plain = (x @ neighbours(head.attn_q, 16).T).reshape(5, 4, 16)
    angles = places[:, None, None] * 10000.0 ** (-np.arange(8) / 8)
    a, b = plain[..., 0::2], plain[..., 1::2]
    turned = np.concatenate(
        [a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], axis=-1
    )
    assert np.allclose(turned, distant, atol=1e-5)


def test_a_file_of_another_model_is_refused(bundle: Path, tmp_path: Path) -> None:
    installed(bundle, tmp_path / "head")
    other = write_tiny(tmp_path / "other.gguf", shape=TinyShape(hidden=96))
    with pytest.raises(BadFileError, match="is not the model that the head drafts for"):
        written(bundle, tmp_path / "head", other)
    assert not (tmp_path / "head.gguf").exists()


def test_a_head_of_another_model_or_a_damaged_one_is_refused(bundle: Path, tmp_path: Path) -> None:
    installed(bundle, tmp_path / "head")
    with pytest.raises(BadFileError, match="belongs to other weights"):
        written(tiny_bundle(tmp_path, seed=1), tmp_path / "head")
    graph = tmp_path / "head" / "head.onnx"
    graph.write_bytes(graph.read_bytes()[:-50])
    with pytest.raises(BadFileError):
        written(bundle, tmp_path / "head")


WRITTEN = ("residual", "before", "factors", "taps", "embedding")
"""Heads of other trainers that llama.cpp's architecture can express."""


@pytest.mark.parametrize("kind", ["", *VARIANTS])
def test_a_head_of_another_trainer_comes_back_from_its_file(bundle: Path, tmp_path: Path, kind: str) -> None:
    manifest = Manifest.load(bundle)
    spec = manifest.spec
    made = random_head(spec.hidden_size, spec.vocab_size, ids=64)
    made = varied(made, spec.vocab_size, kind) if kind else made
    export_head(made, bundle, tmp_path / "head", quant="f32,head=f32")
    if kind and kind not in WRITTEN:
        with pytest.raises(UnsupportedError, match="architecture eagle3 does not"):
            written(bundle, tmp_path / "head")
        return
    with open_head(written(bundle, tmp_path / "head"), spec) as found:
        again = found.weights
        assert again.taps == (made.taps or taps_of(spec.n_layers))
        for field in fields(HeadWeights):
            mine, theirs = getattr(made, field.name), getattr(again, field.name)
            if field.name == "embedding" and mine is not None:
                mine, theirs = mine.read(5, 9), theirs.read(5, 9)
            if field.name != "taps" and mine is not None:
                np.testing.assert_allclose(theirs, mine, rtol=1e-6, err_msg=field.name)
            assert (mine is None) == (theirs is None)


def test_files_that_are_no_heads_are_refused_in_a_line(bundle: Path, tmp_path: Path) -> None:
    spec = Manifest.load(bundle).spec
    with pytest.raises(UnsupportedError, match="architecture 'llama', not an EAGLE-3 head"):
        read_back(bundle.parent / "llama-0.gguf", bundle)
    installed(bundle, tmp_path / "head")
    path = written(bundle, tmp_path / "head")
    whole = path.read_bytes()
    for end in (0, 20, 400, len(whole) // 2, len(whole) - 2000):
        path.write_bytes(whole[:end])
        with pytest.raises(BadFileError):
            read_back(path, bundle)
    path.write_bytes(whole)
    small = replace(spec, vocab_size=20)
    with pytest.raises(BadFileError, match="outside the 20 of"), open_head(path, small):
        pass
    for old, new, words in (
        (b"eagle3.target_layers", b"eagle3.target_xayers", "not a list of layers"),
        (b"blk.0.ffn_up.weight", b"blk.0.ffn_xp.weight", "'blk.0.ffn_xp.weight'"),
        (b"eagle3.feed_forward_length", b"eagle3.feed_forward_xength", "lacks eagle3.feed_forward_length"),
    ):
        path.write_bytes(whole.replace(old, new))
        with pytest.raises((BadFileError, UnsupportedError), match=words):
            read_back(path, bundle)
