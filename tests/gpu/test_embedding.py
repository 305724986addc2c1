"""QuantEmbedding in WGSL has the bits of the CPU's, in every format."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from edgedec.backends.gpu.device import GpuDevice
from edgedec.backends.gpu.formats import FLOAT_KINDS, constants
from edgedec.kernels import library
from edgedec.kernels.packing.formats import FORMATS, TILE
from tests.fixtures.nightly import every
from tests.gpu.cases import KernelCase, differences, empty
from tests.kernels.float_rows import F32, Array, pointer
from tests.kernels.quant_rows import FLOAT_FORMATS, INT_FORMATS, Packed, random_packed


def embedded(w: Packed, ids: Array, scale: float) -> F32:
    out = np.empty((len(ids), w.cols), np.float32)
    status = library.load().edgedec_quant_embedding(
        w.format.encode(),
        pointer(w.data),
        w.rows,
        w.cols,
        pointer(ids),
        len(ids),
        ctypes.c_float(scale),
        pointer(out),
    )
    assert status == 0
    return out


def case(
    format: str,
    rows: int,
    cols: int,
    count: int,
    seed: int,
    scale: float = 25.298221588134766,
    first: int = 0,
) -> KernelCase:
    """``first``: the row from which the table is bound; outputs of rows before it stay as they were."""
    w = random_packed(format, rows, cols, seed)
    ids = np.random.default_rng(seed).integers(0, rows, count)
    if format in FLOAT_KINDS:
        kernel, consts = "quant_embedding/float_embedding", {"KIND": FLOAT_KINDS[format]}
    else:
        kernel = "quant_embedding/quant_embedding"
        consts = {**constants(format), "RECORDS": FORMATS[format].records(cols)}
    expected = embedded(w, ids, scale)
    expected[ids < first] = empty(1)
    return KernelCase(
        kernel,
        {**consts, "COLS": cols, "SCALE": scale, "FIRST": first, "ROWS": rows - first},
        (w.data[first // TILE :], ids.astype(np.uint32), empty(count * cols)),
        {3: expected},
        (count, 1, 1),
        subnormals=format in ("mxfp4", "bf16", "f32"),
    )


@pytest.mark.parametrize("format", every(4, [*INT_FORMATS, *FLOAT_FORMATS]))
def test_rows_have_the_bits_of_the_cpu(format: str, device: GpuDevice) -> None:
    assert not list(differences(device, [case(format, 50, 256, 9, 3)]))


def test_a_row_may_end_within_a_record(device: GpuDevice) -> None:
    assert not list(differences(device, [case("q4_0", 33, 96, 5, 1, 1.0), case("f16", 33, 7, 5, 1, 1.0)]))


@pytest.mark.parametrize("format", ["q6_k", "f16"])
def test_a_table_may_be_bound_in_parts(format: str, device: GpuDevice) -> None:
    assert not list(differences(device, [case(format, 70, 256, 20, 3, first=48)]))


@pytest.mark.slow
@pytest.mark.parametrize("format", [*INT_FORMATS, *FLOAT_FORMATS])
def test_thousands_of_rows_have_the_bits_of_the_cpu(format: str, device: GpuDevice) -> None:
    """A case is a row; 1,000 for each of fifteen formats."""
    assert not list(differences(device, [case(format, 300, 512, 500, seed) for seed in range(2)]))
