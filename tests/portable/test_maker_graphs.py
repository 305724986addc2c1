"""Graphs of MTP layers and assistants without our kernels: the values that the kernels compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from edgedec.backends.onnx.assistant_forward import AssistantModel
from edgedec.backends.onnx.mtp_forward import MtpModel
from edgedec.bundle import assistant_facts, mtp_facts
from edgedec.bundle.assistant_facts import AssistantFacts
from edgedec.bundle.drafter_manifest import DrafterManifest
from edgedec.bundle.manifest import WEIGHTS, Manifest
from edgedec.bundle.mtp_facts import MtpFacts
from edgedec.bundle.table_facts import TableFacts
from edgedec.export.drafters.install import convert_drafter
from tests.fixtures.assistants import (
    CLUSTERS,
    random_assistant,
    shape_for,
    target_with_rings,
    write_directory,
)
from tests.fixtures.mtp_layers import add_mtp, mtp_sizes, random_mtp
from tests.fixtures.opened import onnx_forward
from tests.fixtures.tiny_models import tiny_bundle
from tests.kernels.attention import depths
from tests.portable.runner import options

ROUNDING = 4e-3
"""Tolerance as a share of the largest value: float32, with keys and values kept as fp16."""
Array = NDArray[Any]


def session(graph: Path) -> ort.InferenceSession:
    return ort.InferenceSession(str(graph), options(), providers=["CPUExecutionProvider"])


def run(one: ort.InferenceSession, feeds: dict[str, Array]) -> dict[str, Array]:
    names = [node.name for node in one.get_outputs()]
    return dict(zip(names, one.run(names, feeds), strict=True))


def mapped(bundle: Path, table: TableFacts) -> Array:
    shape = table.tiles, table.tile_bytes
    return np.memmap(bundle / WEIGHTS, np.uint8, "r", table.offset, shape)


def near(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found, expected, atol=ROUNDING * np.abs(expected).max())


def test_an_mtp_layer_runs_in_standard_ops(tmp_path: Path) -> None:
    bundle = tiny_bundle(tmp_path)
    hyper = mtp_sizes(Manifest.load(bundle).spec.hidden_size)
    folder = add_mtp(bundle, hyper, random_mtp(hyper), "f32")
    facts = MtpFacts.of(DrafterManifest.load(folder).facts)
    kernels, plain = MtpModel(folder, bundle, facts, threads=1).forward(32), session(folder / mtp_facts.GRAPH)
    rng = np.random.default_rng(0)
    cache = np.zeros((1, 2, facts.kv_heads, 32, facts.head_dim), np.float16)
    length = 0
    kernels.keep = keep = np.arange(0, facts.ids, 3, dtype=np.int64)
    for tokens, parents in (([1, 2, 3, 4, 5], [-1, 0, 1, 2, 3]), ([6], [-1]), ([7, 8, 9], [-1, 0, 0])):
        committed = length == 0
        given = rng.standard_normal((len(tokens), facts.hidden)).astype(np.float32)
        none = np.empty((0, facts.hidden), np.float32)
        found = run(
            plain,
            {
                "taps": given if committed else none,
                "states": none if committed else given,
                "tokens": np.array(tokens, np.int64),
                "positions": length + np.array(depths(parents), np.int64),
                "parents": np.array(parents, np.int64),
                "length": np.array([length], np.int64),
                "rows": np.array([len(tokens) - 1], np.int64),
                "keep": keep,
                "table": mapped(bundle, facts.table),
                "head": mapped(bundle, facts.head),
                "kv_cache": cache,
            },
        )
        kind = {"taps": given} if committed else {"states": given}
        ours = kernels.step(tokens, parents=parents, rows=[len(tokens) - 1], **kind)
        near(found["out"], ours.out)
        near(found["values"][:, :5], ours.rows.values[:, :5])
        assert found["ids"][0, 0] == ours.rows.ids[0, 0]
        cache[:, :, :, length : length + len(tokens)] = found["kv_new"]
        length += len(tokens)


@pytest.mark.parametrize("centroids", [0, CLUSTERS])
@pytest.mark.parametrize("count", [5, 40])
def test_an_assistant_runs_in_standard_ops(tmp_path: Path, centroids: int, count: int) -> None:
    bundle = target_with_rings(tmp_path)
    shape = shape_for(Manifest.load(bundle).spec, centroids=centroids)
    source = write_directory(tmp_path / "source", shape, random_assistant(shape))
    convert_drafter(source, bundle, tmp_path / "out", quant="f32")
    facts = AssistantFacts.of(DrafterManifest.load(tmp_path / "out").facts)
    forward = onnx_forward(bundle, capacity=64, drafting=True)
    forward.extend(list(range(count)))
    steps = AssistantModel(tmp_path / "out", bundle, facts, threads=1).steps(forward.lent)
    plain = session(tmp_path / "out" / assistant_facts.GRAPH)
    rng, none = np.random.default_rng(0), np.empty((0, facts.target_hidden), np.float32)
    for first in (True, False):
        given = rng.standard_normal((1, facts.target_hidden)).astype(np.float32)
        found = run(
            plain,
            {
                "taps": given if first else none,
                "states": none if first else given,
                "tokens": np.array([7], np.int64),
                "positions": np.array([count], np.int64),
                "parents": np.array([-1], np.int64),
                "length": np.array([count - 1], np.int64),
                "table": mapped(bundle, facts.table),
                **forward.lent,
            },
        )
        kind = {"tap": given[0]} if first else {"state": given[0]}
        ours = steps.step(7, position=count, slots=count, **kind)
        near(found["out"], ours.out)
        near(found["values"][:, :5], ours.rows.values[:, :5])
        assert found["ids"][0, 0] == ours.rows.ids[0, 0]
