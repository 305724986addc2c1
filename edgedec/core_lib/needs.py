"""The needs of a draw: whole rows of logits or not, memory, and the temperature of the sums of a pass."""

from __future__ import annotations

from ctypes import byref, c_double

from edgedec.core_lib.library import function
from edgedec.core_lib.params import params_struct
from edgedec.sampling import DrawParams


def needs_logits(
    params: DrawParams, head_k: int = 64, *, logprobs: bool = False, masked: bool = False
) -> bool:
    """Whether a draw may need whole logits rows, so that ``extend`` must return them.

    False exactly when the ``head_k`` best logits always suffice. ``logprobs``: whether log-probabilities or
    the entropy at temperature 1 are wanted besides. ``masked``: whether draws have a mask, which may allow
    none of the list.
    """
    return bool(_needs(params, head_k, logprobs, masked)[0])


def head_temperature(params: DrawParams) -> float:
    """At which temperature ``extend`` should sum up the logits: then a list that has the mass of top-p
    suffices. 1 where that is no use, and where the temperature depends on the entropy at 1.
    """
    return _needs(params, 0, logprobs=False, masked=False)[1]


def drawing_bytes(
    params: DrawParams, head_k: int = 64, *, logprobs: bool = False, masked: bool = False
) -> int:
    """Bytes per entry of a whole row that a draw takes beside the row, at most; 0 where it needs none."""
    return int(_needs(params, head_k, logprobs, masked)[2])


def _needs(params: DrawParams, head_k: int, logprobs: bool, masked: bool) -> tuple[float, float, float]:
    found = (c_double * 3)()
    function("needs")(byref(params_struct(params)), head_k, logprobs, masked, found)
    full, temperature, nbytes = found
    return full, temperature, nbytes
