"""Small GGUF files of every type of weights: what is accepted has the weights that ggml makes of the file.

No bundle is written and nothing runs but one kernel, so that a process reads thousands of files in a minute.
"""

from __future__ import annotations

import ctypes
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgedec.export.exporter import gguf_about, gguf_contents
from edgedec.export.gguf_source import GgufSource, open_gguf
from edgedec.export.graph import build_graph
from edgedec.export.model import ExpertsWeight, PackedWeight, VectorWeight, Weight
from edgedec.export.model_card import ModelCard
from edgedec.export.no_model import refuse_no_model
from edgedec.export.tensors import Tensors
from edgedec.export.writer import weight_pieces
from edgedec.kernels import library
from tests.fixtures.tiny_experts import ExpertShape
from tests.fixtures.tiny_gguf import CODED, TinyShape, write_tiny
from tests.fuzz.mutate_gguf import mutate_gguf
from tests.fuzz.target import Files
from tests.kernels.float_rows import pointer

GGUF = "model.gguf"
_SHAPE = TinyShape(layers=1, hidden=256, ffn=256, heads=4, kv_heads=1, head_dim=64)
_NARROW = replace(_SHAPE, hidden=64, ffn=64, heads=2, head_dim=32, experts=ExpertShape(count=3, width=64))
_K = {"*": "q4_k", "attn_q": "q5_k", "attn_k": "q6_k", "attn_v": "q2_k", "ffn_up": "q3_k"}
_SIMPLE = {
    "*": "q4_0", "attn_q": "q4_1", "attn_k": "q5_0", "attn_v": "q5_1", "attn_output": "q8_0",
    "ffn_up": "iq4_nl", "ffn_gate": "mxfp4",
}  # fmt: skip
_FLOATS = {"*": "f16", "attn_q": "bf16", "ffn_up": "f32", "ffn_down": "nvfp4"}
_EXPERTS = {"*": "q8_0", "ffn_gate_exps": "nvfp4", "ffn_up_exps": "mxfp4", "ffn_down_exps": "nvfp4"}


def seeds(folder: Path) -> list[tuple[Files, Files]]:
    """Files that together have every type, the scales of NVFP4, and one type without kernels."""
    scales = {"blk.0.ffn_down.scale": np.array([0.7], np.float32)}
    each = {"blk.0.ffn_gate_exps.scale": np.array([0.5, 3.0, 1.1], np.float32)}
    files = [
        write_tiny(folder / "coded.gguf", formats=CODED, shape=_SHAPE),
        write_tiny(folder / "k.gguf", "qwen2", formats=_K, shape=_SHAPE, tied=False),
        write_tiny(folder / "simple.gguf", "gemma3", formats=_SIMPLE, shape=_NARROW),
        write_tiny(folder / "floats.gguf", formats=_FLOATS, shape=_NARROW, extra_tensors=scales),
        write_tiny(folder / "experts.gguf", "qwen3moe", formats=_EXPERTS, shape=_NARROW, extra_tensors=each),
    ]
    return [({GGUF: path.read_bytes()}, {}) for path in files]


def mutate(files: Files, rng: random.Random) -> None:
    """Damage a field or bytes, or cut the file short."""
    data = files[GGUF]
    files[GGUF] = data[: rng.randrange(len(data) + 1)] if rng.random() < 0.05 else mutate_gguf(data, rng)


def read(folder: Path) -> None:
    """Read all that an export reads, and compare the weights. Raises AssertionError for another one."""
    with open_gguf(folder / GGUF) as gguf:
        refuse_no_model(gguf.metadata, gguf.path.name)
        contents = gguf_contents(gguf, gguf_about(gguf, None, ModelCard(), lambda *_: None))
        model = build_graph(contents.hyper, Tensors(gguf))
        for weight in model.weights.values():
            _check(weight, gguf)


def _check(weight: Weight, gguf: GgufSource) -> None:
    if isinstance(weight, VectorWeight):
        return
    stored = [np.frombuffer(b"".join(weight_pieces(weight, gguf)), np.uint8)]
    matrices: list[PackedWeight]
    if isinstance(weight, ExpertsWeight):
        rows = stored[0].reshape(weight.shape)
        matrices = [one for expert in range(weight.count) for one in weight.matrices(expert)]
        places = [at for _ in range(weight.count) for at in weight.places[:3]]
        stored = [
            rows[i // 3, at : at + one.nbytes]
            for i, (at, one) in enumerate(zip(places, matrices, strict=True))
        ]
    else:
        matrices = [weight]
    for matrix, packed in zip(matrices, stored, strict=True):
        raw = matrix.read(lambda start, stop, m=matrix: gguf.rows(m.tensor, start, stop), 0, matrix.rows)
        with np.errstate(all="ignore"):
            expected = matrix.tensor.values(raw, matrix.first)
        exact = matrix.tensor.scale(matrix.first) == 1
        _same(matrix, _looked_up(matrix, np.ascontiguousarray(packed)), expected, exact)


def _looked_up(matrix: PackedWeight, packed: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The weights as kernels read them."""
    ids, out = np.arange(matrix.rows), np.empty((matrix.rows, matrix.cols), np.float32)
    status = library.load().edgedec_quant_embedding(
        matrix.format.encode(), pointer(packed), *out.shape, pointer(ids), len(ids),
        ctypes.c_float(1.0), pointer(out),
    )  # fmt: skip
    assert status == 0, matrix.format
    return out


def _same(matrix: PackedWeight, got: NDArray[np.float32], expected: NDArray[np.float32], exact: bool) -> None:
    """Bits are equal, but for those of what is no number, and the rounding of a scale of its own."""
    close = got.view(np.uint32) == expected.view(np.uint32)
    with np.errstate(all="ignore"):
        if not exact:
            close |= np.abs(got - expected) <= 3e-7 * np.abs(expected) + 1e-44
    assert (close | (np.isnan(got) & np.isnan(expected))).all(), f"other weights of {matrix.tensor.format}"
