"""EAGLE-3 heads in each layout of the hub compute what their trainers define."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.backends.onnx.head_forward import HeadModel
from edgedec.bundle.drafter_manifest import DrafterManifest
from edgedec.bundle.head_facts import HeadFacts
from edgedec.bundle.manifest import Manifest
from edgedec.export.draft_head.bundle import export_head
from edgedec.export.eagle3.reading import is_head_directory, read_head_directory
from tests.fixtures.eagle3_heads import LAYOUTS, Eagle3, kept_ids, write_head

torch = pytest.importorskip("torch")

EXACT = "f32,head=f32"
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{layout: (layout, {}) for layout in LAYOUTS},
    "normed taps": ("specforge", {"fc_norm": True}),
    "normed before": ("speculators", {"norm_before_fc": True}),
    "residual": ("speculators", {"norm_before_residual": True}),
    "output": ("speculators", {"norm_output": True, "fc_norm": True}),
    "qwen3 layer": ("speculators", {"model_type": "qwen3", "norm_before_residual": True}),
    "llama3 positions": ("specforge", {"rope_scaling": LLAMA3}),
    "linear positions": ("angelslim", {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}),
}


@pytest.mark.parametrize(("case", "pickled"), [*((case, False) for case in CASES), ("authors", True)])
def test_a_head_gives_the_logits_of_its_trainer(
    bundle: Path, tmp_path: Path, case: str, pickled: bool
) -> None:
    layout, options = CASES[case]
    spec = Manifest.load(bundle).spec
    head = Eagle3(spec.hidden_size, spec.vocab_size, 80, options).eval()
    taps = {"eagle_aux_hidden_state_layer_ids": [1, 1, 2]}
    folder = write_head(tmp_path / "head", layout, head, embedding=True, pickled=pickled, changes=taps)
    assert is_head_directory(folder)
    found = read_head_directory(folder, spec)
    assert found.weights.taps == (0, 0, 1)
    export_head(found.weights, bundle, tmp_path / "out", quant=EXACT)
    facts = HeadFacts.of(DrafterManifest.load(tmp_path / "out").facts)
    mine = HeadModel(tmp_path / "out", bundle, facts, spec.vocab_size, threads=1).forward(64)
    keep, rng = kept_ids(spec.vocab_size, 80), np.random.default_rng(0)
    tokens = rng.integers(0, spec.vocab_size, 14)
    hidden = rng.standard_normal((10, 3 * spec.hidden_size)).astype(np.float32)
    with torch.no_grad():
        states = head.fused(torch.from_numpy(hidden))
        for count in range(10, 14):  # the last ones are drafted, from its own outputs
            out, logits = head.step(states, torch.from_numpy(tokens[:count]))
            if count == 10:
                step = mine.step(tokens[:10].tolist(), taps=hidden, rows=range(10))
            else:
                step = mine.step([int(tokens[count - 1])], states=step.out[-1:], rows=[0])
            right = logits.numpy()[-len(step.rows) :]
            places = np.searchsorted(keep, step.rows.ids)
            np.testing.assert_array_equal(keep[places], step.rows.ids)
            there = np.take_along_axis(right, places, 1)
            np.testing.assert_allclose(step.rows.values, there, atol=0.01, rtol=2e-3)
            np.testing.assert_allclose(step.rows.values[:, 0], right.max(1), atol=0.01, rtol=2e-3)
            states = torch.cat([states, out[-1:]])


def test_without_layers_in_its_config_a_head_reads_those_of_every_trainer(
    bundle: Path, tmp_path: Path
) -> None:
    spec = replace(Manifest.load(bundle).spec, n_layers=28)
    head = Eagle3(spec.hidden_size, spec.vocab_size, 80, {})
    for number, (layout, changes, taps) in enumerate(
        (
            ("specforge", {}, (1, 13, 24)),
            ("angelslim", {}, (1, 13, 24)),
            ("speculators", {}, (1, 13, 24)),
            ("speculators", {"eagle_aux_hidden_state_layer_ids": [2, 14, 25]}, (1, 13, 24)),
            ("specforge", {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 13, 24]}}, (1, 13, 24)),
            ("angelslim", {"aux_hidden_states_layer_ids": [3, 4, 5]}, (3, 4, 5)),
        )
    ):
        folder = write_head(tmp_path / str(number), layout, head, changes=changes)
        found = read_head_directory(folder, spec)
        assert found.weights.taps == taps
        assert found.stated == bool(changes)
        assert found.weights.embedding is None
