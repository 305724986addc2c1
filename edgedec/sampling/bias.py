"""A logit bias: numbers that are added to the logits of chosen tokens, in a form that cannot change."""

from __future__ import annotations

from collections.abc import Mapping

from edgedec.bundle.preset import whole
from edgedec.core.errors import UsageError

LogitBias = Mapping[int, float] | tuple[tuple[int, float], ...]
"""Numbers by token id, or pairs of both."""

_LEAST, _MOST = -100.0, 100.0


def frozen_bias(given: LogitBias) -> tuple[tuple[int, float], ...]:
    """Return the bias as pairs by ascending id. Raises UsageError for anything that is none.

    >>> frozen_bias({7: -100, 3: 1.5})
    ((3, 1.5), (7, -100.0))
    """
    try:
        pairs = [(token, value) for token, value in (given.items() if isinstance(given, Mapping) else given)]
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"logit bias cannot be {given!r:.60}", hint="give a number for each token id, as in {7: -100}"
        ) from error
    for token, value in pairs:
        if not (whole(token) and token >= 0):
            raise UsageError(f"logit bias cannot be for token {token!r:.40}", hint="give the id of a token")
        if isinstance(value, bool) or not isinstance(value, int | float) or not _LEAST <= value <= _MOST:
            raise UsageError(
                f"logit bias of token {token} cannot be {value!r:.40}", hint="it must be from -100 to 100"
            )
    found = dict(sorted(pairs))
    if len(found) < len(pairs):
        raise UsageError("logit bias names a token twice", hint="name each id once")
    return tuple((token, float(value)) for token, value in found.items())
