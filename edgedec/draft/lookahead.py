"""A draft that is a function of the text alone, for eviction: it must not depend on who drafts."""

from __future__ import annotations

from collections.abc import Sequence

from edgedec.draft.lookup import Lookup


def lookup_ahead(tokens: Sequence[int], limit: int) -> list[int]:
    """The tokens that followed when the end of ``tokens`` stood in them before, at most ``limit``.

    By a ``Lookup`` of its own, which knows these tokens and no earlier ones.
    """
    lookup = Lookup(len(tokens))
    lookup.begin(tokens, 0)
    return list(lookup.propose(limit).trunk().tokens)
