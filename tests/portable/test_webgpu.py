"""The bodies on a GPU, or on one in software: ONNX Runtime's WebGPU plug-in (see docs/portable.md)."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from edgedec.export import export_gguf
from edgedec.export.portable import with_float_cache
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.portable.runner import Runner, options

pytestmark = pytest.mark.slow

TOKENS = [3, 9, 270, 41, 5, 5, 100, 17]
FLOAT_ROUNDING = 1e-3
"""Of the largest logit: float32 on both sides. Seen with SwiftShader: 2e-4."""


@pytest.fixture(scope="module")
def device() -> ort.OrtEpDevice:
    """The WebGPU device of this machine."""
    assert importlib.util.find_spec("onnxruntime_ep_webgpu"), "pip install onnxruntime-ep-webgpu"
    ort.register_execution_provider_library(
        "WebGPU", import_module("onnxruntime_ep_webgpu").get_library_path()
    )
    found = [each for each in ort.get_ep_devices() if each.ep_name == "WebGpuExecutionProvider"]
    assert found, "no GPU: docs/portable.md says how to run this test on one in software"
    return found[0]


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gemma3"])
def test_the_gpu_says_what_the_cpu_says(architecture: str, device: ort.OrtEpDevice, tmp_path: Path) -> None:
    shape = TinyShape(layers=6 if architecture == "gemma3" else 2, window=4)
    gguf = write_tiny(
        tmp_path / "model.gguf", architecture, formats={"*": "q4_1", "token_embd": "q8_0"}, shape=shape
    )
    export_gguf(gguf, tmp_path / "bundle")
    model = onnx.load(str(tmp_path / "bundle" / "model.onnx"), load_external_data=False)
    onnx.save(with_float_cache(model), str(tmp_path / "bundle" / "float.onnx"))
    chosen = options()
    chosen.add_provider_for_devices([device], {})
    chosen.enable_profiling = True
    chosen.profile_file_prefix = str(tmp_path / "profile")
    gpu = Runner(tmp_path / "bundle", chosen, model="float.onnx")
    cpu = Runner(tmp_path / "bundle", model="float.onnx")
    for tokens in (TOKENS[:5], *([token] for token in TOKENS[5:])):
        got, expected = gpu.run(tokens), cpu.run(tokens)
        for name in ("logits", "logsumexp", "kv_new"):
            largest = np.abs(expected[name]).max()
            np.testing.assert_allclose(got[name], expected[name], atol=FLOAT_ROUNDING * largest)
    events = json.loads(Path(gpu.session.end_profiling()).read_text())
    places = Counter(e["args"]["provider"] for e in events if e["name"].endswith("_kernel_time"))
    assert places["WebGpuExecutionProvider"] > places["CPUExecutionProvider"]
