"""Speculation: drafters, the control over them, and the rounds that they draft for.

Drafts never change a token, only how many passes it takes. The core (kernels/core/decode/speculation.h) keeps
the rounds, queries drafters and counts; here is what Python's drafters and grammars answer.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from edgedec.control import Costs
from edgedec.control.tally import Tally
from edgedec.core.errors import DeviceLostError
from edgedec.core.progress import Notice
from edgedec.core.rows import FloatArray, HeadRows, tapped
from edgedec.core.tree import EMPTY, DraftTree
from edgedec.core_lib.speculation import CoreSpeculation, DraftWork, Nodes, Outcome, Seat, Wanted
from edgedec.decode.constrained import GRAMMAR, permitted
from edgedec.draft import Drafter, lookup_ahead
from edgedec.draft.native import table_of
from edgedec.sampling import DrawParams

if TYPE_CHECKING:
    from edgedec.grammar import Constraint

__all__ = ["Speculation", "Tally"]

Keep = Callable[[Mapping[int, float]], None]
"""Takes costs: tokens of a pass, seconds."""


class Speculation:
    """Drafters and the control over them.

    - A drafter that raises is dropped, with one line to ``notice``.
    - Without ``costs`` every draft is fed up to ``limit`` tokens, whether it pays or not.
    - Costs that drifted during a reply go to ``keep``.
    - With ``EnergyCosts`` drafts are planned for the fewest joules, with others for the least time.
    """

    def __init__(
        self,
        drafters: Sequence[Drafter],
        costs: Costs | None = None,
        *,
        limit: int = 15,
        notice: Notice | None = None,
        clock: Callable[[], float] | None = None,
        keep: Keep | None = None,
    ) -> None:
        self.limit = limit
        """Most tokens drafted for one pass."""
        self.now = clock or (lambda: 0.0)
        self._places: dict[int, Drafter] = dict(enumerate(drafters))
        self._names = tuple(drafter.name for drafter in drafters)
        self._sources = (*self._names, GRAMMAR)
        self._costs = costs
        self._notice = notice
        self._keep = keep
        self._begun = False
        self._beginning: tuple[Sequence[int], int, DrawParams | None] = (), 0, None
        """The sequence that drafters begin, and how its reply is drawn; None: as before."""
        self._grammar: Constraint | None = None
        seats = [_seat(drafter) for drafter in drafters]
        self.taps = self._taps()
        """Layers of the target whose outputs drafters need, ascending."""
        self._core = CoreSpeculation(seats, costs, limit, _while_alive(self._called), clock)

    @property
    def core(self) -> CoreSpeculation:
        """The handle."""
        return self._core

    def sources(self, places: Sequence[int]) -> tuple[str | None, ...]:
        """Return the names of drafters by their places; None for the target's, -1."""
        names = self._sources
        return tuple([names[place] if place >= 0 else None for place in places])

    @property
    def plain_s(self) -> float | None:
        """Seconds of a pass over one token, as measured; None where costs are not."""
        return self._costs.plain if self._costs else None

    @property
    def tally(self) -> Tally:
        """Counts of the whole session so far."""
        return Tally.of(self._core.tally(), self._names, GRAMMAR)

    @property
    def drafters(self) -> tuple[str, ...]:
        """Names of the drafters that have not been dropped."""
        return tuple(drafter.name for drafter in self._places.values())

    @property
    def remembering(self) -> dict[str, Drafter]:
        """The drafters, by name, whose knowledge can be kept."""
        return {drafter.name: drafter for drafter in self._places.values() if drafter.caps.remembers}

    def judged(self) -> dict[str, list[list[int]]]:
        """Return by source how many tokens were judged and how many of them right, in all.

        Entry i is about those that were stated with a probability from i / 10 up; the last one, 1. Nothing
        without costs, where drafts are not judged.
        """
        found = {name: self._core.judged(at) for at, name in enumerate(self._sources)}
        return {name: counts for name, counts in found.items() if any(tokens for tokens, _ in counts)}

    def draft_at_most(self, tokens: int) -> None:
        """Lower ``limit`` for replies to come."""
        self.limit = min(self.limit, tokens)
        self._core.limit(tokens)

    def drop(self, name: str) -> None:
        """Go on without the drafter of this name, if there is one."""
        for at in [at for at, drafter in self._places.items() if drafter.name == name]:
            self._core.drop(at)
            del self._places[at]
        self.taps = self._taps()

    def _taps(self) -> tuple[int, ...]:
        return tuple(sorted({tap for drafter in self._places.values() for tap in drafter.taps}))

    def nbytes(self) -> dict[str, int]:
        """Bytes held by each drafter."""
        return {drafter.name: drafter.nbytes() for drafter in self._places.values()}

    def begin(
        self,
        tokens: Sequence[int],
        kept: int,
        *,
        params: DrawParams | None = None,
        stop_ids: Collection[int] = (),
        grammar: Constraint | None = None,
    ) -> None:
        """Start a new sequence, which shares its first ``kept`` tokens with the one before.

        ``params``: how its reply is drawn, and ``grammar``: what it keeps to; None: as before. ``stop_ids``:
        tokens that end it.
        """
        if params is not None:
            self._grammar = grammar
        if not self._begun:
            self._begun = True
            for at, drafter in self._places.items():
                if drafter.pretrained:
                    self._core.trust(at)
        self._beginning = tokens, kept, params
        self._core.begin(tokens, kept, stop_ids)
        self._beginning = (), 0, None

    def ahead(self, tokens: Sequence[int], limit: int) -> list[int]:
        """At most ``limit`` tokens that may follow ``tokens``, all that was committed.

        A function of these tokens, whatever was drafted before: by the first drafter that looks ahead, or
        else by lookup.
        """
        self._core.tell()  # or else drafters would hear twice of tokens that ``tokens`` has
        found: list[list[int]] = []
        able = [at for at, drafter in self._places.items() if drafter.caps.looks_ahead]
        for at in able[:1]:
            self._guarded(at, lambda drafter: found.append(drafter.ahead(tokens, limit)))
        return found[0] if found else lookup_ahead(tokens, limit)

    def end(self) -> None:
        """The reply is over: tell drafters the rest of it, and keep costs that drifted."""
        drifted = self._core.end()
        if drifted and self._costs and self._keep:
            self._keep(self._costs.measured())

    def draft(self, room: int) -> DraftTree:
        """Draft at most ``room`` tokens to feed behind the last committed one."""
        return self._tree(self._core.draft(room))

    def read(self, start: int, hidden: FloatArray) -> None:
        """Tell drafters the outputs of the layers ``taps`` for committed tokens; see ``Drafter.read``."""
        taps = self.taps
        for at in [at for at, drafter in self._places.items() if drafter.taps]:
            began = self.now()
            if self._guarded(at, lambda drafter: drafter.read(start, tapped(hidden, taps, drafter.taps))):
                self._core.learned(at, self.now() - began)

    def note(self, chain: Sequence[int], rows: HeadRows, tokens: Sequence[int]) -> None:
        """Note a round that drafted elsewhere: ``rows`` answered ``chain``, and ``tokens`` were committed."""
        self._core.note(chain, rows, tokens)

    def _tree(self, nodes: Nodes) -> DraftTree:
        if not nodes.tokens:
            return EMPTY
        names = self._sources
        sources = tuple([names[source] for source in nodes.sources])
        return DraftTree(nodes.tokens, nodes.parents, nodes.probs, sources)

    def _called(self, wanted: int, at: int) -> Outcome:
        """Answer a call of the core; see ``Wanted``."""
        if wanted == Wanted.PERMIT:
            self._permit()
            return Outcome.DONE
        return Outcome.DONE if self._guarded(at, _ANSWERS[wanted], self) else Outcome.FAILED

    def _guarded(self, at: int, act: Callable[..., object], *more: object) -> bool:
        """Call a drafter; returns False, and goes on without it, where it fails."""
        drafter = self._places[at]
        try:
            act(drafter, *more)
        except DeviceLostError:  # the target's, where it drafts itself: the engine begins the round again
            raise
        except Exception as error:  # whatever it is: decoding goes on without this drafter
            self.drop(drafter.name)
            if self._notice:
                self._notice(f"drafter {drafter.name} failed and is off: {error}")
            return False
        return True

    def _permit(self) -> None:
        assert self._grammar is not None
        self._core.permit(permitted(self._grammar, self._tree(self._core.shown())))

    def _begin(self, drafter: Drafter) -> None:
        tokens, kept, params = self._beginning
        if params is not None:
            drafter.sampled(params)
        drafter.begin(tokens, kept)

    def _commit(self, drafter: Drafter) -> None:
        drafter.commit(self._core.wanted_tokens())

    def _observe(self, drafter: Drafter) -> None:
        drafter.observe(self._tree(self._core.shown()), self._core.shown_rows())

    def _propose(self, drafter: Drafter) -> None:
        limit, floor = self._core.wanted_draft()
        read, passes, tables = drafter.bytes_read, drafter.passes, drafter.table_bytes
        tree = drafter.propose(limit, floor)
        work = DraftWork(drafter.bytes_read - read, drafter.passes - passes, drafter.table_bytes - tables)
        self._core.answer(tree.tokens, tree.parents, tree.probs, drafter.peeked, work)


_ANSWERS: Mapping[int, Callable[[Drafter, Speculation], None]] = {
    Wanted.BEGIN: lambda drafter, one: one._begin(drafter),
    Wanted.COMMIT: lambda drafter, one: one._commit(drafter),
    Wanted.PROPOSE: lambda drafter, one: one._propose(drafter),
    Wanted.OBSERVE: lambda drafter, one: one._observe(drafter),
}


def _while_alive(method: Callable[[int, int], Outcome]) -> Callable[[int, int], Outcome]:
    """Return a method without keeping its object, in whose lifetime alone it is called."""
    weak = weakref.WeakMethod(method)

    def call(wanted: int, at: int) -> Outcome:
        found = weak()
        return found(wanted, at) if found else Outcome.STOPPED

    return call


def _seat(drafter: Drafter) -> Seat:
    return Seat(
        table_of(drafter),
        drafter.caps.peeks,
        drafter.caps.every_round,
        type(drafter).observe is not Drafter.observe,
    )
