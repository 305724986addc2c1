"""The turns of a drafter on its model: alone here, or with the drafters of other conversations."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

_NOTHING = nullcontext()


class Turns:
    """The model is the drafter's own: it waits for nobody."""

    share = 1.0
    """Share of the latest pass that was this drafter's."""

    def drafting(self) -> AbstractContextManager[None]:
        """Return a context around one draft."""
        return _NOTHING

    def passing(self) -> AbstractContextManager[None]:
        """Return a context around one pass."""
        return _NOTHING


ALONE = Turns()
