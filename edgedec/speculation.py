"""One round's draft: ask the drafters, believe them as far as measured, feed as much as pays.

What is proposed never changes what is committed, only how many passes it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from edgedec.control import Acceptance, CostCurve, planned
from edgedec.core.tree import EMPTY, DraftTree
from edgedec.core.types import HeadRows
from edgedec.draft import Drafter, Remembering, merged

Notice = Callable[[str], None]


@dataclass(slots=True)
class Tally:
    """Counts of a whole session. ``rounds`` are passes that committed a token, drafted for or not."""

    rounds: int = 0
    committed: int = 0
    drafted: int = 0
    accepted: int = 0
    draft_s: float = 0.0
    """Proposing, learning, planning."""
    verify_s: float = 0.0
    """The passes of these rounds."""

    def as_json(self) -> dict[str, float | int | None]:
        """The fields of ``edgedec generate --json`` about drafts."""
        return {
            "rounds": self.rounds,
            "drafted_tokens": self.drafted,
            "block_efficiency": _rounded(self.block_efficiency),
            "acceptance_rate": _rounded(self.acceptance_rate),
            "draft_s": _rounded(self.draft_s),
            "verify_s": _rounded(self.verify_s),
        }

    @property
    def block_efficiency(self) -> float | None:
        """Mean tokens committed per round."""
        return self.committed / self.rounds if self.rounds else None

    @property
    def acceptance_rate(self) -> float | None:
        """Share of the drafted tokens fed that were committed."""
        return self.accepted / self.drafted if self.drafted else None


class Speculation:
    """Drafters and the control over them. A drafter that raises is dropped, with one line to ``notice``.

    Without ``costs`` every draft is fed up to ``limit`` tokens, whether it pays or not.
    """

    def __init__(
        self,
        drafters: Sequence[Drafter],
        costs: CostCurve | None = None,
        *,
        limit: int = 15,
        notice: Notice | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._drafters = list(drafters)
        self._costs = costs
        self._limit = limit
        self._notice = notice
        self._clock = clock
        self._acceptance = Acceptance()
        self._proposed: list[DraftTree] = []
        self.tally = Tally()

    @property
    def drafters(self) -> tuple[str, ...]:
        """Names of those that have not been dropped."""
        return tuple(drafter.name for drafter in self._drafters)

    @property
    def remembering(self) -> dict[str, Remembering]:
        """Those of them, by name, whose knowledge can be kept."""
        return {drafter.name: drafter for drafter in self._drafters if isinstance(drafter, Remembering)}

    def nbytes(self) -> dict[str, int]:
        """Bytes held by each drafter."""
        return {drafter.name: drafter.nbytes() for drafter in self._drafters}

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        """A new sequence, which shares its first ``kept`` tokens with the one before."""
        self._proposed = []
        self._each(lambda drafter: drafter.begin(tokens, kept))

    def propose(self, room: int) -> DraftTree:
        """At most ``room`` tokens to feed behind the last committed one."""
        with self._timed():
            return self._propose(room)

    def _propose(self, room: int) -> DraftTree:
        limit = min(self._limit, room)
        self._proposed = []
        if limit <= 0:
            return EMPTY
        self._each(lambda drafter: self._proposed.append(drafter.propose(limit)))
        trees = [tree for tree in self._proposed if len(tree)]
        if not trees:
            return EMPTY
        tree = merged(trees, limit, self._acceptance.believe)
        return tree if self._costs is None else tree.first(planned(tree, self._costs))

    def learn(self, tree: DraftTree, rows: HeadRows) -> None:
        """The target's answers to the last committed token and the tree behind it."""
        with self._timed():
            self._each(lambda drafter: drafter.learn(tree, rows))

    def commit(self, tokens: Sequence[int], drafted: int, *, seconds: float | None) -> None:
        """A round over ``drafted`` drafted tokens committed ``tokens``; its pass took ``seconds``."""
        with self._timed():
            for tree in self._proposed:
                self._acceptance.observe(tree, tokens)
            self._proposed = []
            self._each(lambda drafter: drafter.commit(tokens))
            if self._costs is not None and seconds is not None:
                self._costs.observe(1 + drafted, seconds)
        self.tally.rounds += 1
        self.tally.committed += len(tokens)
        self.tally.drafted += drafted
        self.tally.accepted += len(tokens) - 1
        self.tally.verify_s += seconds or 0.0

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = self._clock() if self._clock else 0.0
        yield
        if self._clock:
            self.tally.draft_s += self._clock() - began

    def _each(self, act: Callable[[Drafter], None]) -> None:
        for drafter in tuple(self._drafters):
            try:
                act(drafter)
            except Exception as error:  # whatever it is: decoding goes on without this drafter
                self._drafters.remove(drafter)
                if self._notice:
                    self._notice(f"drafter {drafter.name} failed and is off: {error}")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
