"""Every model of the catalogue: through a small random twin, and some themselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgedec.assemble.config import RunConfig
from edgedec.bundle.drafter_manifest import MTP
from edgedec.bundle.manifest import Manifest
from edgedec.core.rows import Rows
from edgedec.disk.home import ARTIFACTS
from edgedec.export import export_gguf
from edgedec.models import Store
from edgedec.models.catalogue import CATALOGUE, Entry, stated_context
from tests.fixtures.opened import onnx_forward
from tests.fixtures.tiny_models import prepared_run
from tests.fixtures.twins import write_twin
from tests.reference.graph import graph_logits
from tests.reference.model import reference_logits

TOKENS = [3, 9, 270, 41, 5, 5, 100, 17, 260, 33, 8, 64, 12, 250, 7, 90, 11, 2, 4, 6]
REAL = [entry for entry in CATALOGUE.values() if entry.tested == "real"]


Twin = tuple[Entry, Path, NDArray[np.float64]]
"""A model, the bundle of its twin, and the logits that the twin's file means."""


@pytest.fixture(scope="module", params=CATALOGUE.values(), ids=CATALOGUE.keys())
def twin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Twin:
    folder = tmp_path_factory.mktemp(request.param.name)
    gguf = write_twin(folder / "twin.gguf", request.param)
    export_gguf(gguf, folder / "twin", backend="edgedec")
    return request.param, folder / "twin", reference_logits(gguf, TOKENS, dtype=np.float64)


def test_a_twin_has_the_features_of_its_model(twin: Twin) -> None:
    entry, bundle, _ = twin
    spec, model = Manifest.load(bundle).spec, entry.spec
    assert spec.architecture == model.architecture
    if model.architecture != "gemma4":  # whose kinds of layers have other numbers of heads
        assert spec.n_heads * model.n_kv_heads == spec.n_kv_heads * model.n_heads
    assert bool(spec.n_window_layers) == bool(model.n_window_layers)
    assert bool(spec.table_bytes) == bool(model.table_bytes)
    assert (bundle / ARTIFACTS / MTP).is_dir() == (entry.name == "qwen3.6-35b-a3b")
    assert [(kind.name, bool(kind.layers)) for kind in spec.kinds] == [
        (kind.name, True) for kind in model.kinds
    ]
    if model.n_window_layers and not model.caches:
        period = 2 if model.architecture == "gpt-oss" else 6
        assert spec.n_layers // period == spec.n_layers - spec.n_window_layers
        assert model.n_layers // period == model.n_layers - model.n_window_layers


def test_a_twin_computes_what_its_file_means(twin: Twin) -> None:
    _, bundle, expected = twin
    assert expected.std() > 0.1
    np.testing.assert_allclose(graph_logits(bundle, TOKENS), expected, atol=2e-4 * np.abs(expected).max())


def test_the_kernels_compute_it_too(twin: Twin) -> None:
    """They round activations: another token is the most probable only where two nearly are."""
    entry, bundle, expected = twin
    got = onnx_forward(bundle, threads=1).extend(TOKENS, rows=Rows(full=True)).logits
    assert got is not None
    error = got - expected
    bound = 0.08 if entry.spec.caches else 0.06  # their layers have more products, and states add rounding up
    assert np.sqrt(np.square(error).mean()) < bound * expected.std()
    top = np.sort(expected, axis=1)
    clear = top[:, -1] - top[:, -2] > 2 * np.abs(error).max()
    assert (got.argmax(axis=1) == expected.argmax(axis=1))[clear].all()


@pytest.mark.slow
@pytest.mark.parametrize("entry", REAL, ids=lambda entry: entry.name)
def test_the_catalogue_knows_the_real_models(entry: Entry) -> None:
    """Sizes as in the manifest, and the memory that a plan computes once the model is loaded."""
    bundle = Store().ensure(entry.name, progress=lambda stage, done, total: None)
    spec = Manifest.load(bundle).spec
    assert replace(spec, bos_id=None, eos_ids=()) == entry.spec
    config = RunConfig(threads=2, context=stated_context(entry.spec))
    planned = prepared_run(bundle, config).plan().plan.peak
    assert abs(entry.memory() - planned) < 0.1 * planned
