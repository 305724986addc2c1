"""The decoding loop: draft, run a pass, verify, commit.

``Engine.committed`` is the one truth, the token sequence. The model's cache follows it and may lag behind;
the next pass feeds what it lacks. Whatever happens in between (the caller closes the iterator, a pass fails,
Ctrl-C), the cache holds a prefix of ``committed``. Only while the tokens of one pass are handed out can it be
ahead.

With an eviction ``Policy`` tokens leave a full cache, which then holds such a prefix without the evicted
ones. How passes are cut never decides which tokens a token attends to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence

from edgedec.core.forward import Forward, Source
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import HeadRows, Rows
from edgedec.core.tree import EMPTY, DraftTree
from edgedec.decode.checks import check_newest, check_request, common_prefix
from edgedec.decode.logprobs import logprob_of, need_whole_rows
from edgedec.decode.passes import LONGEST_PASS, Passes
from edgedec.decode.records import FinishReason, PassRecord, Progress, ReplyPlan, Step
from edgedec.decode.speculation import Speculation, SpeculationRound
from edgedec.decode.verdicts import verdict_on
from edgedec.eviction.policy import Policy
from edgedec.sampling import Occurred, SamplingParams, drawing_bytes, head_temperature, needs_logits
from edgedec.verify import Verdict

__all__ = ["LONGEST_PASS", "Engine", "FinishReason", "PassRecord", "Progress", "Step"]


class Engine:
    """Generates tokens with one model.

    ``speculation`` drafts; ``observe`` sees a record of every pass, timed if there is a ``clock`` (seconds);
    ``policy`` evicts tokens when the cache is full, which otherwise ends a reply.
    """

    def __init__(
        self,
        forward: Forward,
        *,
        speculation: Speculation | None = None,
        observe: Callable[[PassRecord], None] | None = None,
        clock: Callable[[], float] | None = None,
        policy: Policy | None = None,
    ) -> None:
        self.policy = policy
        self._forward = forward
        self._ledger = forward.ledger
        self._speculation = speculation
        self._passes = Passes(forward, policy, observe, clock)
        self._replies = 0
        self._committed: list[int] = []
        forward.rewind(0)

    @property
    def spec(self) -> ModelSpec:
        return self._forward.spec

    @property
    def committed(self) -> Sequence[int]:
        """The token sequence: prompt and reply. Not to be changed by callers."""
        return self._committed

    @property
    def capacity(self) -> int:
        """Most tokens ``committed`` can have."""
        return self.policy.limit if self.policy else self._forward.capacity

    @property
    def slots(self) -> int:
        """Most tokens the cache can hold."""
        return self._forward.capacity

    @property
    def portable(self) -> Forward | None:
        """The cache, if it can be written to a file."""
        return self._forward if self._forward.caps.portable else None

    def reusable(self, prompt_ids: Sequence[int]) -> int:
        """Count the tokens of a prompt that the cache holds. The last one is always fed, for its logits."""
        common = min(common_prefix(self._committed, prompt_ids), self._forward.length, len(prompt_ids) - 1)
        resident = self.policy.resident(common) if self.policy else common
        return self._forward.reachable(max(resident, 0))

    def reset(self) -> None:
        """Forget the sequence and empty the cache, also after a pass that failed."""
        self._replies += 1
        self._committed = []
        self._forward.rewind(0)

    def adopt(self, tokens: Sequence[int]) -> None:
        """Take ``tokens`` for committed: somebody else fed them to the cache.

        Raises ValueError when the cache does not hold as many tokens.
        """
        if len(tokens) != self._forward.length:
            raise ValueError(f"{len(tokens)} tokens for a cache that holds {self._forward.length}")
        self._replies += 1
        self._committed = list(tokens)
        if self._speculation:
            self._speculation.begin(self._committed, 0)

    def resume(self, tokens: Sequence[int], source: Source) -> None:
        """Read the cache of ``tokens`` from ``source`` and go on as if they had just been fed.

        Raises what ``Forward.read_cache`` does, with nothing committed then; ValueError when the cache
        is not ``portable``.
        """
        if (cache := self.portable) is None:
            raise ValueError("this model's cache cannot be read from a file")
        self._replies += 1
        self._committed = []
        cache.read_cache(source, len(tokens))
        self.adopt(tokens)

    def generate(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        max_tokens: int,
        stop_ids: Collection[int],
        progress: Progress | None = None,
        logprobs: int | None = None,
    ) -> Generator[Step, None, None]:
        """Continue ``prompt_ids``; yields one Step per committed token, the last with a ``finish_reason``.

        - "stop": the token is in ``stop_ids``; it is committed too.
        - "length": ``max_tokens`` or the end of the context is reached.

        ``progress(done, total)`` counts the prompt's tokens as they are fed. With ``logprobs`` of 1 or more
        each step has the log-probability of its token and the ``logprobs`` best ones. Tokens that the prompt
        shares with ``committed`` are not computed again. Raises what ``check_request`` does, before anything
        changes; BackendError and others from the model while it runs.
        """
        prompt = list(prompt_ids)
        check_request(
            prompt, self.spec, max_tokens=max_tokens, capacity=self.capacity, logprobs=logprobs or 0
        )
        self._forward.rewind(self.reusable(prompt))
        if self._speculation:
            kept = common_prefix(self._committed, prompt)
            self._speculation.begin(prompt, kept, params=params, stop_ids=frozenset(stop_ids))
        self._committed = prompt
        self._replies += 1
        end = min(len(prompt) + max_tokens, self.capacity)
        occurred = Occurred(prompt if params.repetition_penalty != 1.0 else ())
        reply = ReplyPlan(self._replies, params, end, frozenset(stop_ids), logprobs or None, occurred)
        return self._run(reply, progress)

    def _run(self, reply: ReplyPlan, progress: Progress | None) -> Generator[Step, None, None]:
        try:
            while True:
                check_newest(reply.number, self._replies)
                for step in self._round(reply, progress):
                    check_newest(reply.number, self._replies)
                    self._committed.append(step.token)
                    reply.commit(step.token)
                    yield step
                    if step.finish_reason:
                        return
                progress = None  # it was about the prompt
        finally:
            if reply.number == self._replies and self._forward.length > len(self._committed):
                self._forward.rewind(len(self._committed))
            if reply.number == self._replies and self._speculation:
                self._speculation.end()

    def _round(self, reply: ReplyPlan, progress: Progress | None) -> list[Step]:
        """Feed what the cache lacks and a draft behind it; returns the steps to commit."""
        waiting, most = self._passes.catch_up(self._committed, progress)
        last = len(waiting) - 1
        draft = self._draft(last, min(reply.end - len(self._committed), most) - 1)
        tree = draft.tree if draft else EMPTY
        head, seconds = self._passes.run(waiting, tree, self._rows(reply, last, tree))
        self._passes.report(progress, self._committed)
        try:
            verdict = self._verdict(reply, tree, head)
            if len(tree):
                self._forward.keep_path((*range(last + 1), *(last + 1 + node for node in verdict.path)))
        except BaseException:
            self._forward.rewind(len(self._committed))
            raise
        if draft:
            draft.settle(head, verdict, None if last else seconds)
        start, fed = len(self._committed) - last - 1, len(waiting) + len(tree)
        record = PassRecord(start, fed, len(verdict.tokens), seconds, len(tree), tree, verdict.path)
        self._passes.record(record)
        return self._steps(reply, verdict, tree, head)

    def _draft(self, last: int, room: int) -> SpeculationRound | None:
        """A draft of at most ``room`` tokens; an empty one behind more than the last committed token."""
        if self._speculation is None:
            return None
        return self._speculation.undrafted() if last else self._speculation.round(room)

    def _rows(self, reply: ReplyPlan, last: int, tree: DraftTree) -> Rows:
        """Head rows of the last committed token and of every drafted one."""
        params = reply.params
        whole = needs_logits(params, self.spec.head_k)
        if reply.logprobs is not None:
            whole = whole or need_whole_rows(params)
        indices = tuple(range(last, last + 1 + len(tree)))
        return Rows(indices, full=whole, temperature=head_temperature(params))

    def _verdict(self, reply: ReplyPlan, tree: DraftTree, head: HeadRows) -> Verdict:
        """The tokens to commit, none behind the end of the reply."""
        drawing = self.spec.vocab_size * drawing_bytes(reply.params, self.spec.head_k)
        rule = self._speculation.rule if self._speculation else None
        with self._ledger.lease("rows", drawing):
            verdict = verdict_on(tree, head, reply, len(self._committed), rule, self.spec.vocab_size)
        return verdict.until(reply.stop_ids, reply.end - len(self._committed))

    def _steps(self, reply: ReplyPlan, verdict: Verdict, tree: DraftTree, head: HeadRows) -> list[Step]:
        steps = []
        sources = [*(tree.sources[node] for node in verdict.path), None]
        nodes = (-1, *verdict.path)
        for at, token in enumerate(verdict.tokens):
            position = len(self._committed) + at
            reason: FinishReason | None = "length" if position + 1 == reply.end else None
            if token in reply.stop_ids:
                reason = "stop"
            if reply.logprobs is None:
                steps.append(Step(token, position, reason, sources[at]))
            else:
                found = logprob_of(head, nodes[at] + 1, token, reply.logprobs)
                steps.append(Step(token, position, reason, sources[at], *found))
        return steps
