"""Replies drawn from the model's own law, given that they have a form.

A mask at each place is another law (see ``docs/verification.md``). Here a try is drawn as a free reply is,
and dropped at the first token that the form forbids. Dropped tries make further ones cheaper:
``form_tree``. Drafts change nothing: the tokens of a try are those of a free reply with its own seed.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import closing
from dataclasses import fields, replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from edgedec.core.errors import GrammarError, UsageError
from edgedec.core.progress import Steps
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import HeadRows
from edgedec.core_lib import numbers
from edgedec.decode.checks import check_request
from edgedec.decode.constrained import go_on
from edgedec.decode.form_tree import REST, FormPlace, FormTree
from edgedec.decode.records import FinishReason, ReplyDetails, Step
from edgedec.metrics.stats import FormCost
from edgedec.sampling import DrawParams

if TYPE_CHECKING:
    from edgedec.grammar.matcher import GrammarConstraint
    from edgedec.session.engine import ReplyEngine

MOST_TRIES = 200
MOST_DROPPED_TOKENS = 20_000
_STATES, _GOLDEN = 1 << 64, 0x9E3779B97F4A7C15
_BAN = -100.0
_HINT = "ask for it in the prompt, use a wider form, or draw under masks"


def own_law(params: DrawParams, logprobs: int | None = None) -> DrawParams:
    """Return ``params`` without cuts, penalties and bias: a law over all texts has a temperature alone.

    Raises UsageError for greedy decoding, and where log-probabilities are wanted.
    """
    if logprobs is not None:
        raise UsageError("an unbiased reply of a form has no log-probabilities", hint="leave one of both out")
    if params.greedy:
        raise UsageError(
            "unbiased replies of a form are drawn, and the temperature is 0", hint="set one above 0"
        )
    return DrawParams(temperature=params.temperature, seed=params.seed)


def left_out(params: DrawParams) -> list[str]:
    """Return the names of the settings that ``own_law`` leaves out."""
    own = own_law(params)
    return [one.name for one in fields(params) if getattr(params, one.name) != getattr(own, one.name)]


@dataclass(frozen=True, slots=True)
class Asked:
    """A reply that is wanted: the arguments of ``ReplyEngine.generate``."""

    prompt: Sequence[int]
    params: DrawParams
    max_tokens: int
    stop_ids: Collection[int]
    progress: Steps
    details: ReplyDetails

    def of(self, engine: ReplyEngine) -> Generator[Step, None, None]:
        """Begin it, drawn token by token. Raises the errors of ``ReplyEngine.generate``."""
        return engine.generate(
            self.prompt, self.params, max_tokens=self.max_tokens, stop_ids=self.stop_ids,
            progress=self.progress, details=self.details,
        )  # fmt: skip


class UnbiasedTries:
    """Tries of a reply until one has the form; the law of that one is the model's, given the form.

    ``asked.details`` has no grammar. ``form`` stands where the reply begins, and between tries again.
    """

    def __init__(self, engine: ReplyEngine, asked: Asked, form: GrammarConstraint) -> None:
        capacity = engine.capacity
        check_request(
            [*asked.prompt], engine.home.spec, max_tokens=asked.max_tokens, capacity=capacity, logprobs=0
        )
        self._engine, self._asked, self._form = engine, asked, form
        self._room = min(asked.max_tokens, capacity - len(asked.prompt))
        self._tree = FormTree()
        self.cost = FormCost()

    def steps(self) -> Generator[Step, None, None]:
        """Yield the tokens of the reply, once it is there.

        One that reaches the most tokens before it is whole has not left the form, and ends with "length".
        Raises GrammarError where the tries ran out, or no reply of the form has a probability.
        """
        while self.cost.tries < MOST_TRIES and self.cost.dropped_tokens < MOST_DROPPED_TOKENS:
            one = _Try(self._asked, self._form, self._tree, self._room)
            try:
                self._run(one)
            finally:
                self._form.back(one.advanced)
            self._tree.learn(one.tokens)
            self._count(one)
            if one.has_form:
                yield from one.steps
                return
            if self._tree.live == -inf:
                raise GrammarError("the model gives no reply of this form a probability", hint=_HINT)
        raise GrammarError(
            f"no reply of this form in {self.cost.tries:,} tries of {self.cost.dropped_tokens:,} tokens: "
            f"the model writes one with a probability of {self.cost.probability_at_most:.2g} at most",
            hint=_HINT,
        )

    def _count(self, one: _Try) -> None:
        dropped = self.cost.dropped_tokens + (0 if one.has_form else one.computed)
        at_most = float(numbers.exp(np.array([self._tree.live]))[0])
        self.cost = FormCost(self.cost.tries + 1, dropped, at_most)

    def _run(self, one: _Try) -> None:
        """Draw a try: at known places without the model, and behind them as free replies are."""
        seed = _seed_of(self._asked.params.seed, self.cost.tries)
        place, first = self._tree.root, len(self._asked.prompt)
        while place is not None and not one.over:
            token = place.choose(seed, first + len(one.tokens))
            if token == REST:
                self._draw_rest(one, place, seed)
                break
            one.take(Step(token, first + len(one.tokens)))
            place = place.behind.get(token)
        if one.over:
            return
        params = replace(self._asked.params, seed=seed)
        details = replace(self._asked.details, told=one.told)
        with closing(self._generate(one, params, self._room - len(one.tokens), details)) as steps:
            for step in steps:
                one.read(step)
                self._asked.progress(first, first)
                if one.over:
                    break

    def _draw_rest(self, one: _Try, place: FormPlace, seed: int) -> None:
        """Draw one of the permitted tokens that are not listed."""
        bans = tuple((int(token), _BAN) for token in place.ids)
        params = replace(self._asked.params, seed=seed, logit_bias=bans)
        details = replace(self._asked.details, grammar=self._form)
        for step in self._generate(one, params, 1, details):
            one.computed += 1
            one.take(step, walked=True)

    def _generate(
        self, one: _Try, params: DrawParams, room: int, details: ReplyDetails
    ) -> Generator[Step, None, None]:
        prompt = [*self._asked.prompt, *one.tokens]
        asked = replace(self._asked, prompt=prompt, params=params, max_tokens=room, details=details)
        return asked.of(self._engine)


class _Try:
    """One try: its tokens, and the walk of the form along them, which goes ahead of the steps of a round."""

    def __init__(self, asked: Asked, form: GrammarConstraint, tree: FormTree, room: int) -> None:
        self._form, self._tree, self._room = form, tree, room
        self._stop_ids, self._temperature = frozenset(asked.stop_ids), asked.params.temperature
        self.steps: list[Step] = []
        self.advanced = self.computed = 0
        """Tokens along which the form has walked; tokens that the model was asked for."""
        self.tokens: list[int] = []
        self._reason: FinishReason | None = None
        """The end of ``tokens``."""
        self._left = False
        """Whether the last of ``tokens`` leaves the form."""

    @property
    def over(self) -> bool:
        """Whether its last step is there."""
        return len(self.steps) == len(self.tokens) and (self._left or self._reason is not None)

    @property
    def has_form(self) -> bool:
        return self.over and not self._left

    def take(self, step: Step, *, walked: bool = False) -> None:
        """Go on with a permitted token; ``walked``: the form stands behind it already."""
        self._go_on(step.token, walked)
        self.read(step)

    def read(self, step: Step) -> None:
        """Take a step whose token is known."""
        last = len(self.steps) + 1 == len(self.tokens)
        self.steps.append(step._replace(finish_reason=self._reason if last else None))

    def told(self, head: HeadRows, row: int, token: int) -> None:
        """Hear of the next token that the model draws, and the row that it is drawn from."""
        if self._left or self._reason is not None:
            return
        self.computed += 1
        if self._tree.takes(self.tokens):
            assert head.logits is not None, "a draw without cuts needs whole rows"
            place = FormPlace.of(head.logits[row], self._form.bits(), self._temperature)
            self._tree.add(self.tokens, place)
        if self._form.permits(token):
            self._go_on(token, walked=False)
        else:
            self.tokens.append(token)
            self._left = True

    def _go_on(self, token: int, walked: bool) -> None:
        self.tokens.append(token)
        ends = token in self._stop_ids
        if not ends:
            if not walked:
                go_on(self._form, token)
            self.advanced += 1
            ends = self._form.finished
        if ends or len(self.tokens) == self._room:
            self._reason = "stop" if ends else "length"


def _seed_of(seed: int, number: int) -> int:
    """Return the seed of a try: the first one is the free reply of ``seed`` itself."""
    return (seed + number * _GOLDEN) % _STATES
