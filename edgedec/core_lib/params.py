"""The settings of draws, and the results of a pass, as the core reads them."""

from __future__ import annotations

from ctypes import Structure, c_char_p, c_double, c_int32, c_int64, c_uint64, c_void_p, cast
from dataclasses import fields
from functools import lru_cache

import numpy as np

from edgedec.bundle.preset import SamplingValues
from edgedec.core.rows import HeadRows
from edgedec.sampling import DrawParams


class CParams(Structure):
    """A ``edgedec_core_params``."""

    _fields_ = (
        ("seed", c_uint64),
        ("top_k", c_int64),
        *(
            (name, c_double)
            for name in (
                "temperature", "top_p", "min_p", "top_n_sigma", "typical", "eta", "top_h", "mirostat",
                "mirostat_eta", "edt", "repetition_penalty", "frequency_penalty", "presence_penalty",
            )
        ),
        ("biases", c_int64),
        ("bias_ids", c_void_p),
        ("bias_values", c_void_p),
    )  # fmt: skip


class CHead(Structure):
    """A ``edgedec_core_head``."""

    _fields_ = (
        ("rows", c_int64),
        ("k", c_int64),
        ("vocabulary", c_int64),
        ("values", c_char_p),
        ("ids", c_char_p),
        ("logsumexp", c_char_p),
        ("entropy", c_char_p),
        ("logits", c_void_p),
        ("temperature", c_double),
    )
    kept: object = None


@lru_cache(maxsize=64)
def params_struct(params: DrawParams) -> CParams:
    """Return the settings as a struct, which keeps the arrays that it refers to."""
    count = len(params.logit_bias)
    ids = (c_int32 * count)(*(token for token, _ in params.logit_bias))
    values = (c_double * count)(*(value for _, value in params.logit_bias))
    named = {field.name: getattr(params, field.name) for field in fields(SamplingValues)}
    found = CParams(seed=params.seed, biases=count, **named)
    found.bias_ids, found.bias_values = cast(ids, c_void_p), cast(values, c_void_p)
    found.kept = ids, values
    return found


def lent_struct(rows: HeadRows) -> CHead:
    """Return the results of passes, in memory that they overwrite, as one struct for all of them."""
    count, columns = rows.ids.shape
    lists = [one.ctypes.data for one in (rows.values, rows.ids, rows.logsumexp, rows.entropy)]
    logits = rows.logits
    if logits is None:
        return CHead(count, columns, 0, *lists, None, rows.temperature)
    return CHead(count, columns, logits.shape[1], *lists, logits.ctypes.data, rows.temperature)


def head_struct(rows: HeadRows) -> CHead:
    """Return the results of a pass as a struct; whole rows of logits are not copied.

    The lists are copied: that takes a fraction of finding out where they lie. ``rows`` has to outlive it.
    Raises ValueError for arrays of other shapes or types than ``HeadRows`` says.
    """
    count, columns = rows.ids.shape
    values, ids = rows.values.tobytes(), rows.ids.tobytes()
    logsumexp, entropy = rows.logsumexp.tobytes(), rows.entropy.tobytes()
    nbytes = 4 * count * columns
    if not len(values) == len(ids) == nbytes == columns * len(logsumexp) == columns * len(entropy):
        raise ValueError("rows of other shapes or types than HeadRows says")
    logits = rows.logits
    if logits is None:
        return CHead(count, columns, 0, values, ids, logsumexp, entropy, None, rows.temperature)
    logits = np.ascontiguousarray(logits, np.float32)
    if logits.shape[0] != count:
        raise ValueError("rows of other shapes or types than HeadRows says")
    found = CHead(
        count, columns, logits.shape[1], values, ids, logsumexp, entropy, logits.ctypes.data, rows.temperature
    )
    found.kept = None if logits is rows.logits else logits
    return found
