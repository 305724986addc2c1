"""Drafting with a trained head over the target's hidden states (EAGLE-3, Li et al. 2025).

For position i the head reads the target's hidden states of token i and the token i + 1, and predicts token
i + 2; behind drafted tokens it reads its own output instead. So hidden states are due for every committed
token but the last, and ``read`` brings them. They wait until a draft is asked for, the newest ones only.

Where the head is unsure, the most probable nodes of the draft share a pass (a beam; EAGLE-2, Li et al. 2024).
Such a pass feeds the nodes above them again, since they are not one path; a lone path goes on in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgedec.bundle.head_facts import WAITING
from edgedec.core.rows import FloatArray, HeadRows
from edgedec.core.tree import EMPTY, ROOT, DraftTree
from edgedec.draft.drafter import Drafter
from edgedec.draft.growth import LEAST_REACH, Growth
from edgedec.sampling import DrawParams

if TYPE_CHECKING:
    from edgedec.backends.onnx.layer_forward import LayerForward

MOST_WAITING = WAITING
"""Tokens whose hidden states wait to be read. The drafter reads the end of a longer text, as if it began
there.
"""
MOST_FED = 24
"""Most tokens of a pass over drafted nodes."""
_LARGEST_HOLE = 1
"""Positions that may be missing between hidden states: the drafter reads on as if they were not there."""


class HeadDrafter(Drafter):
    """Drafts with ``head``, whose cache it owns, from the layers ``taps`` of the target.

    ``width``: numbers of a token's hidden states.
    """

    name = "head"

    def __init__(self, head: LayerForward, taps: tuple[int, ...], width: int) -> None:
        self._head, self.taps = head, taps
        self._params = DrawParams()
        self._tokens: list[int] = []
        self._start = 0
        """Tokens before the reply."""
        self._cached: list[int] = []
        """Positions whose hidden states the cache has read, ascending."""
        self._waiting: list[int] = []
        """Positions whose hidden states wait in the first rows of ``_taps``."""
        self._taps = np.empty((MOST_WAITING, width), dtype=np.float32)
        self._next = 0
        """The first position whose hidden states are not known."""
        self._answer: tuple[HeadRows, FloatArray] | None = None
        """The head's prediction behind ``_cached``, and its state."""
        head.ledger.hold(self, "taps", self._taps.nbytes)

    def sampled(self, params: DrawParams) -> None:
        """Draw as the target does from now on."""
        self._params = params

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        """See ``Drafter.begin``. The hidden states of the kept tokens stay known."""
        self._tokens = list(tokens)
        self._start = len(tokens)
        self._next = min(self._next, kept)
        del self._waiting[sum(place < kept for place in self._waiting) :]
        # The entry of a position has read the token behind it, too.
        stay = sum(place + 1 < kept for place in self._cached)
        if stay < len(self._cached):
            self._next = min(self._next, self._cached[stay])
            self._forget(stay)

    def commit(self, tokens: Sequence[int]) -> None:
        """See ``Drafter.commit``."""
        self._tokens += tokens

    def read(self, start: int, hidden: FloatArray) -> None:
        """See ``Drafter.read``."""
        if start > self._next + _LARGEST_HOLE or (start > self._next and not (self._waiting or self._cached)):
            self._forget(0)
            self._waiting = []
        new = hidden[max(self._next - start, 0) :]
        end = start + len(hidden)
        if not len(new):
            return
        self._next = end
        if len(self._waiting) + len(new) > MOST_WAITING:  # the cache would have a hole
            self._forget(0)
            self._drop_oldest(len(self._waiting) + len(new) - MOST_WAITING)
        new = new[-MOST_WAITING:]
        place = len(self._waiting)
        self._taps[place : place + len(new)] = new
        self._waiting += range(end - len(new), end)

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        """See ``Drafter.propose``. Nothing where the last hidden states are missing."""
        if limit < 1 or not self._catch_up() or self._answer is None:
            return EMPTY
        tree = _Growth(self._head, self._tokens, self._start, self._params, self._answer)
        try:
            return tree.grown(limit, max(floor, LEAST_REACH)).best(limit, floor, self.name)
        finally:
            self._head.rewind(len(self._cached))

    def nbytes(self) -> int:
        """Weights (mapped), the cache as reserved, hidden states that wait, and bookkeeping."""
        lists = len(self._tokens) + len(self._cached) + len(self._waiting)
        return sum(self._head.nbytes().values()) + self._taps.nbytes + 8 * lists

    @property
    def bytes_read(self) -> int:
        """See ``Drafter.bytes_read``."""
        return self._head.bytes_read

    @property
    def passes(self) -> int:
        """See ``Drafter.passes``."""
        return self._head.passes

    @property
    def table_bytes(self) -> int:
        """See ``Drafter.table_bytes``: the target's embedding."""
        return self._head.table_bytes

    def _catch_up(self) -> bool:
        """Feed what waits; return whether the cache has read all but the last committed token."""
        due = len(self._tokens) - 1
        if self._next != due or not (self._waiting or self._cached):
            return False
        if len(self._cached) + len(self._waiting) + MOST_FED > self._head.capacity:
            self._forget(0)
        self._feed(predict=True)
        return self._answer is not None

    def _feed(self, *, predict: bool) -> None:
        """Feed all that waits, and with ``predict`` keep what the head predicts behind it."""
        ready, piece = 0, self._head.caps.max_pass
        while ready < len(self._waiting):
            places = self._waiting[ready : ready + piece]
            tokens = [self._tokens[place + 1] for place in places]
            taps = self._taps[ready : ready + len(places)]
            ready += len(places)
            last = [len(places) - 1] if predict and ready == len(self._waiting) else []
            found = self._head.step(tokens, taps=taps, rows=last)
            self._cached += places
            self._answer = (found.rows, found.out[-1]) if last else None
        self._waiting = []

    def _forget(self, stay: int) -> None:
        """Keep the first ``stay`` positions of the cache."""
        self._head.rewind(stay)
        del self._cached[stay:]
        self._answer = None

    def _drop_oldest(self, count: int) -> None:
        left = max(len(self._waiting) - count, 0)
        if left:
            self._taps[:left] = self._taps[len(self._waiting) - left : len(self._waiting)].copy()
        self._waiting = self._waiting[len(self._waiting) - left :]


