"""The end of HeadTopK on this CPU, for a GPU that computed the logits: ``head_topk/finish.cc``."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import BackendError
from edgedec.kernels import library

BLOCK = 1024
"""Entries of the vocabulary that have a sum of their own."""


@dataclass(frozen=True, slots=True)
class HeadShape:
    """The vocabulary's entries, how many candidates a row has, and how logits are scaled."""

    rows: int
    k: int
    softcap: float = 0.0
    temperature: float = 1.0


@dataclass(frozen=True, slots=True)
class Finished:
    """Outputs of HeadTopK for r rows: values and ids [r, k], logsumexp and entropy [r]."""

    values: NDArray[np.float32]
    ids: NDArray[np.int32]
    logsumexp: NDArray[np.float32]
    entropy: NDArray[np.float32]


def blocks(rows: int) -> int:
    """Return how many block sums a row of logits has."""
    return -(-rows // BLOCK)


def finish(
    facts: HeadShape,
    sums: NDArray[np.float32],
    candidates: NDArray[np.uint32],
    fine: NDArray[np.float32] | None = None,
    logits: NDArray[np.float32] | None = None,
) -> Finished:
    """Return what HeadTopK returns, to the bit, from what a GPU found.

    ``sums`` [r, blocks, 3] and ``candidates`` [r, k, 2] (ids, bits of logits; the best first) are the outputs
    of the kernels ``head_topk/sums`` and ``candidates``; ``fine`` [r, k] that of ``refine``, or None for a
    head that is not refined. ``logits`` [r, rows] gets the refined values in place. Raises BackendError when
    they are no such outputs.
    """
    r, row = len(sums), library.isa()
    found = Finished(
        np.empty((r, facts.k), np.float32),
        np.empty((r, facts.k), np.int32),
        np.empty(r, np.float32),
        np.empty(r, np.float32),
    )
    given = [
        _address(sums, np.float32, (r, blocks(facts.rows), 3)),
        _address(candidates, np.uint32, (r, facts.k, 2)),
        _address(fine, np.float32, (r, facts.k)),
    ]
    status = library.load().edgedec_head_finish(
        row.encode(),
        *given,
        r,
        facts.rows,
        facts.rows,
        facts.k,
        ctypes.c_float(facts.softcap),
        ctypes.c_float(facts.temperature),
        *(
            _address(one, one.dtype, one.shape)
            for one in (found.values, found.ids, found.logsumexp, found.entropy)
        ),
        _address(logits, np.float32, (r, facts.rows)),
    )
    if status:
        raise BackendError("the GPU returned logits that are no logits", hint="compute on the processor")
    return found


def _address(array: NDArray[Any] | None, dtype: Any, shape: tuple[int, ...]) -> ctypes.c_void_p:
    if array is None:
        return ctypes.c_void_p()
    if array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
        raise ValueError(f"expected {np.dtype(dtype)}{list(shape)}, got {array.dtype}{list(array.shape)}")
    return ctypes.c_void_p(array.ctypes.data)
