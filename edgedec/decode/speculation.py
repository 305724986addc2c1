"""One round's draft: ask the drafters, believe them as far as measured, feed as much as pays.

What is proposed never changes what is committed, only how many passes it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from edgedec.control import Controller, Costs
from edgedec.control.controller import Request, RoundTimes
from edgedec.control.tally import Tally
from edgedec.core.rows import HeadRows
from edgedec.core.tree import EMPTY, DraftTree
from edgedec.draft import Drafter, Foreseeing, Keyed, Remembering, lookup_ahead, merged
from edgedec.draft.merge import Believe
from edgedec.sampling import SamplingParams
from edgedec.verify import KEYED, fitted

__all__ = ["Notice", "Speculation", "Tally"]

Notice = Callable[[str], None]
Keep = Callable[[Mapping[int, float]], None]

_Lesson = tuple[DraftTree, HeadRows]
"""What a pass was over and what the target answered; see ``Drafter.learn``."""

_DRIFT = 0.15
_MOST_UNTOLD = 32
"""Rounds kept for later, in some kilobytes each."""


class Speculation:
    """Drafters and the control over them. A drafter that raises is dropped, with one line to ``notice``.

    Without ``costs`` every draft is fed up to ``limit`` tokens, whether it pays or not. Costs that have
    drifted far from what they were go to ``keep`` after a reply: tokens of a pass, seconds. ``rule`` says how
    the engine is to verify: "keyed", or one of ``verify.RULES``; for these costs do not count either, since a
    seed would not reproduce what times decided.
    """

    def __init__(
        self,
        drafters: Sequence[Drafter],
        costs: Costs | None = None,
        *,
        limit: int = 15,
        rule: str = KEYED,
        notice: Notice | None = None,
        clock: Callable[[], float] | None = None,
        keep: Keep | None = None,
    ) -> None:
        self._drafters = list(drafters)
        self._limit = limit
        self.rule = rule
        self._control = Controller(costs, self.drafters, limit) if costs and rule == KEYED else None
        self._notice = notice
        self._now = clock or (lambda: 0.0)
        self._keep = keep
        self._kept_drift = 0.0
        self._proposed: list[DraftTree] = []
        self._fed = EMPTY
        self._began: float | None = None
        """When drafting for the round in progress began, if it did."""
        self._ready = 0.0
        self._resting = False
        """Whether nobody is asked in the round in progress."""
        self._heard: _Lesson | None = None
        self._untold: list[tuple[_Lesson | None, list[int]]] = []
        """What drafters hear of when one of them is asked: a pass leaves nothing in the caches, and of many
        rounds at once only the first costs much.
        """
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

    def sampled(self, params: SamplingParams) -> None:
        """How tokens are drawn from now on, for drafters that want to know."""
        self._each(lambda drafter: drafter.sampled(params) if isinstance(drafter, Keyed) else None)

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        """A new sequence, which shares its first ``kept`` tokens with the one before."""
        self._forget_round()
        self._tell()
        if self._control:
            self._control.begin()
        self._each(lambda drafter: drafter.begin(tokens, kept))

    def ahead(self, tokens: Sequence[int], limit: int) -> list[int]:
        """At most ``limit`` tokens that may follow ``tokens``, all that was committed: a function of these,
        whatever was drafted before. By the first model that drafts, or else by lookup, whoever drafts.
        """
        self._tell()  # or else what waits would be told behind ``tokens``, which have it
        found: list[list[int]] = []
        models = [drafter for drafter in self._drafters if isinstance(drafter, Foreseeing)]
        self._each(lambda one: found.append(cast("Foreseeing", one).ahead(tokens, limit)), models[:1])
        return found[0] if found else lookup_ahead(tokens, limit)

    def end(self) -> None:
        """The reply is over."""
        self._tell()
        if self._control and self._keep:
            drift = self._control.costs.drift
            if abs(drift - self._kept_drift) > _DRIFT:
                self._kept_drift = drift
                self._keep(self._control.costs.measured())

    def propose(self, room: int) -> DraftTree:
        """At most ``room`` tokens to feed behind the last committed one."""
        self._forget_round()
        self._resting = self._control is not None and self._control.rests()
        if self._resting:
            return EMPTY
        self._began = self._now()
        limit = min(self._limit, room)
        if self._control:
            self._fed = self._planned(self._control, limit)
        elif limit > 0:
            self._ask([Request(name, limit, 0.0) for name in self.drafters])
            self._fed = self._unplanned(limit)
        self._ready = self._now()
        return self._fed

    def learn(self, tree: DraftTree, rows: HeadRows) -> None:
        """The target's answers to the last committed token and the tree behind it, before ``commit``."""
        if not (self._resting and self._control and self._control.hopeless):
            self._heard = (tree, rows if rows.logits is None else replace(rows, logits=None))

    def commit(self, tokens: Sequence[int], drafted: int, *, seconds: float | None) -> None:
        """A round over ``drafted`` drafted tokens committed ``tokens``; its pass took ``seconds``."""
        verified = self._now() if self._began is not None else 0.0
        self.tally.add(self._fed, tokens, seconds or 0.0)
        self._note(tokens)
        if self._resting and self._control:
            self._control.rested(seconds)
        elif self._began is not None:
            own = self._ready - self._began + self._now() - verified
            self.tally.draft_s += own
            if self._control:
                verifying = verified - self._ready - (seconds or 0.0)
                times = RoundTimes(seconds, own, max(verifying, 0.0))
                self._control.settle(self._proposed, self._fed, tokens, times)
        self._forget_round()

    def _note(self, tokens: Sequence[int]) -> None:
        """For ``_tell``: these were committed after the lesson that was heard, if one was."""
        if self._heard is None and self._untold:
            self._untold[-1][1].extend(tokens)
            return
        self._untold.append((self._heard, list(tokens)))
        self._heard = None
        if len(self._untold) > _MOST_UNTOLD:
            self._tell()

    def _planned(self, control: Controller, limit: int) -> DraftTree:
        self._ask(control.cheap(limit))
        tree = self._merged(limit, control.acceptance.believe)
        plan = control.plan(tree)
        if (request := control.costly(plan, limit)) is not None:
            self._ask([request])
            tree = self._merged(limit, control.acceptance.believe)
            plan = control.plan(tree)
        return tree.first(plan.nodes)

    def _unplanned(self, limit: int) -> DraftTree:
        if self.rule != KEYED and (drawn := [tree for tree in self._proposed if tree.laws is not None]):
            # Whether a token is fed must not depend on which one was drawn, or it is no draw from its law.
            return fitted(self.rule, drawn[0].first(limit))
        return fitted(self.rule, self._merged(limit))

    def _ask(self, requests: Sequence[Request]) -> None:
        if requests:
            self._tell()
        for wanted in requests:
            self._each(partial(self._one, wanted), [one for one in self._drafters if one.name == wanted.name])

    def _one(self, wanted: Request, drafter: Drafter) -> None:
        began = self._now()
        tree = drafter.propose(wanted.limit, wanted.floor)
        if len(tree):
            self._proposed.append(tree)
        if self._control:
            self._control.asked(wanted.name, tree, self._now() - began)

    def _merged(self, limit: int, believe: Believe = lambda source, prob: prob) -> DraftTree:
        return merged(self._proposed, limit, believe) if self._proposed else EMPTY

    def _forget_round(self) -> None:
        self._proposed, self._fed, self._began, self._resting = [], EMPTY, None, False

    def _tell(self) -> None:
        untold, self._untold = self._untold, []

        def tell(drafter: Drafter) -> None:
            for lesson, tokens in untold:
                if lesson:
                    drafter.learn(*lesson)
                drafter.commit(tokens)

        if untold:
            self._each(tell)

    def _each(self, act: Callable[[Drafter], None], drafters: Sequence[Drafter] | None = None) -> None:
        for drafter in tuple(self._drafters if drafters is None else drafters):
            try:
                act(drafter)
            except Exception as error:  # whatever it is: decoding goes on without this drafter
                self._drafters.remove(drafter)
                if self._notice:
                    self._notice(f"drafter {drafter.name} failed and is off: {error}")