class _Growth(Growth):
    """One draft: nodes, their states, and the path of nodes that the cache holds."""

    beam = 3

    def __init__(
        self,
        head: LayerForward,
        tokens: Sequence[int],
        start: int,
        params: DrawParams,
        answer: tuple[HeadRows, FloatArray],
    ) -> None:
        self._head, self._base = head, head.length
        self._held: list[int] = []
        """Nodes in the cache, a path."""
        super().__init__(tokens, start, params, answer)

    def _feed(self, chosen: list[int]) -> bool:
        """One pass over ``chosen`` and the nodes above them that the cache lacks; False if it has no room."""
        paths = [self._tree.path(node) for node in chosen]
        shared = min(_same(self._held, path) for path in paths)
        fed = sorted({node for path in paths for node in path[shared:]})
        if len(fed) > min(MOST_FED, self._head.capacity - self._base - shared, self._head.caps.max_pass):
            if len(chosen) == 1:
                return False
            return self._feed(chosen[:1])
        self._head.rewind(self._base + shared)
        del self._held[shared:]
        at = {node: place for place, node in enumerate(fed)}
        above = [self._tree.parents[node] for node in fed]
        found = self._head.step(
            [self._tree.tokens[node] for node in fed],
            states=np.stack([self._out[node] for node in above]),
            parents=[at.get(node, ROOT) for node in above],
            rows=[at[node] for node in chosen],
        )
        for row, node in enumerate(chosen):
            self._followed(node, found.rows, row, found.out[at[node]])
        if len(chosen) == 1:
            self._held += fed
        else:
            self._head.rewind(self._base + shared)
        return True


def _same(held: Sequence[int], path: Sequence[int]) -> int:
    """How many nodes of ``path`` the cache holds; never its last one, which is to be fed."""
    count = 0
    while count < min(len(held), len(path) - 1) and held[count] == path[count]:
        count += 1
    return count
