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

_SPAN_TOKENS = 64
_BACK = 0.5
"""Share of the bound below which the trimmed head drafts again."""
_REACH = 256
"""Tokens at the end of a text that begins whose ids are kept."""


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
