"""When a drafter computes the kept ids of its head, and when all of them.

A trimmed head reads fewer bytes, and cannot draft a token that it lacks. Coverage is high on text like the
replies that were counted and low elsewhere: another language, rare names. Rare names come again: so ids that
occur in the text are kept too, as long as it goes on. The rate of the target's tokens outside all of these
decides, over about the last ``_SPAN_TOKENS`` of them. Above ``bound`` the full head drafts, until the rate
has fallen to half of that.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgedec.core.rows import Keep
from edgedec.draft.ids_of_texts import IdsOfTexts
from edgedec.metrics.mbsu import chain_efficiency

_SPAN_TOKENS = 64
_BACK = 0.5
"""Share of the bound below which the trimmed head drafts again."""
_REACH = 256
"""Tokens at the end of a text that begins whose ids are kept."""
_STEPS = 4
_ACCEPTANCE = 0.7
"""A usual chain, for which the bound is computed: its length, and how often a token of it is right."""
_RARE = 0.5
"""Acceptance rate of a token outside, as a part of ``_ACCEPTANCE``: rare tokens are foreseen less often."""


class TrimmedHead:
    """The ids that a head is trimmed to (ascending), and whether it is now.

    ``saved``: the part of a pass's bytes that the trimmed head leaves unread, 0 to 1.
    """

    def __init__(self, ids: Keep | IdsOfTexts, bound: float, saved: float = 0.0) -> None:
        self.saved = saved
        self.kept = ids if isinstance(ids, IdsOfTexts) else IdsOfTexts(ids)
        self._bound = bound
        self._rate = 0.0
        self._full = False
        self._read: int | None = None

    def again(self, *, shared: bool = False) -> TrimmedHead:
        """Return one of the same ids that has followed no text; ``shared``: for several conversations."""
        return TrimmedHead(self.kept.again(shared=shared), self._bound, self.saved)

    def beside(self) -> TrimmedHead:
        """Return one for another conversation, with which this one shares its ids."""
        return TrimmedHead(self.kept, self._bound, self.saved)

    @property
    def keep(self) -> Keep | None:
        """Keep that the next draft is made of; None for all."""
        return None if self._full else self.kept.all

    @property
    def outside(self) -> float:
        """Recent rate of tokens outside the subset."""
        return self._rate

    def begin(self) -> None:
        """Start another text. Its tokens so far are no replies and do not count."""
        self._read = None
        self.kept.begin()

    def follow(self, text: Sequence[int]) -> None:
        """Note the committed ``text``, in the drafter's ids; those since the last call count."""
        begins = self._read is None
        fresh = text[-_REACH:] if self._read is None else text[self._read :]
        self._read = len(text)
        outside = [token for token in fresh if self.kept.lacks(token)]
        for token in () if begins else fresh:
            self._rate += (self.kept.lacks(token) - self._rate) / _SPAN_TOKENS
            self._full = self._rate > (self._bound * _BACK if self._full else self._bound)
        if outside:
            self.kept.add(outside)

    def nbytes(self) -> int:
        return self.kept.nbytes()


def chain_gain(step: float, outside: float = 0.0) -> float:
    """Return the tokens that a round with a usual chain of drafts commits for the time of a pass.

    ``step``: cost of a draft step in passes; ``outside``: rate of tokens that it cannot draft, 0 to 1.
    """
    return chain_efficiency(_ACCEPTANCE * (1.0 - outside), _STEPS) / (1.0 + _STEPS * step)


def break_even(step: float, trimmed: float) -> float:
    """Return the rate of tokens outside the subset at which a trimmed head is no longer worth its savings.

    ``step``, ``trimmed``: cost of a draft step with the full and with the trimmed head, in passes of the
    target. At this rate, 0 to 1, a usual chain gains as much with both.
    """
    needed = chain_gain(step)
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        enough = chain_gain(trimmed, _RARE * middle) > needed
        low, high = (middle, high) if enough else (low, middle)
    return low
