"""A dense model turned into one with experts: the same function where a token takes all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgedec.core.cache_config import CacheConfig
from edgedec.export import export_gguf
from edgedec.loaded_model import load_model
from tests.fixtures.tiny_gguf import write_tiny

torch = pytest.importorskip("torch")


def test_all_experts_together_are_the_dense_model_also_in_the_file(tmp_path: Path) -> None:
    from docs.measure.neuron_groups import Mixture
    from docs.measure.real_experts import SparseModel, Texts, WatchedModel, sparse_arrays, tables_of, write
    from edgedec.training.small_source import SmallSource

    source = SmallSource(write_tiny(tmp_path / "dense.gguf"))
    ids = np.random.default_rng(0).integers(0, source.vocabulary, (17, 256))
    texts = Texts(ids, ids[:1], *tables_of(source))
    dense, mixture = WatchedModel(source), Mixture(3, 3, source.hyper.ffn // 3, 3.0)
    arrays = sparse_arrays(dense, texts, mixture)
    for name, values in arrays.items():
        if "gate_inp" in name:
            values[:] = 0.0  # all have the same weight
    sparse = SparseModel(source.hyper, arrays, source.frequencies)
    sparse.mixture = mixture
    few = texts.embedded(ids[:1, :20])
    with torch.no_grad():
        expected, found = (texts.logits(model(few))[0].numpy() for model in (dense, sparse))
    assert np.corrcoef(expected.ravel(), found.ravel())[0, 1] > 0.999
    write(tmp_path / "sparse.gguf", source, sparse, {"experts": "q8_0", "attention": "q8_0"})
    export_gguf(tmp_path / "sparse.gguf", tmp_path / "bundle")
    model = load_model(tmp_path / "bundle")
    assert model.spec.experts is not None
    assert (model.spec.experts.count, model.spec.experts.chosen) == (3, 3)
    rows = model.backend.forward(CacheConfig(capacity=32)).extend(ids[0, :20].tolist())
    assert [int(one) for one in rows.ids[:, 0]] == expected[-len(rows) :].argmax(axis=1).tolist()
