"""The needs of a draw: whole rows of logits or not, memory, and the temperature of the sums of a pass."""

from __future__ import annotations

from edgedec.sampling.params import DrawParams

MOST_DRAWING = 120
"""Bytes of the longest lists, sorted and weighed in float64, and of memory that the allocator keeps."""
_LOGPROB = 24
"""Bytes: a row in float64, its weights, and one array between them."""
_UNCUT, _ADJUSTED = 8, 24
"""Bytes where nothing is cut off: of noise; and of a row in float64 that is searched for its best."""
_MASKED, _MASKED_NARROWED = 48, 136
"""Bytes: ids, logits and weights of all that a mask allows, and arrays between them; and with entropies."""
_TEMPERATURES = 0.1, 10.0
"""Between these, a total from a logsumexp in float32 is exact to about 1e-5."""


def needs_logits(
    params: DrawParams, head_k: int = 64, *, logprobs: bool = False, masked: bool = False
) -> bool:
    """Whether ``draw`` may need whole logits rows, so that ``extend`` must return them.

    False exactly when the ``head_k`` best logits always suffice: greedy, or top-k of at most ``head_k``,
    without logit bias, penalties or top-n-sigma (their effect depends on logits outside any list). For others
    a list mostly suffices too, but which ones is known only after the pass: rows that ``draw`` then never
    reads cost little, another pass would not. ``logprobs``: whether log-probabilities at temperature 1 are
    wanted besides; the head sums up at ``head_temperature`` alone. ``masked``: whether draws have a mask,
    which may allow none of the list.
    """
    if masked:
        return True
    if params.adjusts or (logprobs and head_temperature(params) != 1.0):
        return True
    if params.greedy:
        return False
    return params.top_n_sigma > 0.0 or not 0 < params.top_k <= head_k


def drawing_bytes(
    params: DrawParams, head_k: int = 64, *, logprobs: bool = False, masked: bool = False
) -> int:
    """Bytes per entry of a whole row that ``draw`` takes beside the row, at most, as measured.

    0 where it needs none. ``logprobs``: with log-probabilities. ``masked``: among the tokens of a mask.
    """
    least = _LOGPROB if logprobs and head_temperature(params) != 1.0 else 0
    if masked and (params.greedy or params.uncut):
        return max(least, _MASKED)
    if masked:
        return _MASKED_NARROWED if params.narrows else MOST_DRAWING
    if not needs_logits(params, head_k):
        return least
    if not params.uncut:
        return max(MOST_DRAWING, least)
    return max(_ADJUSTED if params.counts or params.logit_bias else _UNCUT, least)


def head_temperature(params: DrawParams) -> float:
    """At which temperature ``extend`` should sum up the logits: then a list that has the mass of top-p
    suffices. 1 where that is no use, and where the temperature depends on the entropy at 1.
    """
    low, high = _TEMPERATURES
    return params.temperature if low <= params.temperature <= high and not params.edt else 1.0
