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


USUAL = {"*": "q4_1", "token_embd": "q8_0"}
K_FORMATS = {"*": "q4_k", "ffn_up": "q5_k", "attn_v": "q6_k", "attn_q": "q2_k", "attn_k": "q3_k"}
CASES = {
    "llama": ("llama", USUAL, TinyShape(window=4)),
    "qwen2": ("qwen2", USUAL, TinyShape(window=4)),
    "gemma3": ("gemma3", USUAL, TinyShape(layers=6, window=4)),
    "softcaps": ("gemma2", USUAL, TinyShape(window=4)),
    "tables": ("llama", {"*": "iq4_nl", "ffn_up": "mxfp4", "attn_q": "mxfp4"}, TinyShape()),
    "floats": ("llama", {"*": "bf16", "token_embd": "f16", "ffn_down": "f32"}, TinyShape()),
    "k-formats": ("llama", K_FORMATS, TinyShape(hidden=256, ffn=256, head_dim=64)),
}


@pytest.mark.parametrize("case", CASES)
def test_the_gpu_says_what_the_cpu_says(case: str, device: ort.OrtEpDevice, tmp_path: Path) -> None:
    architecture, formats, shape = CASES[case]
    gguf = write_tiny(tmp_path / "model.gguf", architecture, formats=formats, shape=shape)
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
