"""Speculation: drafters, the control over them, and the rounds that they draft for.

Drafts never change a token, only how many passes it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from edgedec.control import Controller, Costs, DraftAnswer, Query, Round, RoundTimes, Uncontrolled
from edgedec.control.tally import Tally
from edgedec.core.errors import DeviceLostError
from edgedec.core.progress import Notice
from edgedec.core.rows import FloatArray, HeadRows, tapped
from edgedec.core.tree import EMPTY, DraftTree
from edgedec.decode.constrained import GRAMMAR, forced_draft, permitted_only
from edgedec.decode.feedback import Feedback, PendingFeedback
from edgedec.decode.passes import PassTime
from edgedec.decode.records import Verdict
from edgedec.draft import Drafter, lookup_ahead
from edgedec.grammar.constraint import Constraint
from edgedec.sampling import DrawParams

__all__ = ["Speculation", "SpeculationRound", "Tally"]

Keep = Callable[[Mapping[int, float]], None]
"""Takes costs: tokens of a pass, seconds."""

_DRIFT = 0.15
"""Relative change of a cost since it was last kept that makes it worth keeping again."""


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
        self._drafters = list(drafters)
        self.limit = limit
        """Most tokens drafted for one pass."""
        self._costs = costs
        self._control: Controller | Uncontrolled = (
            Controller(
                self._costs,
                self.drafters,
                limit,
                peeking=[drafter.name for drafter in drafters if drafter.caps.peeks],
                pretrained=lambda name: (
                    name == GRAMMAR or any(one.pretrained for one in drafters if one.name == name)
                ),
            )
            if self._costs
            else Uncontrolled(self.drafters)
        )
        self._notice = notice
        self.now = clock or (lambda: 0.0)
        self._keep = keep
        self._kept_drift = 0.0
        self._pending = PendingFeedback()
        self.tally = Tally()

    @property
    def plain_s(self) -> float | None:
        """Seconds of a pass over one token, as measured; None where costs are not."""
        return self._costs.plain if self._costs else None

    @property
    def drafters(self) -> tuple[str, ...]:
        """Names of the drafters that have not been dropped."""
        return tuple(drafter.name for drafter in self._drafters)

    @property
    def remembering(self) -> dict[str, Drafter]:
        """The drafters, by name, whose knowledge can be kept."""
        return {drafter.name: drafter for drafter in self._drafters if drafter.caps.remembers}

    def judged(self) -> dict[str, list[list[int]]]:
        """Return ``control.Acceptance.counts``; nothing without costs, where drafts are not judged."""
        return self._control.measured.acceptance.counts() if isinstance(self._control, Controller) else {}

    def draft_at_most(self, tokens: int) -> None:
        """Lower ``limit`` for replies to come."""
        self.limit = min(self.limit, tokens)

    def drop(self, name: str) -> None:
        """Go on without the drafter of this name, if there is one."""
        for drafter in [one for one in self._drafters if one.name == name]:
            self._drafters.remove(drafter)
            self._control.drop(name)

    def nbytes(self) -> dict[str, int]:
        """Bytes held by each drafter."""
        return {drafter.name: drafter.nbytes() for drafter in self._drafters}

    def begin(
        self,
        tokens: Sequence[int],
        kept: int,
        *,
        params: DrawParams | None = None,
        stop_ids: Collection[int] = (),
    ) -> None:
        """Start a new sequence, which shares its first ``kept`` tokens with the one before.

        ``params``: how its reply is drawn; None: as before. ``stop_ids``: tokens that end it.
        """
        self._tell()
        self._control.begin(stop_ids)

        def begin(drafter: Drafter) -> None:
            if params is not None:
                drafter.sampled(params)
            drafter.begin(tokens, kept)

        self._each(begin)

    def ahead(self, tokens: Sequence[int], limit: int) -> list[int]:
        """At most ``limit`` tokens that may follow ``tokens``, all that was committed.

        A function of these tokens, whatever was drafted before: by the first drafter that looks ahead, or
        else by lookup.
        """
        self._tell()  # or else drafters would be told of tokens behind ``tokens``, which have them
        found: list[list[int]] = []
        able = [drafter for drafter in self._drafters if drafter.caps.looks_ahead]
        self._each(lambda drafter: found.append(drafter.ahead(tokens, limit)), able[:1])
        return found[0] if found else lookup_ahead(tokens, limit)

    def end(self) -> None:
        """The reply is over: tell drafters the rest of it, and keep costs that drifted."""
        self._tell()
        if self._costs and self._keep:
            drift = self._costs.drift
            if abs(drift - self._kept_drift) > _DRIFT:
                self._kept_drift = drift
                self._keep(self._costs.measured())

    def round(self, room: int, grammar: Constraint | None = None) -> SpeculationRound:
        """Draft at most ``room`` tokens to feed behind the last committed one, as ``grammar`` permits."""
        room = min(self.limit, room)
        control, certain = self._control.round(room), forced_draft(grammar, room)
        if control.resting and len(certain):
            return SpeculationRound(self, None, certain)
        return SpeculationRound(self, control, certain, grammar)

    def undrafted(self) -> SpeculationRound:
        """A round whose pass reads committed tokens, with no draft behind them."""
        return SpeculationRound(self, None)

    def query(self, query: Query) -> DraftAnswer | None:
        """Query one drafter; None when it failed and was dropped."""
        self._tell()
        answers: list[DraftAnswer] = []

        def ask(drafter: Drafter) -> None:
            began, read, passes = self.now(), drafter.bytes_read, drafter.passes
            tables = drafter.table_bytes
            tree = drafter.propose(query.limit, query.floor)
            seconds = self.now() - began
            answers.append(DraftAnswer(tree, self.price(seconds), drafter.peeked))
            effort = self.tally.effort(drafter.name)
            effort.queries += 1
            effort.proposed += len(tree)
            effort.draft_s += seconds
            effort.bytes_read += drafter.bytes_read - read
            effort.passes += drafter.passes - passes
            effort.table_bytes += drafter.table_bytes - tables

        self._each(ask, [drafter for drafter in self._drafters if drafter.name == query.name])
        return answers[0] if answers else None

    @property
    def wants_all_feedback(self) -> bool:
        """Whether a drafter needs the feedback of every round, also where no draft can pay."""
        return any(drafter.caps.every_round for drafter in self._drafters)

    @property
    def taps(self) -> tuple[int, ...]:
        """Layers of the target whose outputs drafters need, ascending."""
        return tuple(sorted({tap for drafter in self._drafters for tap in drafter.taps}))

    def read(self, start: int, hidden: FloatArray) -> None:
        """Tell drafters the outputs of the layers ``taps`` for committed tokens; see ``Drafter.read``."""
        taps = self.taps

        def tell(drafter: Drafter) -> None:
            began = self.now()
            drafter.read(start, tapped(hidden, taps, drafter.taps))
            self.tally.effort(drafter.name).learn_s += self.now() - began

        self._each(tell, [drafter for drafter in self._drafters if drafter.taps])

    def passing(self, time: PassTime, tokens: int) -> float | None:
        """The cost of a pass over ``tokens``, with the reads that are expected of it; None: not measured."""
        if time.seconds is None or not self._costs:
            return time.seconds
        return self.price(self._costs.expected(tokens, time.seconds, time.read), tokens)

    def price(self, seconds: float, tokens: int = 1) -> float:
        """The cost of ``seconds``, of drafting or of a pass over ``tokens``, in the unit of the costs."""
        return self._costs.price(seconds, tokens) if self._costs else seconds

    def foresee(self, committed: int, fed: int, pass_cost: float) -> None:
        """Add a round to the forecast of time, which commits tokens in a pass over ``fed`` tokens."""
        if self._costs and not self._costs.level_is_old:
            pass_s, plain_s = pass_cost / self.price(1.0, fed), self._costs.plain / self.price(1.0)
            self.tally.forecast.add(committed, pass_s, plain_s)

    def note(self, feedback: Feedback | None, tokens: Sequence[int]) -> None:
        """Note the feedback of a round, if it has one, and the tokens it committed."""
        self._pending.add(feedback, tokens)
        if self._pending.full:
            self._tell()

    def _tell(self) -> None:
        rounds = self._pending.take()

        def tell(drafter: Drafter) -> None:
            began = self.now()
            for feedback, tokens in rounds:
                if feedback:
                    drafter.observe(feedback.tree, feedback.rows)
                drafter.commit(tokens)
            self.tally.effort(drafter.name).learn_s += self.now() - began

        if rounds:
            self._each(tell)

    def _each(self, act: Callable[[Drafter], None], drafters: Sequence[Drafter] | None = None) -> None:
        for drafter in tuple(self._drafters if drafters is None else drafters):
            try:
                act(drafter)
            except DeviceLostError:  # the target's, where it drafts itself: the engine begins the round again
                raise
            except Exception as error:  # whatever it is: decoding goes on without this drafter
                self.drop(drafter.name)
                if self._notice:
                    self._notice(f"drafter {drafter.name} failed and is off: {error}")


class SpeculationRound:
    """One round: ``tree`` is its draft; ``settle`` takes its result, once."""

    def __init__(
        self,
        speculation: Speculation,
        control: Round | None,
        certain: DraftTree = EMPTY,
        grammar: Constraint | None = None,
    ) -> None:
        """``certain``: a draft that takes no query. ``grammar`` leaves out tokens of drafters' answers."""
        self.tree: DraftTree = certain
        self._speculation = speculation
        self._control = control
        self._drafts = control is not None and not control.resting
        """Whether drafters may be queried; if not, the clock is not read either."""
        if control and self._drafts:
            self._began = speculation.now()
            query = permitted_only(grammar, speculation.query) if grammar else speculation.query
            self.tree = control.draft(query, certain)
            self._ready = speculation.now()

    def lead(self, tokens: Sequence[int]) -> None:
        """Let ``tree`` begin with the path that spells ``tokens``, as far as it has one."""
        self.tree = self.tree.led_by(tokens)

    def settle(self, rows: HeadRows, verdict: Verdict, time: PassTime) -> None:
        """Note that the target answered ``rows`` to the last committed token and ``tree``, and the verdict.

        ``time``: that of the pass.
        """
        seconds = time.seconds or 0.0
        speculation, control = self._speculation, self._control
        verified = speculation.now() if self._drafts else 0.0
        speculation.tally.add(self.tree, verdict.path, len(verdict.tokens), seconds)
        wanted = control is None or not control.unprofitable or speculation.wants_all_feedback
        speculation.note(Feedback(self.tree, rows) if wanted else None, verdict.tokens)
        if control is None:
            return
        fed = 1 + len(self.tree)
        speculation.foresee(len(verdict.tokens), fed, control.pass_s)
        passing = speculation.passing(time, fed)
        # Drafts answer for the reads that they caused; expectations are learned apart.
        luck = 0.0 if passing is None else speculation.price(time.seconds or 0.0, fed) - passing
        times = RoundTimes(passing, luck=luck)
        if self._drafts:
            drafting = self._ready - self._began + speculation.now() - verified
            speculation.tally.draft_s += drafting
            verifying = max(verified - self._ready - seconds, 0.0)
            times = RoundTimes(passing, speculation.price(drafting), speculation.price(verifying), luck)
        control.settle(verdict.tokens, times)
