"""A forward that passes every call on to another one, which may be replaced, and has its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from edgedec.core.forward import Attending, Capabilities, Copying, Evicting, Forward, Peeking, Portable
from edgedec.core.ledger import Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import LAST_ROW, HeadRows, Rows


class DelegatingForward:
    """The ``Forward`` that does as ``_now`` does."""

    def __init__(self, now: Forward) -> None:
        self._now = now

    @property
    def spec(self) -> ModelSpec:
        return self._now.spec

    @property
    def caps(self) -> Capabilities:
        return self._now.caps

    @property
    def ledger(self) -> Ledger:
        return self._now.ledger

    @property
    def capacity(self) -> int:
        return self._now.capacity

    @property
    def length(self) -> int:
        return self._now.length

    @property
    def lent(self) -> Mapping[str, NDArray[np.float16]] | None:
        """See ``Forward.lent``."""
        return self._now.lent

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        """See ``Forward.extend``."""
        return self._now.extend(tokens, parents=parents, rows=rows)

    def reachable(self, length: int) -> int:
        """See ``Forward.reachable``."""
        return self._now.reachable(length)

    def rewind(self, length: int) -> None:
        """See ``Forward.rewind``."""
        self._now.rewind(length)

    def keep_path(self, nodes: Sequence[int]) -> None:
        """See ``Forward.keep_path``."""
        self._now.keep_path(nodes)

    def nbytes(self) -> dict[str, int]:
        """See ``Forward.nbytes``."""
        return self._now.nbytes()

    @property
    def peeking(self) -> Peeking | None:
        return self._now.peeking

    @property
    def evicting(self) -> Evicting | None:
        return self._now.evicting

    @property
    def attending(self) -> Attending | None:
        return self._now.attending

    @property
    def portable(self) -> Portable | None:
        return self._now.portable

    @property
    def copying(self) -> Copying | None:
        return self._now.copying
