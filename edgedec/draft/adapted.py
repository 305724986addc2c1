"""A correction of a head's probabilities that is learned while decoding: one number per token.

The head of a drafter errs in the same way again and again, above all where it reads layers it was not trained
for. So each token has a bias, which is added to its logit. For every token that came, the biases of the
head's best tokens take a step of online logistic regression. Online Speculative Decoding (Liu et al. 2024)
distils the whole drafter from such tokens; a bias is the part of that which costs next to nothing.

The head is scored on each token twice, as it is and corrected. The correction is used only while it was right
more often. It follows from the head's rows and the tokens alone, and drafts never change a token.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgedec.core.rows import HeadRows
from edgedec.memory.footprint import ADAPTED_BYTES

_CHOICES = 16
"""Best tokens of a row that are corrected."""
_RATE = 0.5
_LARGEST = 4.0
"""Largest bias, in nats."""
_KEEPING = 0.98
"""Share of the lead that remains after one more token."""
_LEAD = 1.5
"""Tokens that the correction must be ahead by lately to be used."""

F64 = NDArray[np.float64]
Ids = NDArray[np.int64]


class Adapted:
    """Biases of tokens, and whether they help.

    Tokens share entries of the table where the vocabulary is larger, which hardly harms: few are frequent.
    """

    def __init__(self) -> None:
        self._bias = np.zeros(ADAPTED_BYTES // 4, dtype=np.float32)
        self._lead = 0.0

    @property
    def helps(self) -> bool:
        """Whether the corrected head was right more often lately."""
        return self._lead > _LEAD

    def nbytes(self) -> int:
        return self._bias.nbytes

    def corrected(self, rows: HeadRows) -> HeadRows:
        """Return ``rows`` with the biases added, best first again; unchanged where they do not help.

        Only the few best tokens of each row stay. ``entropy`` and ``logits`` are those of the head.
        """
        if not self.helps:
            return rows
        found = [self._row(rows, row) for row in range(len(rows))]
        return replace(
            rows,
            ids=np.array([ids for ids, _, _ in found], dtype=rows.ids.dtype),
            values=np.array([values for _, values, _ in found], dtype=rows.values.dtype),
            logsumexp=np.array([total for _, _, total in found], dtype=rows.logsumexp.dtype),
        )

    def learn(self, rows: HeadRows, row: int, token: int) -> None:
        """Note that ``token`` came where the head, uncorrected, answered ``rows[row]``."""
        ids, values, total = self._row(rows, row)
        self._lead = _KEEPING * self._lead + (int(ids[0]) == token) - (int(rows.ids[row, 0]) == token)
        places = ids % self._bias.size
        np.subtract.at(self._bias, places, _RATE * np.exp(values - total))
        self._bias[places] = np.maximum(self._bias[places], -_LARGEST)
        came = token % self._bias.size
        self._bias[came] = min(self._bias[came] + _RATE, _LARGEST)

    def _row(self, rows: HeadRows, row: int) -> tuple[Ids, F64, float]:
        """Ids and logits of a row, corrected and best first, and the logarithm of the sum over all ids."""
        ids = rows.ids[row, :_CHOICES].astype(np.int64)
        values = rows.values[row, :_CHOICES].astype(np.float64)
        total = float(rows.logsumexp[row])
        rest = max(1.0 - float(np.exp(values - total).sum()), 0.0)
        values = values + self._bias[ids % self._bias.size]
        order = np.lexsort((ids, -values))
        total += float(np.log(np.exp(values - total).sum() + rest))
        return ids[order], values[order], total
