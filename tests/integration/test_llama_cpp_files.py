"""Files that llama.cpp itself quantised: each format is read right, and run no worse than llama.cpp runs it.

Slow, and only where llama-cpp-python is. The model has random weights, in rows long enough for k-quants.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.bench.harness import runtimes
from edgedec.bench.studies.faithful import FaithfulReport, compare_logits, windows_of
from edgedec.export import export_gguf
from edgedec.export.gguf_source import open_gguf
from tests.fixtures.tiny_gguf import CODED, TinyShape, write_tiny

pytestmark = pytest.mark.slow
TINY = TinyShape(hidden=256, ffn=512, head_dim=64)
TYPES = {
    "ALL_F32": "f32", "MOSTLY_F16": "f16", "MOSTLY_BF16": "bf16", "MOSTLY_Q8_0": "q8_0",
    "MOSTLY_Q4_0": "q4_0", "MOSTLY_Q4_1": "q4_1", "MOSTLY_Q5_0": "q5_0", "MOSTLY_Q5_1": "q5_1",
    "MOSTLY_Q2_K": "q2_k", "MOSTLY_Q3_K_M": "q3_k", "MOSTLY_Q4_K_M": "q4_k", "MOSTLY_Q5_K_M": "q5_k",
    "MOSTLY_Q6_K": "q6_k", "MOSTLY_IQ4_NL": "iq4_nl", "MOSTLY_MXFP4_MOE": "mxfp4",
    "MOSTLY_IQ4_XS": "iq4_xs", "MOSTLY_IQ3_S": "iq3_s", "MOSTLY_TQ1_0": "tq1_0",
    "MOSTLY_TQ2_0": "tq2_0",
}  # fmt: skip
"""llama.cpp's names of file types, and a format that each file then has."""


def requantise(source: Path, out: Path, kind: str) -> Path:
    """What ``llama-quantize --allow-requantize`` does."""
    llama: Any = pytest.importorskip("llama_cpp")
    params = llama.llama_model_quantize_default_params()
    params.nthread, params.allow_requantize = 1, True
    params.ftype = getattr(llama, f"LLAMA_FTYPE_{kind}")
    params.pure = kind == "MOSTLY_MXFP4_MOE"  # which otherwise is for the experts of a mixture alone
    paths = str(source).encode(), str(out).encode()
    assert llama.llama_model_quantize(*paths, ctypes.byref(params)) == 0
    return out


def compared(gguf: Path, bundle: Path, tokens: list[int]) -> FaithfulReport:
    """EdgeDec and llama.cpp against float32 from the same file."""
    export_gguf(gguf, bundle)
    run = runtimes.PeerRun(gguf, 1, 128, bundle.parent, all_rows=True)
    exact = runtimes.reference_side("numpy", run)
    both = [
        runtimes.OwnRun(1, context=128).side(bundle),
        runtimes.peer_side("llama.cpp", run),
    ]
    return compare_logits(exact, both, windows_of(tokens, 128, bos=None), lambda stage, done, total: None)


def check(report: FaithfulReport, floats: bool) -> None:
    ours, theirs = report.sides["edgedec"], report.sides["llama.cpp"]
    print(f"\nedgedec {ours.top1_agreement:.2%} {ours.kl_mean:.2e}, "
          f"llama.cpp {theirs.top1_agreement:.2%} {theirs.kl_mean:.2e}")  # fmt: skip
    assert ours.kl_mean < (1e-5 if floats else 1e-2)
    assert ours.kl_mean < max(theirs.kl_mean, 1e-5)
    assert ours.top1_agreement >= theirs.top1_agreement - 0.01


def test_a_file_of_all_codebooks(tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "tiny.gguf", "qwen2", formats=CODED, shape=TINY)
    tokens = np.random.default_rng(0).integers(3, 280, 256).tolist()
    check(compared(gguf, tmp_path / "bundle", tokens), floats=False)


@pytest.mark.parametrize("kind", TYPES)
def test_random_weights(kind: str, tmp_path: Path) -> None:
    source = write_tiny(tmp_path / "tiny.gguf", "qwen2", formats="f32", shape=TINY, tied=False)
    gguf = requantise(source, tmp_path / "quantised.gguf", kind)
    with open_gguf(gguf) as file:
        assert TYPES[kind] in {tensor.format for tensor in file.tensors.values() if len(tensor.shape) == 2}
    tokens = np.random.default_rng(0).integers(3, 280, 256).tolist()
    check(compared(gguf, tmp_path / "bundle", tokens), TYPES[kind] in ("f32", "f16", "bf16"))
