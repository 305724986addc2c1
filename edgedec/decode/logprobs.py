"""Log-probabilities of committed tokens: the model's own distribution, before temperature and penalty."""

from __future__ import annotations

import numpy as np

from edgedec.core.rows import HeadRows


def logprob_of(
    rows: HeadRows, row: int, token: int, count: int
) -> tuple[float, tuple[tuple[int, float], ...]]:
    """The log-probability of ``token`` after row ``row``, and the ``count`` best (id, logprob) pairs.

    Both in nats, at temperature 1 and without a repetition penalty. Raises ValueError when ``rows`` were
    requested without what this takes: a sum at temperature 1 or whole rows, and whole rows for a token that
    is not among the best of the head.
    """
    total = _log_total(rows, row)
    best = list(zip(rows.ids[row].tolist(), rows.values[row].tolist(), strict=True))
    value = next((value for id, value in best if id == token), None)
    if value is None:
        if rows.logits is None:
            raise ValueError(f"token {token} is not in the head's list, and there is no whole row")
        value = rows.logits.item(row, token)
    return value - total, tuple((id, other - total) for id, other in best[:count])


def _log_total(rows: HeadRows, row: int) -> float:
    if rows.temperature == 1.0:
        return rows.logsumexp.item(row)
    if rows.logits is None:
        raise ValueError(f"the head summed up at temperature {rows.temperature}, and there is no whole row")
    logits = rows.logits[row].astype(np.float64)
    highest = float(logits.max())
    return highest + float(np.log(np.exp(logits - highest).sum()))
