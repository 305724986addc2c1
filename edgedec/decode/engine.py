"""The decoding loop: plan a pass, run it, verify its draft, settle the round.

The core (kernels/core/decode/engine.h) plans, verifies and settles. Here passes are run, and the cache
follows: ``cached_sequence`` (committed tokens and cache), ``speculation`` (what drafters answer), ``passes``
(their time and counts), ``reply_plan`` (the settings of a reply).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from functools import partial
from typing import cast

from edgedec.core.errors import DeviceLostError
from edgedec.core.forward import Forward
from edgedec.core.progress import Steps
from edgedec.core.rows import HeadRows
from edgedec.core.tree import EMPTY, ROOT, DraftTree
from edgedec.core_lib.engine import CoreEngine, Planned, ReplyStart, Verified
from edgedec.decode.cached_sequence import CachedSequence
from edgedec.decode.checks import check_bias, check_newest, check_request, common_prefix
from edgedec.decode.passes import LONGEST_PASS, Passes, PassTime, PassTimer
from edgedec.decode.records import NO_DETAILS, FinishReason, PassRecord, ReplyDetails, Step
from edgedec.decode.reply_plan import ReplyPlan
from edgedec.decode.speculation import Speculation
from edgedec.decode.turn_ends import turn_ends
from edgedec.eviction.policy import Policy
from edgedec.metrics.marks import CounterSnapshot
from edgedec.sampling import DrawParams
from edgedec.telemetry.energy.meter import Meter, Reading

__all__ = ["LONGEST_PASS", "Engine", "FinishReason", "PassRecord", "Step"]

_NO_SOURCE = (None,)


class Engine(CachedSequence):
    """Generates tokens with one model.

    ``speculation`` drafts; ``observe`` sees a record of every pass, timed if there is a ``timer``; ``policy``
    evicts tokens when the cache is full, which otherwise ends a reply. ``meter`` is read by ``mark`` alone.
    """

    def __init__(
        self,
        forward: Forward,
        *,
        speculation: Speculation | None = None,
        observe: Callable[[PassRecord], None] | None = None,
        timer: PassTimer | None = None,
        policy: Policy | None = None,
        meter: Meter | None = None,
    ) -> None:
        super().__init__(forward, policy, speculation)
        self._passes = Passes(forward, policy, observe, timer)
        self._meter = meter
        self._stops_at: list[int] = []
        """Places of the prompt at which passes end, so that states can go back there."""

    def mark(self) -> CounterSnapshot:
        """Return the counts of passes, drafters and energy up to now."""
        reading = Reading.of(self._meter) if self._meter else None
        # A copy: a batch asks from another thread than that of the reply.
        efforts = tuple(self.speculation.tally.by_drafter.values()) if self.speculation else ()
        read, tables = sum(one.bytes_read for one in efforts), sum(one.table_bytes for one in efforts)
        return CounterSnapshot(self._passes.work, read, tables, reading)

    def generate(
        self,
        prompt_ids: Sequence[int],
        params: DrawParams,
        *,
        max_tokens: int,
        stop_ids: Collection[int],
        progress: Steps | None = None,
        details: ReplyDetails = NO_DETAILS,
    ) -> Generator[Step, None, None]:
        """Continue ``prompt_ids``; yields one Step per committed token, the last with a ``finish_reason``.

        - "stop": the token is in ``stop_ids``; it is committed too. Or nothing may follow in the grammar of
          ``details``.
        - "length": ``max_tokens`` or the end of the context is reached.

        ``progress(done, total)`` counts the prompt's tokens as they are fed. Each step has its ``details``.
        Tokens that the prompt shares with ``committed`` are not computed again. Raises the errors of
        ``check_request``, before anything changes; BackendError and others from the model while it runs.
        """
        prompt = list(prompt_ids)
        check_request(
            prompt, self.spec, max_tokens=max_tokens, capacity=self.capacity, logprobs=details.logprobs
        )
        check_bias(params, self.spec)
        found, kept = self.reusable(prompt), common_prefix(self._committed, prompt)
        self._begin_anew(prompt[:found])
        if (
            found != self._forward.length or self._forward.caps.most_undone
        ):  # states note where a reply begins
            self._forward.rewind(found)
        stops = frozenset(stop_ids)
        if self.speculation:
            self.speculation.begin(prompt, kept, params=params, stop_ids=stops, grammar=details.grammar)
        self._committed = prompt
        places = partial(_places, prompt, self.spec.eos_ids)
        stops_at = places() if self._forward.snapshots else []
        self._forward.expect(places)
        self._stops_at = [at for at in stops_at if at > self._forward.length]
        end = min(len(prompt) + max_tokens, self.capacity)
        said = 0 if details.start is None else len(prompt) - min(max(details.start, 0), len(prompt))
        start = ReplyStart(end, prompt, said, details.bound, stops)
        ledger = self._forward.ledger
        return self._run(ReplyPlan(self._replies, self._core(), params, start, details, ledger), progress)

    def _core(self) -> CoreEngine:
        """A loop of the core, for one reply."""
        peeked = partial(_peeked, self._forward) if self._forward.peeking else None
        if self.speculation is None:
            return CoreEngine(self.spec, peeked=peeked)
        return CoreEngine(self.spec, self.speculation.core, self.speculation.limit, peeked)

    def _run(self, reply: ReplyPlan, progress: Steps | None) -> Generator[Step, None, None]:
        try:
            while True:
                if reply.number != self._replies:
                    check_newest(reply.number, self._replies)
                try:
                    steps = self._round(reply, progress)
                except DeviceLostError as error:
                    if not error.replaced:
                        raise
                    steps = []
                for step in steps or self._round_again(reply):
                    if reply.number != self._replies:
                        check_newest(reply.number, self._replies)
                    self._committed.append(step.token)
                    if reply.grammar:
                        reply.commit(step.token)
                    yield step
                    if step.finish_reason:
                        return
                progress = None  # it was about the prompt
        finally:
            reply.end()
            if reply.number == self._replies and self._forward.length > len(self._committed):
                self._forward.rewind(len(self._committed))
            if reply.number == self._replies and self.speculation:
                self.speculation.end()

    def _round_again(self, reply: ReplyPlan) -> list[Step]:
        """Begin a round again in which a device was lost; another one goes on."""
        if self.speculation:
            self.speculation.begin(self._committed, len(self._committed))
        return self._round(reply, None)

    def _round(self, reply: ReplyPlan, progress: Steps | None) -> list[Step]:
        """Feed the tokens that the cache lacks and a draft behind it; returns the steps to commit."""
        forward, passes, speculation, core = self._forward, self._passes, self.speculation, reply.core
        taps = self._taps(speculation.taps) if speculation and speculation.taps else ()
        while True:
            caps = forward.caps
            most = caps.max_pass if self.policy is None else passes.longest(self._committed)
            if len(self._stops_at) > 1:  # the last one is the end of the prompt
                most = min(most, self._stops_at[0] - forward.length)
            planned = core.plan(forward.length, most, caps.most_undone)
            head, time = passes.run(planned, reply.rows(planned, taps))
            if self._stops_at and forward.length >= self._stops_at[0]:
                forward.snapshot()
                del self._stops_at[0]
            told = passes.observe is not None or head.hidden is not None
            if planned.piece and told:
                self._settled(reply, planned, None, head, time)
            if progress:
                passes.report(progress, self._committed)
            if not planned.piece:
                break
            del head  # the memory of its hidden states is planned for the next pass
        position, drafted = len(self._committed), planned.parents is not None
        try:
            found = reply.verified(head, None if drafted else time)
            names = speculation.sources(found.writers) if speculation else _NO_SOURCE
            steps = reply.steps(found, head, position, names)
            if drafted:
                forward.keep_path(_kept(planned, found.path))
        except BaseException:
            head.free()
            forward.rewind(min(position, forward.length))  # a device that was lost left nothing
            raise
        if drafted:
            core.settle(*time)
        if told:
            self._settled(reply, planned, found, head, time)
        return steps

    def _settled(
        self, reply: ReplyPlan, planned: Planned, found: Verified | None, head: HeadRows, time: PassTime
    ) -> None:
        """Hand out the hidden states of a pass, and its record."""
        fed, waiting, path = len(planned.tokens), planned.waiting, found.path if found else []
        start = len(self._committed) - waiting
        if planned.piece:
            start = self._forward.length - fed
        if head.hidden is not None and self.speculation:
            kept = _kept(planned, path)
            every = len(kept) == fed  # as of a prompt, which is too large to copy
            self.speculation.read(start, head.hidden if every else head.hidden[kept])
        if self._passes.observe:
            committed, tree = len(found.tokens) if found else 0, EMPTY
            if planned.parents:
                probs, writers = reply.core.drafted()
                parents = tuple(max(parent - waiting, ROOT) for parent in planned.parents[waiting:])
                assert self.speculation is not None, "it drafted"
                names = cast(tuple[str, ...], self.speculation.sources(writers))
                tree = DraftTree(tuple(planned.tokens[waiting:]), parents, tuple(probs), names)
            self._passes.observe(
                PassRecord(start, fed, committed, time.seconds, len(tree), tree, tuple(path))
            )

    def _taps(self, wanted: tuple[int, ...]) -> tuple[int, ...]:
        """Return the layers whose outputs drafters read; none where the model lacks some."""
        return wanted if set(wanted) <= set(self._forward.caps.taps) else ()


def _places(prompt: Sequence[int], end_ids: Collection[int]) -> list[int]:
    """Return how many tokens lie before the places of a prompt that later ones may go on from."""
    return [*turn_ends(prompt, end_ids), len(prompt)]


def _peeked(forward: Forward) -> Sequence[int]:
    """The tokens that were peeked for the next pass."""
    return forward.peeking.peeked if forward.peeking else ()


def _kept(planned: Planned, path: Sequence[int]) -> list[int]:
    """The tokens of a pass that stay: the committed ones, and the accepted ones behind them."""
    waiting = planned.waiting
    return [*range(waiting), *(waiting + node for node in path)]
