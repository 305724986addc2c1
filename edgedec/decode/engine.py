"""The loop: propose, extend, verify, commit, observe.

``Engine.committed`` is the one truth, the token sequence. The model's cache follows it and may lag behind;
what it lacks is fed by the next pass. Whatever happens in between (the caller closes the iterator, a pass
fails, Ctrl-C), the cache holds a prefix of ``committed``; only while the tokens of one pass are being handed
out can it be ahead of it.

With a ``Policy`` tokens leave a full cache, which then holds such a prefix but for the gap that they left;
how passes are cut never decides which tokens a token sees.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import ContextFullError, UsageError
from edgedec.core.forward import Forward, PortableCache, Source
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import HeadRows, Rows
from edgedec.core.tree import EMPTY, DraftTree
from edgedec.decode.speculation import Speculation
from edgedec.eviction.policy import Policy
from edgedec.memory.ledger import ledger_of
from edgedec.sampling import SamplingParams, draw, drawing_bytes, head_temperature, law, needs_logits
from edgedec.verify import KEYED, Choose, SeededChance, Verdict, classical, keyed

FinishReason = Literal["stop", "length"]
Progress = Callable[[int, int], None]

LONGEST_PASS = 128
"""A reply can be stopped between passes; twice as many tokens take twice as long, not less per token."""

_NO_ROWS = Rows(indices=())

Sourced = tuple[int, str | None]
"""A token and who drafted it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One committed token, its absolute position, and why it is the last one if it is.

    ``source`` names who drafted it; None: the target's own, which ends each round.
    """

    token: int
    position: int
    finish_reason: FinishReason | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class PassRecord:
    """What one pass did: tokens fed from ``start`` on, tokens committed from it, and its time if clocked.

    The last ``drafted`` of the tokens fed were guesses: ``tree``, of which the nodes of ``path`` were right.
    """

    start: int
    fed: int
    committed: int
    seconds: float | None
    drafted: int = 0
    tree: DraftTree = EMPTY
    path: tuple[int, ...] = ()


class Engine:
    """Generates tokens with one model. ``observe`` sees every pass, timed if there is a ``clock`` (in s).
    ``policy``: what is done when the cache is full, where that is not the end.
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
        self._forward = forward
        self._ledger = ledger_of(forward)
        self._speculation = speculation
        self._observe = observe
        self._clock = clock
        self.policy = policy
        self._runs = 0
        self.committed: list[int] = []
        forward.rewind(0)

    @property
    def spec(self) -> ModelSpec:
        return self._forward.spec

    @property
    def capacity(self) -> int:
        """Most tokens ``committed`` can have."""
        return self.policy.limit if self.policy else self._forward.capacity

    @property
    def slots(self) -> int:
        """Most tokens the cache can have."""
        return self._forward.capacity

    def reusable(self, prompt_ids: Sequence[int]) -> int:
        """How many tokens of a prompt need not be fed; its last one always is, for its logits."""
        common = min(_common(self.committed, prompt_ids), self._forward.length, len(prompt_ids) - 1)
        resident = self.policy.resident(common) if self.policy else common
        return self._forward.reachable(max(resident, 0))

    @property
    def portable(self) -> PortableCache | None:
        """The cache, if it can be written to a file."""
        return self._forward if isinstance(self._forward, PortableCache) else None

    def resume(self, tokens: Sequence[int], source: Source) -> None:
        """Go on as if ``tokens`` had just been fed: a ``portable`` cache reads their slots from ``source``.

        Raises what ``PortableCache.read_cache`` does, nothing is committed then; ValueError without one.
        """
        if (cache := self.portable) is None:
            raise ValueError("this model's cache cannot be read from a file")
        self._runs += 1
        self.committed = []
        cache.read_cache(source, len(tokens))
        self.committed = list(tokens)
        if self._speculation:
            self._speculation.begin(self.committed, 0)

    def generate(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        max_tokens: int,
        stop_ids: Collection[int],
        progress: Progress | None = None,
    ) -> Generator[Step, None, None]:
        """Continue ``prompt_ids``, one Step per committed token; the last one says why it ended.

        "stop": its token is in ``stop_ids`` (it is committed too); "length": ``max_tokens`` or the context is
        reached. ``progress(done, total)`` counts the prompt's tokens as they are fed. What the prompt shares
        with ``committed`` is not computed again. Checked before anything changes: UsageError for an empty
        prompt, an id outside the vocabulary or ``max_tokens`` below 1; ContextFullError when the prompt
        leaves no room for a token.
        """
        prompt = list(prompt_ids)
        self._check(prompt, max_tokens)
        self._forward.rewind(self.reusable(prompt))
        if self._speculation:
            self._speculation.sampled(params)
            self._speculation.begin(prompt, _common(self.committed, prompt))
        self.committed = prompt
        self._runs += 1
        end = min(len(prompt) + max_tokens, self.capacity)
        return self._run(self._runs, params, end, frozenset(stop_ids), progress)

    def _run(
        self, run: int, params: SamplingParams, end: int, stop_ids: frozenset[int], progress: Progress | None
    ) -> Generator[Step, None, None]:
        try:
            while True:
                self._check_newest(run)
                for token, source in self._round(params, end, progress):
                    self._check_newest(run)
                    position = len(self.committed)
                    self.committed.append(token)
                    ended = token in stop_ids
                    full = position + 1 == end
                    yield Step(token, position, "stop" if ended else "length" if full else None, source)
                    if ended or full:
                        return
                progress = None  # it was about the prompt
        finally:
            if run == self._runs and self._forward.length > len(self.committed):
                self._forward.rewind(len(self.committed))
            if run == self._runs and self._speculation:
                self._speculation.end()

    def _round(self, params: SamplingParams, end: int, progress: Progress | None) -> list[Sourced]:
        """Feed what the cache lacks and a draft behind it; returns what is to be committed."""
        waiting, most = self._catch_up(progress)
        tree = EMPTY
        if self._speculation and len(waiting) == 1:
            tree = self._speculation.propose(min(end - len(self.committed), most) - 1)
        last = len(waiting) - 1
        rows = Rows(
            tuple(range(last, last + 1 + len(tree))),
            full=needs_logits(params, self.spec.head_k),
            temperature=head_temperature(params),
        )
        head, seconds = self._pass(waiting, tree, rows, progress)
        try:
            drawing = self.spec.vocab_size * drawing_bytes(params, self.spec.head_k)
            with self._ledger.lease("rows", drawing):
                verdict = self._verdict(tree, head, params)
            if len(tree):
                self._forward.keep_path((*range(last + 1), *(last + 1 + node for node in verdict.path)))
        except BaseException:
            self._forward.rewind(len(self.committed))
            raise
        if self._speculation:
            self._speculation.learn(tree, head)
            self._speculation.commit(verdict.tokens, len(tree), seconds=seconds if last == 0 else None)
        if self._observe:
            fed = len(waiting) + len(tree)
            self._observe(
                PassRecord(
                    len(self.committed) - last - 1, fed, len(verdict.tokens), seconds, len(tree),
                    tree, verdict.path,
                )
            )  # fmt: skip
        return _sourced(verdict, tree)

    def _verdict(self, tree: DraftTree, head: HeadRows, params: SamplingParams) -> Verdict:
        if self._speculation is None or self._speculation.rule == KEYED or not len(tree):
            return keyed(tree, self._chooser(head, params))
        size, rule = self.spec.vocab_size, self._speculation.rule

        def target(node: int) -> NDArray[np.float64]:
            history = [*self.committed, *(tree.tokens[step] for step in tree.path(node))]
            return law(head, node + 1, params, history, size)

        return classical(rule, tree, target, SeededChance(params.seed, len(self.committed)))

    def _chooser(self, head: HeadRows, params: SamplingParams) -> Choose:
        """The token that plain decoding commits after a node of the tree."""

        penalised = params.repetition_penalty != 1.0  # else nothing reads the history

        def choose(node: int, accepted: Sequence[int]) -> int:
            history = [*self.committed, *accepted] if penalised else self.committed
            return draw(head, node + 1, params, len(self.committed) + len(accepted), history)

        return choose

    def _catch_up(self, progress: Progress | None) -> tuple[list[int], int]:
        """Feed the cache all but the tokens returned, with the most that the pass over them can have."""
        while len(self.committed) - self._forward.length > (most := self._longest_pass()):
            start = self._forward.length
            _, seconds = self._pass(self.committed[start : start + most], EMPTY, _NO_ROWS, progress)
            if self._observe:
                self._observe(PassRecord(start, most, 0, seconds))
        return self.committed[self._forward.length :], most

    def _longest_pass(self) -> int:
        most = min(self._forward.caps.max_pass, LONGEST_PASS)
        return min(most, self.policy.room(self.committed)) if self.policy else most

    def _pass(
        self, tokens: list[int], tree: DraftTree, rows: Rows, progress: Progress | None
    ) -> tuple[HeadRows, float | None]:
        parents = None
        if len(tree):
            behind = len(tokens)
            parents = [*range(-1, behind - 1), *(behind + parent for parent in tree.parents)]
        began = self._clock() if self._clock else 0.0
        head = self._forward.extend([*tokens, *tree.tokens], parents=parents, rows=rows)
        seconds = self._clock() - began if self._clock else None
        if progress:
            progress(min(self._forward.length, len(self.committed)), len(self.committed))
        return head, seconds

    def _check_newest(self, run: int) -> None:
        if run != self._runs:
            raise UsageError("a newer reply took over", hint="iterate only the newest one")

    def _check(self, prompt: Sequence[int], max_tokens: int) -> None:
        if not prompt:
            raise UsageError("the prompt is empty", hint="there must be at least one token to continue")
        if max_tokens < 1:
            raise UsageError(f"cannot generate {max_tokens} tokens", hint="ask for at least 1")
        if min(prompt) < 0 or max(prompt) >= self.spec.vocab_size:
            raise UsageError(f"the prompt has a token outside the vocabulary of {self.spec.vocab_size}")
        if len(prompt) >= self.capacity:
            raise ContextFullError(
                f"the prompt has {len(prompt)} tokens, and the context holds {self.capacity}",
                hint=f"shorten it to at most {self.capacity - 1} or use a larger context",
            )


def _sourced(verdict: Verdict, tree: DraftTree) -> list[Sourced]:
    sources = [tree.sources[node] for node in verdict.path]
    return list(zip(verdict.tokens, [*sources, None], strict=True))


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two sequences begin with alike."""
    most = min(len(first), len(second))
    return next((at for at in range(most) if first[at] != second[at]), most)
