"""Every weight format from GGUF file to logits: exported, run by ONNX Runtime, and compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgedec.bundle.manifest import Manifest
from edgedec.core.rows import Rows
from edgedec.export import export_gguf
from edgedec.kernels.packing.layout import FORMATS
from edgedec.kernels.packing.recode import packed_format, readable_types
from tests.fixtures.opened import onnx_forward
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.reference.model import reference_logits

TOKENS = [3, 9, 270, 41, 5, 5, 100, 17, 260, 33, 8, 64]


@pytest.mark.parametrize("format", readable_types())
@pytest.mark.parametrize("tied", [True, False])
def test_logits_are_those_of_the_file(format: str, tied: bool, tmp_path: Path) -> None:
    """What is left is the rounding of activations to 8 bits, absent from floats, and of the cache to fp16."""
    spec = FORMATS[packed_format(format) or ""]
    wide = spec.block == 256
    shape = TinyShape(hidden=256, ffn=256, head_dim=64) if wide else TinyShape()
    gguf = write_tiny(tmp_path / "tiny.gguf", "llama", formats=format, shape=shape, tied=tied)
    export_gguf(gguf, tmp_path / "bundle")
    forward = onnx_forward(tmp_path / "bundle", Manifest.load(tmp_path / "bundle"), threads=1, capacity=64)
    got = forward.extend(TOKENS, rows=Rows(full=True))
    assert got.logits is not None
    expected = reference_logits(gguf, TOKENS, dtype=np.float64)
    error = np.sqrt(np.mean(np.square(got.logits - expected))) / expected.std()
    assert error < (1e-3 if spec.is_float else 0.03)
