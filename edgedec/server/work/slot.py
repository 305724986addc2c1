"""A sequence of the KV cache with the thread that computes its replies."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

from edgedec.core.errors import GrammarError, UsageError
from edgedec.metrics.marks import CounterSnapshot, Marks
from edgedec.server.work.request import GenerationRequest, Piece, TracedToken, Usage
from edgedec.server.work.ticket import SampleJob
from edgedec.session.reply import Reply
from edgedec.text.tokenizer import StreamDecoder

if TYPE_CHECKING:
    from edgedec.core.model_spec import ModelSpec
    from edgedec.server.work.intake import ReplyInputs
    from edgedec.server.work.slot_tools import SlotTools
    from edgedec.session.token_logprob import TokenLogprob
    from edgedec.text.tokenizer import Tokenizer


class Slot:
    """Computes one sample at a time in a thread of its own.

    ``begun`` is called when the first text of a sample is there; ``ended`` when the slot is free again, just
    before the reader hears of the end.
    """

    def __init__(
        self,
        number: int,
        tools: SlotTools,
        begun: Callable[[SampleJob], None],
        ended: Callable[[Slot, SampleJob, Usage], None],
    ) -> None:
        self.number = number
        self.engine = tools.engine
        self.job: SampleJob | None = None
        """The sample that it computes; None when it is free. The scheduler changes it."""
        self.used = 0
        self.since_s = 0.0
        self._tools = tools
        self._begun = begun
        self._ended = ended
        self._given: SimpleQueue[SampleJob | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name=f"slot {number}", daemon=True)
        self._thread.start()

    def start(self, job: SampleJob) -> None:
        """Compute ``job``, whose ticket has its inputs."""
        self._given.put(job)

    def stop(self, timeout_s: float) -> bool:
        """End the thread after the sample in progress; whether it ended in time."""
        self._given.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (job := self._given.get()) is not None:
            reason, usage, stop = "interrupted", Usage(), None
            try:
                reason, usage, stop = self._compute(job)
            except Exception as error:  # the reader gets it, in another thread
                if not isinstance(error, UsageError | GrammarError):  # those leave the cache as it was
                    self.engine.reset()
                job.ticket.fail(error)
            self._ended(self, job, usage)
            job.ticket.end(job, reason, usage, stop)
            del job

    def _compute(self, job: SampleJob) -> tuple[str, Usage, str | None]:
        tools, ticket, inputs = self._tools, job.ticket, job.ticket.inputs
        assert inputs is not None
        queue_s = max(time.perf_counter() - ticket.arrived_s, 0.0)
        shared = tools.share()
        found = tools.prefixes.fetch(self.engine.home, inputs.prompt) if tools.prefixes else 0
        reply = Reply(self.engine, tools.tokenizer, inputs.start, inputs.settings_of(job.number))
        ticket.runs(job, reply)
        try:
            self._stream(job, reply)
        except GrammarError:
            if not reply.cut:  # the reason for its end says so to the client
                raise
        usage = replace(self._usage(reply, queue_s, shared), disk_tokens=found)
        return _reason(reply, inputs), usage, reply.stop

    def _stream(self, job: SampleJob, reply: Reply) -> None:
        """Hand the reader the text of each pass as one piece."""
        ticket, text = job.ticket, ""
        assert isinstance(ticket.request, GenerationRequest)
        trace = _Trace(reply, self._tools.tokenizer, self.engine.home.spec, ticket.request.logprobs)
        try:
            with self._tools.turn():
                for part in reply:
                    text += part
                    if reply.sources[-1:] != [None]:  # the target's own token is the last one of a pass
                        continue
                    ticket.put(Piece(job.number, text, trace.tokens()))
                    text = ""
                    if not job.begun:
                        job.begun = True
                        self._begun(job)
                        if prefixes := self._tools.prefixes:
                            prefixes.keep_reply(self.engine.home, reply)
        finally:
            tokens = trace.tokens()
            if text or tokens:
                ticket.put(Piece(job.number, text, tokens))

    def _usage(self, reply: Reply, queue_s: float, shared: float) -> Usage:
        stats, marks = reply.stats, reply.marks
        joules = None
        if marks:
            own = marks.start.work.passes + self._tools.share() - shared
            end = replace(marks.end, work=marks.end.work._replace(passes=own))
            joules = self._tools.measures.estimated(Marks(marks.start, marks.start, end), stats).joules
        return Usage(
            prompt_tokens=stats.prompt_tokens,
            cached_tokens=stats.reused_tokens,
            completion_tokens=stats.completion_tokens,
            drafted_tokens=sum(source is not None for source in reply.sources),
            queue_s=queue_s,
            prefill_s=stats.prefill_s,
            decode_s=stats.decode_s,
            passes=_passes(marks.first, marks.end) + 1 if marks else 0,
            joules=joules,
        )


class _Trace:
    """The tokens of a reply with their texts, as they come."""

    def __init__(self, reply: Reply, tokenizer: Tokenizer, spec: ModelSpec, alternatives: int | None) -> None:
        self._reply = reply
        self._decoder = StreamDecoder(tokenizer)
        for token in reply.start.tokens:
            self._decoder.push(token)
        self._ends = reply.start.ends.union(spec.eos_ids)
        self._alternatives = alternatives
        self._count = 0

    def tokens(self) -> tuple[TracedToken, ...]:
        """Return the tokens since the last call, without the end token."""
        if not self._count and self._reply.start.held:
            self._decoder.go_on(self._reply.overlap)
        first, self._count = self._count, len(self._reply.tokens)
        return tuple(
            self._traced(at) for at in range(first, self._count) if self._reply.tokens[at] not in self._ends
        )

    def _traced(self, at: int) -> TracedToken:
        reply, token = self._reply, self._reply.tokens[at]
        logprob = self._logprob(at) if self._alternatives is not None else None
        return TracedToken(token, self._decoder.push(token), reply.sources[at], logprob)

    def _logprob(self, at: int) -> TokenLogprob:
        found = self._reply.logprobs[at]
        return found if self._alternatives else replace(found, top=())


def _passes(start: CounterSnapshot, end: CounterSnapshot) -> int:
    return int(end.work.passes - start.work.passes)


def _reason(reply: Reply, inputs: ReplyInputs) -> str:
    """Return the reason for a reply's end; the server's limit on tokens is no end of the context."""
    limited = inputs.start.room is not None and len(reply.tokens) == inputs.start.room
    reason = reply.finish_reason or "interrupted"
    return "length" if reason == "context" and limited else reason
