"""The packed layout is the GGUF blocks, moved: same integers, same scales, same floats."""

from __future__ import annotations

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants
from numpy.typing import NDArray

from edgedec.kernels.packing.layout import FORMATS, TILE, dequantise, pack, pack_chunks, unpack_rows
from tests.fixtures.random_rows import random_rows

SHAPES = [(16, 1), (1, 1), (40, 3), (17, 5), (33, 8)]
"""(N, GGUF blocks in a row): odd N, an odd number of 32-groups, several tiles."""


def rows_of_blocks(name: str, rows: int, blocks: int, seed: int = 0) -> NDArray[np.uint8]:
    return random_rows(name, rows, cols=blocks * FORMATS[name].block, seed=seed, spread=0.1)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("rows", "blocks"), SHAPES)
def test_any_bits_come_back(name: str, rows: int, blocks: int) -> None:
    size = blocks * FORMATS[name].block_bytes
    raw = np.random.default_rng(rows).integers(0, 256, (rows, size), dtype=np.uint8)
    cols = blocks * FORMATS[name].block
    np.testing.assert_array_equal(unpack_rows(name, pack(name, raw), rows, cols), raw)


@pytest.mark.parametrize("name", [name for name, spec in FORMATS.items() if not spec.recoded])
@pytest.mark.parametrize(("rows", "blocks"), SHAPES)
def test_dequantise_is_ggml_bit_for_bit(name: str, rows: int, blocks: int) -> None:
    raw = rows_of_blocks(name, rows, blocks, seed=1)
    expected = quants.dequantize(raw, GGMLQuantizationType[name.upper()])
    got = dequantise(name, pack(name, raw), rows, blocks * FORMATS[name].block)
    np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("name", FORMATS)
def test_padding_has_no_weight(name: str) -> None:
    spec = FORMATS[name]
    packed = pack(name, rows_of_blocks(name, 17, 1))
    whole = dequantise(name, packed, 2 * TILE, spec.records(spec.block) * spec.record)
    assert np.abs(whole[:17, : spec.block]).max() > 0
    assert not whole[17:].any()
    assert not whole[:, spec.block :].any()


@pytest.mark.parametrize("name", FORMATS)
def test_chunks_are_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = rows_of_blocks(name, 70, 2)
    whole = pack(name, raw)
    monkeypatch.setattr("edgedec.kernels.packing.layout._CHUNK_ELEMENTS", 1)
    chunks = list(pack_chunks(name, raw))
    assert [len(chunk) for chunk in chunks] == [1] * 5
    np.testing.assert_array_equal(np.concatenate(chunks), whole)


@pytest.mark.parametrize("name", FORMATS)
def test_record_costs_what_the_source_costs(name: str) -> None:
    spec = FORMATS[name]
    assert spec.record_bytes == TILE * spec.record // spec.block * spec.block_bytes


def test_byte_positions_of_q4_0() -> None:
    """Input 4s+j of column c is in byte 64 + s*64 + c*4 + j: group 0 low nibble, group 1 high."""
    raw = np.zeros((16, 2, 18), dtype=np.uint8)
    column, step, j = 5, 6, 3
    raw[column, 0, 2 + (4 * step + j) % 16] = 0x90  # element 27 of group 0: high nibble of byte 11
    raw[column, 1, 2 + 1] = 0x07  # element 1 of group 1
    raw[column, 1, 0:2] = np.array([1.5], dtype=np.float16).view(np.uint8)
    tile = pack("q4_0", raw.reshape(16, -1))[0]
    assert tile[64 + step * 64 + column * 4 + j] == 0x09
    assert tile[64 + 0 * 64 + column * 4 + 1] == 0x70
    assert tile[32 + 2 * column : 34 + 2 * column].view(np.float16)[0] == 1.5
    assert np.count_nonzero(tile) == 3


def test_positions_of_floats() -> None:
    """Input k of column c is number 16k + c of its tile."""
    raw = np.zeros((20, 5), dtype=np.float16)
    raw[17, 3] = 1.5
    packed = pack("f16", raw.view(np.uint8)).view(np.float16)
    assert packed.shape == (2, 5 * 16)
    assert packed[1, 3 * 16 + 1] == 1.5
    assert np.count_nonzero(packed) == 1


def test_ragged_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="whole blocks of 18 bytes"):
        pack("q4_0", np.zeros((16, 19), dtype=np.uint8))
    with pytest.raises(ValueError, match="packs into"):
        unpack_rows("q4_0", np.zeros((1, 576), dtype=np.uint8), 16, 128)
