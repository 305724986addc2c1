"""A model whose first layers run on a GPU and the others on the CPU: the CPU's rows, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.gpu.split import SplitModel, layers_for
from edgedec.bundle.exits import exits_of
from edgedec.bundle.manifest import DRAFTING, Manifest
from edgedec.core.cache_config import CacheConfig, KvType
from edgedec.core.errors import UnsupportedError
from edgedec.core.rows import HeadRows, Rows
from tests.fixtures.opened import onnx_forward
from tests.fixtures.tiny_models import tiny_bundle
from tests.gpu.adapters import device

PROMPT = [5, 17, 3, 3, 42, 8, 5, 61, 29, 11]
TREE, PARENTS, PATH = [7, 9, 7, 13, 2], [-1, -1, 0, 0, 2], [0, 2, 4]


def same(found: HeadRows, expected: HeadRows) -> None:
    for name in ("values", "ids", "logsumexp", "entropy", "logits"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


@pytest.mark.parametrize("kv", ["fp16", "int8"])
@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_rows_are_those_of_the_cpu(tmp_path: Path, architecture: str, kv: KvType) -> None:
    bundle = tiny_bundle(tmp_path, architecture)
    manifest = Manifest.load(bundle)
    cut = exits_of(manifest.spec.n_layers)[0]
    model = SplitModel(bundle, manifest, threads=1, layers=cut, device=device())
    split = model.forward(CacheConfig(64, kv, 16))
    alone = onnx_forward(bundle, manifest, threads=1, capacity=64, kv=kv, max_pass=16)
    full = Rows(last=True, full=True)
    same(split.extend(PROMPT, rows=full), alone.extend(PROMPT, rows=full))
    every = Rows(full=True)
    same(split.extend(TREE, parents=PARENTS, rows=every), alone.extend(TREE, parents=PARENTS, rows=every))
    for one in (split, alone):
        one.keep_path(PATH)
    same(split.extend([9], rows=full), alone.extend([9], rows=full))
    for one in (split, alone):
        one.rewind(6)
    same(split.extend([4, 4], rows=every), alone.extend([4, 4], rows=every))
    assert f"for {cut} layers" in model.runtime


def test_a_model_is_cut_at_the_next_place_below(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    cuts = exits_of(manifest.spec.n_layers)
    assert layers_for(manifest, manifest.spec.n_layers) == cuts[-1]
    assert layers_for(manifest, cuts[0]) == cuts[0]
    with pytest.raises(UnsupportedError, match="can be cut after"):
        layers_for(manifest, cuts[0] - 1)


def test_a_bundle_without_cuts_is_refused(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    manifest.files.pop(DRAFTING, None)
    with pytest.raises(UnsupportedError, match="cannot be cut"):
        layers_for(manifest, 1)
