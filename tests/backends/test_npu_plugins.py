"""The plug-ins of NPUs themselves, where they are installed: QNN's simulator of an HTP, and OpenVINO."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.npu.model import NpuModel
from edgedec.backends.npu.plugins import OPENVINO, QNN, Plugin
from edgedec.bundle.manifest import Manifest
from edgedec.bundle.npu_facts import context_name
from edgedec.core.errors import UnsupportedError
from edgedec.core.rows import Rows
from edgedec.decode.engine import Engine
from edgedec.decode.speculation import Speculation
from edgedec.draft import Lookup, Recycling
from edgedec.export import NpuPlan, export_for_npu
from edgedec.sampling import DrawParams
from tests.backends.npu_bundles import npu_bundles, npu_model
from tests.fixtures.tiny_gguf import write_tiny

pytestmark = pytest.mark.slow
PROMPT = [5, 17, 3, 3, 42, 8, 5, 61, 29, 11]
TREE, PARENTS, PATH = [7, 9, 7, 13, 2, 9, 30], [-1, -1, 0, 0, 2, 1, 4], [0, 2, 4, 6]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    return npu_bundles(tmp_path_factory.mktemp("npu"))


def opened(bundle: Path, plugin: Plugin) -> NpuModel:
    if not find_spec(plugin.module):
        pytest.skip(f"{plugin.module} is not installed (extra npu)")
    try:
        return NpuModel(bundle, Manifest.load(bundle), plugin=plugin)
    except UnsupportedError as error:
        pytest.skip(error.message)


@pytest.mark.parametrize("plugin", [QNN, OPENVINO], ids=lambda plugin: plugin.name)
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gemma2", "gemma3", "phi3"])
def test_a_device_computes_what_the_same_ops_compute_on_the_cpu(
    plugin: Plugin, architecture: str, bundle: Callable[[str], Path]
) -> None:
    device = opened(bundle(architecture), plugin).forward()
    cpu = npu_model(bundle(architecture)).forward()
    for tokens, parents in ((PROMPT, None), (TREE, PARENTS)):
        mine, reference = (one.extend(tokens, parents=parents, rows=Rows(full=True)) for one in (device, cpu))
        assert mine.logits is not None
        assert reference.logits is not None
        np.testing.assert_allclose(mine.logits, reference.logits, rtol=0, atol=0.35)
        assert np.corrcoef(mine.logits.ravel(), reference.logits.ravel())[0, 1] > 0.998
        device.keep_path(PATH if parents else range(len(tokens)))
        cpu.keep_path(PATH if parents else range(len(tokens)))


def test_the_simulator_is_exact_and_drafts_change_no_token(bundle: Callable[[str], Path]) -> None:
    model = opened(bundle("llama"), QNN)
    assert model.caps.exact
    assert model.lengths == (1, 8, 32)
    replies = []
    for drafted in (None, Speculation([Lookup(), Recycling()], limit=7), Speculation([Lookup()], limit=15)):
        engine = Engine(model.forward(), speculation=drafted)
        steps = engine.generate(PROMPT * 2, DrawParams(temperature=0.8, seed=3), max_tokens=40, stop_ids=())
        replies.append([step.token for step in steps])
    assert replies[0] == replies[1] == replies[2]


def test_compiled_graphs_share_one_binary(tmp_path: Path) -> None:
    if not QNN.installed or not QNN.compiler:
        pytest.skip("onnxruntime_qnn is not installed (extra npu)")
    manifest = export_for_npu(
        write_tiny(tmp_path / "tiny.gguf"), tmp_path / "htp", plan=NpuPlan(compiled=True)
    )
    assert {context_name(length) for length in (1, 8, 32)} <= manifest.files.keys()
    assert sum(name.endswith(".bin") for name in manifest.files) == 2
    assert opened(tmp_path / "htp", QNN).caps.exact
