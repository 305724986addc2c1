"""The model's own distribution, at temperature 1, before penalty and cuts: log-probabilities and entropy."""

from __future__ import annotations

from ctypes import byref, c_double

from edgedec.core.rows import HeadRows
from edgedec.core_lib.library import error_of, function
from edgedec.core_lib.params import head_struct


def logprob_of(
    rows: HeadRows, row: int, token: int, count: int
) -> tuple[float, tuple[tuple[int, float], ...]]:
    """Return the log-probability of ``token`` after row ``row``, and the ``count`` best (id, logprob) pairs.

    Both in nats. Raises BackendError when ``rows`` were requested without what this takes: a sum at
    temperature 1 or whole rows, and whole rows for a token that is not among the best of the head.
    """
    logprob, total, _ = _at_one(rows, row, token, token_wanted=True, entropy_wanted=False)
    best = zip(rows.ids[row, :count].tolist(), rows.values[row, :count].tolist(), strict=True)
    return logprob, tuple((id, value - total) for id, value in best)


def entropy_bits(rows: HeadRows, row: int) -> float:
    """Return the entropy in bits after row ``row``. Raises BackendError as ``logprob_of`` does."""
    return _at_one(rows, row, -1, token_wanted=False, entropy_wanted=True)[2]


def _at_one(
    rows: HeadRows, row: int, token: int, *, token_wanted: bool, entropy_wanted: bool
) -> tuple[float, float, float]:
    found = (c_double * 3)()
    code = function("at_one")(byref(head_struct(rows)), row, token, token_wanted, entropy_wanted, found)
    if code:
        raise error_of(-code)
    logprob, total, bits = found
    return logprob, total, bits
