"""The interface that decoding asks about a grammar."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Constraint(Protocol):
    """The place that a reply has reached in its grammar. It walks ahead over drafts, and back.

    Draws ask it at the place where it stands.
    """

    def permits(self, token: int) -> bool:
        """Whether ``token`` may come next."""
        ...

    def bits(self) -> NDArray[np.uint8]:
        """A bit for each token that may come next; that of id 0 the lowest of the first byte."""
        ...

    def advance(self, token: int) -> bool:
        """Go on behind ``token``; False, and nothing changes, if it may not come next."""
        ...

    def back(self, count: int) -> None:
        """Take back the last ``count`` tokens."""
        ...

    def forced(self) -> list[int]:
        """The only tokens that may come next, one after the other; none where there is a choice.

        Where the next characters are certain, the tokens are those that the tokenizer makes of them, and no
        other ones may spell them.
        """
        ...

    @property
    def accepts(self) -> bool:
        """Whether the reply may end here."""
        ...

    @property
    def finished(self) -> bool:
        """Whether it has to end here."""
        ...
