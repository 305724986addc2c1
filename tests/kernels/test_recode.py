"""Types of GGUF files that are packed in another form: to the bit the weights that ggml makes of them."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants
from numpy.typing import NDArray

from edgedec.kernels import library
from edgedec.kernels.packing.gguf_blocks import split_blocks
from edgedec.kernels.packing.layout import FORMATS, dequantise, pack
from edgedec.kernels.packing.recode import packed_format, readable_types, recode
from tests.fixtures.random_rows import HALVES
from tests.kernels.float_rows import pointer

TYPES = [type for type in readable_types() if FORMATS.get(type) is None or FORMATS[type].recoded]
BLOCKS = {"nvfp4": 13}
"""Blocks in a row, where they are not three of 256 inputs: one and a quarter of ours are left over."""


def cols(type: str) -> int:
    return BLOCKS.get(type, 3) * GGML_QUANT_SIZES[GGMLQuantizationType[type.upper()]][0]


def any_rows(type: str, rows: int, blocks: int, seed: int) -> NDArray[np.uint8]:
    """Rows in which any bits may be set, with finite scales."""
    size = GGML_QUANT_SIZES[GGMLQuantizationType[type.upper()]][1]
    raw = np.random.default_rng(seed).integers(0, 256, (rows, blocks, size), dtype=np.uint8)
    if type == "iq1_m":  # bit 14 of the fp16 lies in the last of four words
        raw[..., 55] &= 0xBF
    elif type != "nvfp4":  # of which all bytes are finite
        raw[..., 53 if type == "tq1_0" else 1] &= 0xBF
    return raw.reshape(rows, -1)


def ggml(type: str, raw: NDArray[np.uint8]) -> NDArray[np.float32]:
    return quants.dequantize(raw, GGMLQuantizationType[type.upper()]).astype(np.float32)


def test_every_codebook_of_ggml_is_there() -> None:
    codebooks = "iq4_xs", "iq3_xxs", "iq3_s", "iq2_xxs", "iq2_xs", "iq2_s", "iq1_s", "iq1_m"
    assert {*codebooks, "tq1_0", "nvfp4"} == set(TYPES)
    assert packed_format("iq4") is None, "a format of ours is no type of a file"
    assert packed_format("q4_k") == "q4_k"


@pytest.mark.parametrize("type", TYPES)
def test_the_weights_are_ggmls_bit_for_bit(type: str) -> None:
    raw, format = any_rows(type, 53, BLOCKS.get(type, 3), seed=7), packed_format(type)
    assert format is not None
    packed, expected = pack(format, recode(type, raw)), ggml(type, raw)
    assert np.isfinite(expected).all()
    assert len(np.unique(np.abs(expected[0, :32]))) > 1
    got = dequantise(format, packed, 53, cols(type))
    np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("type", [*TYPES, "tq2_0"])
def test_kernels_read_the_weights_of_ggml(type: str) -> None:
    """The rows of an embedding are the weights themselves, as every kernel multiplies them."""
    raw, format = any_rows(type, 53, BLOCKS.get(type, 3), seed=8), packed_format(type)
    if type == "tq2_0":
        raw.reshape(53, 3, 66)[..., HALVES[type][0] + 1] &= 0xBF
    assert format is not None
    packed, ids = pack(format, recode(type, raw)), np.arange(53)[::-1].astype(np.int64)
    out = np.full((53, cols(type)), np.nan, np.float32)
    status = library.load().edgedec_quant_embedding(
        format.encode(), pointer(packed), 53, cols(type), pointer(ids), 53, ctypes.c_float(1.0), pointer(out)
    )
    assert status == 0
    np.testing.assert_array_equal(out.view(np.uint32), ggml(type, raw)[::-1].view(np.uint32))


@pytest.mark.parametrize("type", TYPES)
def test_every_value_of_a_codebook_is_met(type: str) -> None:
    """Each value of a format occurs, and no other code."""
    format = packed_format(type)
    assert format is not None
    spec = FORMATS[format]
    blocks = split_blocks(format, recode(type, any_rows(type, 4096, 1, seed=9)))
    codes = np.bincount(blocks.quants.ravel(), minlength=1 << spec.bits)
    values = spec.values or (-1, 1, 2, 0)  # ternary: three of four codes
    if type == "nvfp4":  # which has two zeros
        values = (1,) * 16
    assert np.flatnonzero(codes).tolist() == [code for code, value in enumerate(values) if value]
