"""A large model that is elsewhere and speaks in text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from edgedec.sampling import DrawParams
from edgedec.text.passage import Passage


class TextSide(Protocol):
    """Begins and continues replies. It reads all of a passage each time, and remembers nothing."""

    @property
    def name(self) -> str:
        """The model and the place where it runs, for the user."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the latest continuation ended where the model ended its turn."""
        ...

    def continued(self, passage: Passage, most_tokens: int, params: DrawParams) -> Iterator[str]:
        """Go on behind ``passage`` by at most ``most_tokens`` tokens of the model; yields pieces.

        ``params``: how the user wants tokens to be drawn, as far as the side can do that.
        A piece is empty now and then while nothing comes, so that the caller, who may stop at any time, can
        do so. Raises ``core.errors.SideLost``, also between two pieces, when the model cannot be reached, is
        too slow or answers nonsense.
        """
        ...
