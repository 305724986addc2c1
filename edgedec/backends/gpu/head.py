"""The end of the head on the host: from what the GPU found to head rows, with the bits of the CPU's op."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

import numpy as np

from edgedec.backends.gpu.executor import Results
from edgedec.backends.gpu.inputs import GpuPass
from edgedec.backends.gpu.program import HeadEnding
from edgedec.core.errors import BackendError
from edgedec.core.ledger import Ledger
from edgedec.core.rows import HeadRows
from edgedec.kernels import library


def head_rows_of(
    head: HeadEnding, parts: Iterable[tuple[int, Results]], fed: GpuPass, ledger: Ledger
) -> HeadRows:
    """Return the head rows of a pass whose results arrive in ``parts``. Raises BackendError."""
    rows, ids_kept = len(fed.rows), fed.keep.ids if fed.keep else None
    entries = head.vocabulary if ids_kept is None else len(ids_kept)
    values = np.empty((rows, head.k), np.float32)
    ids = np.empty((rows, head.k), np.int32)
    logsumexp, entropy = np.empty(rows, np.float32), np.empty(rows, np.float32)
    logits = np.empty((rows, head.vocabulary), np.float32) if fed.full else None
    if logits is not None:
        ledger.hold(logits, "rows", logits.nbytes)
    at = 0
    for count, found in parts:
        of_part = slice(at, at + count)
        at += count
        if logits is not None:
            given = np.frombuffer(found["logits"], np.float32).reshape(count, entries)
            logits[of_part] = given if ids_kept is None else -np.inf
            if ids_kept is not None:
                logits[of_part, ids_kept] = given
        arrays = (values, ids, logsumexp, entropy, logits)
        outs = [None if one is None else ctypes.c_void_p(one[of_part].ctypes.data) for one in arrays]
        status = library.load().edgedec_head_finish(
            library.isa().encode(),
            found["sums"],
            found["candidates"],
            found.get("fine"),
            count,
            head.vocabulary,
            entries,
            head.k,
            ctypes.c_float(head.softcap),
            ctypes.c_float(fed.temperature),
            *outs,
        )
        if status:
            raise BackendError("the GPU found entries of the vocabulary that cannot be the best ones")
    return HeadRows(values, ids, logsumexp, entropy, logits, fed.temperature)
