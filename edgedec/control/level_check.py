"""Checks of the machine's speed, so that a round is charged by a plain pass under the same load.

A round costs its time over that of a plain pass. Where the machine becomes slower between them, the round
seems to cost too much, and what may be lost is used up by drafts that pay. So a round in which a pass
deviates, or a call that makes a part of it, is held back: plain passes come next, which lose nothing, and it
is settled by their level. Checks that find the old level become rare. Costly drafters with a model of their
own need none: where their calls and the pass take longer alike, it is the machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from edgedec.control.costs import USUAL_SPREAD, Costs

_FIRST_WAIT, _MOST_WAIT = 4, 256
"""Rounds from a check in vain to the next one, at first and at most."""

Settle = Callable[[float], None]
"""Settles a round whose times count so many times as measured."""


class LevelCheck:
    """Watches the times of calls and passes; ``changed`` hears by which ratio all of them have changed."""

    def __init__(self, costs: Costs, changed: Callable[[float], None]) -> None:
        self._costs = costs
        self._changed = changed
        self._deviated = self._first_call = False
        """Whether a time of this round did, and whether it has the first call of a costly drafter."""
        self._held: list[tuple[Settle, bool]] = []
        """Rounds held back, and whether they deviated."""
        self._level = 0.0
        """Seconds of a plain pass before the check under way; 0: there is none."""
        self._learning = False
        """Whether the check under way was made for a first call."""
        self._wait = _FIRST_WAIT
        self._next = 0

    def saw(self, seconds: float, usual: float) -> None:
        """Note a call or a pass that usually takes ``usual`` seconds."""
        longer = seconds > (1.0 + USUAL_SPREAD) * usual
        self._deviated = self._deviated or longer or seconds * (1.0 + USUAL_SPREAD) < usual

    def saw_first_call(self) -> None:
        """Note the first call of a drafter that peeks, which nothing shows to be longer than before."""
        self._first_call = True

    def settle(self, turn: int, settle: Settle) -> None:
        """Settle round ``turn``, now or when the level is known."""
        deviated = self._deviated
        if self._due(turn) and self._doubt():
            self._held.append((settle, deviated))
        else:
            settle(1.0)

    def take(self, tokens: int, seconds: float) -> None:
        """Take the level from a pass over ``tokens``, where only that of an earlier process is known."""
        before = self._costs.plain
        self._costs.observe(tokens, seconds)
        self._changed(self._costs.plain / before)

    def plain(self, turn: int, seconds: float) -> None:
        """Observe a pass over one token, in round ``turn``."""
        if self._costs.level_is_old and not self._level:
            self.take(1, seconds)
            return
        if not self._costs.level_is_old:
            self.saw(seconds, self._costs.plain)
            if self._due(turn):
                self._doubt()
        self._costs.observe(1, seconds)
        if self._level and not self._costs.level_is_old:
            self._conclude(turn)

    def _due(self, turn: int) -> bool:
        due = self._first_call or (self._deviated and turn >= self._next)
        self._learning = self._first_call
        self._deviated = self._first_call = False
        return due

    def _doubt(self) -> bool:
        level = self._costs.plain
        if self._costs.doubt_level():
            self._level = level
        return bool(self._level)

    def _conclude(self, turn: int) -> None:
        """Settle the rounds held back: those that ran at the old level, as if they had run at this one."""
        ratio = self._costs.plain / self._level
        changed = abs(math.log(ratio)) > math.log(1.0 + USUAL_SPREAD)
        if changed:
            self._changed(ratio)
        if changed or self._learning:
            self._wait = _FIRST_WAIT
        else:
            self._wait = min(2 * self._wait, _MOST_WAIT)
            self._next = turn + self._wait
        held, self._held, self._level = self._held, [], 0.0
        for settle, deviated in held:
            settle(ratio if changed and not deviated else 1.0)
