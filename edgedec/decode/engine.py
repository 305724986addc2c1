"""The decoding loop: draft, run a pass, verify, commit.

Where it goes on: ``cached_sequence`` (committed tokens and cache), ``speculation`` (drafts), ``passes`` (how
they are cut, which never decides which tokens a token attends to), ``reply_plan`` (how tokens are drawn and
verified, and where a reply ends).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext

from edgedec.core.errors import DeviceLostError
from edgedec.core.forward import Forward
from edgedec.core.progress import Steps
from edgedec.core.tree import EMPTY
from edgedec.core_lib.reply import ReplyStart
from edgedec.decode.cached_sequence import CachedSequence
from edgedec.decode.checks import check_bias, check_newest, check_request, common_prefix
from edgedec.decode.passes import LONGEST_PASS, Passes, PassTime, PassTimer, Reader
from edgedec.decode.records import (
    NO_DETAILS,
    FinishReason,
    PassRecord,
    ReplyDetails,
    Step,
    Verdict,
)
from edgedec.decode.reply_plan import ReplyPlan
from edgedec.decode.speculation import Speculation, SpeculationRound
from edgedec.eviction.policy import Policy
from edgedec.grammar.constraint import Constraint
from edgedec.metrics.marks import CounterSnapshot
from edgedec.sampling import DrawParams
from edgedec.telemetry.energy.meter import Meter, Reading

__all__ = ["LONGEST_PASS", "Engine", "FinishReason", "PassRecord", "Step"]

_NO_LEASE = nullcontext()


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
        found = self.reusable(prompt)
        self._replies += 1
        if (
            found != self._forward.length or self._forward.caps.most_undone
        ):  # states note where a reply begins
            self._forward.rewind(found)
        if self.speculation:
            kept = common_prefix(self._committed, prompt)
            self.speculation.begin(prompt, kept, params=params, stop_ids=frozenset(stop_ids))
        self._committed = prompt
        end = min(len(prompt) + max_tokens, self.capacity)
        said = 0 if details.start is None else len(prompt) - min(max(details.start, 0), len(prompt))
        begins = ReplyStart(end, prompt, said, details.bound, frozenset(stop_ids))
        return self._run(ReplyPlan(self._replies, self.spec, params, begins, details), progress)

    def _run(self, reply: ReplyPlan, progress: Steps | None) -> Generator[Step, None, None]:
        try:
            while True:
                check_newest(reply.number, self._replies)
                for step in self._recovered_round(reply, progress):
                    check_newest(reply.number, self._replies)
                    self._committed.append(step.token)
                    reply.commit(step)
                    yield step
                    if step.finish_reason:
                        return
                progress = None  # it was about the prompt
        finally:
            if reply.number == self._replies and self._forward.length > len(self._committed):
                self._forward.rewind(len(self._committed))
            if reply.number == self._replies and self.speculation:
                self.speculation.end()

    def _recovered_round(self, reply: ReplyPlan, progress: Steps | None) -> list[Step]:
        """A round, begun again where a device was lost in it and another one goes on."""
        try:
            return self._round(reply, progress)
        except DeviceLostError as error:
            if not error.replaced:
                raise
        if self.speculation:
            self.speculation.begin(self._committed, len(self._committed))
        return self._round(reply, None)

    def _round(self, reply: ReplyPlan, progress: Steps | None) -> list[Step]:
        """Feed the tokens that the cache lacks and a draft behind it; returns the steps to commit."""
        position = len(self._committed)
        reader = self._reader()
        waiting, most = self._passes.catch_up(self._committed, progress, reader)
        last = len(waiting) - 1
        most = min(most, self._forward.caps.most_undone or most)
        draft = self._draft(last, min(reply.end - position, most) - 1, reply.grammar)
        tree = draft.tree if draft else EMPTY
        rows = reply.rows(last, len(tree), taps=reader.taps if reader else ())
        head, time = self._passes.run(waiting, tree, rows)
        self._passes.report(progress, self._committed)
        try:
            with self._drawing(reply):
                verdict, steps = reply.verify(tree, head, position)
            if len(tree):
                self._forward.keep_path(_kept(last, verdict))
        except BaseException:
            self._forward.rewind(min(position, self._forward.length))  # a device that was lost left nothing
            raise
        if draft:
            draft.settle(head, verdict, PassTime(None) if last else time)
        if reader and head.hidden is not None:
            kept = _kept(last, verdict)
            every = len(kept) == len(head.hidden)  # as of a prompt, which is too large to copy
            reader.read(position - last - 1, head.hidden if every else head.hidden[list(kept)])
        if self._passes.observe:
            fed = len(waiting) + len(tree)
            self._passes.observe(
                PassRecord(position - last - 1, fed, len(steps), time.seconds, len(tree), tree, verdict.path)
            )
        return steps

    def _drawing(self, reply: ReplyPlan) -> AbstractContextManager[object]:
        """Lease the memory that the draws of a round take, if they take any."""
        if not reply.drawing_bytes:
            return _NO_LEASE
        return self._forward.ledger.lease("rows", reply.drawing_bytes)

    def _reader(self) -> Reader | None:
        """Return where hidden states go; None where no drafter needs them or the model lacks some."""
        taps = self.speculation.taps if self.speculation else ()
        if not self.speculation or not taps or not set(taps) <= set(self._forward.caps.taps):
            return None
        return Reader(taps, self.speculation.read)

    def _draft(self, last: int, room: int, grammar: Constraint | None) -> SpeculationRound | None:
        """A draft of at most ``room`` tokens; an empty one behind more than the last committed token.

        It begins with the tokens that were peeked: the pass goes on from there.
        """
        if self.speculation is None:
            return None
        if last:
            return self.speculation.undrafted()
        draft = self.speculation.round(room, grammar)
        if (peeking := self._forward.peeking) is not None:
            draft.lead(peeking.peeked[1:])
        return draft


def _kept(last: int, verdict: Verdict) -> tuple[int, ...]:
    """The tokens of a pass that stay: committed ones up to ``last``, and the accepted of those behind it."""
    return (*range(last + 1), *(last + 1 + node for node in verdict.path))
