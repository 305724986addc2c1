"""Several samples of one prompt: sample i is, token for token, the reply alone with seed + i.

The first one computes the prompt. The others wait for that, copy it out of its cache where the model can
copy, and then share each pass with it.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgedec.core.errors import EdgeDecError
from edgedec.core.last_number import last_number
from edgedec.session.tasks import Task

if TYPE_CHECKING:
    from edgedec.decode.cached_sequence import CachedSequence
    from edgedec.sampling import DrawParams
    from edgedec.session.chat import Chat
    from edgedec.session.reply import Reply

_SEEDS = 1 << 64
_TRIES = 3
"""Copies of a prompt: one fails where its source begins another sample meanwhile, of the same prompt."""


def with_seed(params: DrawParams, sample: int) -> DrawParams:
    """Return how sample ``sample`` is drawn: with a seed of its own."""
    return replace(params, seed=(params.seed + sample) % _SEEDS)


class SharedPrompt:
    """The prompt of several samples, once the first of them has computed it."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._source: CachedSequence | None = None
        self._tokens = 0

    def wait(self) -> None:
        """Wait until the prompt is computed, or will not be."""
        self._ready.wait()

    def computed(self, engine: CachedSequence, tokens: int) -> None:
        """Note that ``engine`` holds the prompt of so many tokens."""
        if not self._ready.is_set():
            self._source, self._tokens = engine, tokens
            self._ready.set()

    def over(self) -> None:
        """Let the others begin, whatever became of the first."""
        self._ready.set()

    def copy_to(self, engine: CachedSequence) -> None:
        """Copy the prompt, but for its last token, into ``engine`` where that lacks it.

        Where that is not possible after all, the reply computes its prompt.
        """
        source, wanted = self._source, self._tokens - 1
        if source is None or source is engine or not engine.forward.caps.copies:
            return
        if wanted < 1 or engine.reusable(source.committed[: self._tokens]) >= wanted:
            return
        try:
            for _ in range(_TRIES):
                if engine.adopt_prefix(source, wanted):
                    return
        except EdgeDecError:
            engine.reset()


class SampleTask(Task):
    """Sample ``number`` of a text; ``raw``: without the chat template. ``logprobs``: as in ``Chat.reply``."""

    def __init__(
        self, text: str, number: int, shared: SharedPrompt, *, raw: bool, logprobs: int | None
    ) -> None:
        self._text, self._number, self._shared = text, number, shared
        self._raw, self._logprobs = raw, logprobs
        self._begun: tuple[CachedSequence, Reply] | None = None

    def wait(self) -> None:
        """See ``Task.wait``. The first sample waits for nothing."""
        if self._number:
            self._shared.wait()

    def begin(self, chat: Chat) -> Reply:
        """See ``Task.begin``."""
        if self._number:
            self._shared.copy_to(chat.engine.home)
        params = chat.settings.params
        chat.adjust(params=with_seed(params, self._number))
        try:
            reply = (
                chat.complete(self._text, logprobs=self._logprobs)
                if self._raw
                else chat.reply(self._text, logprobs=self._logprobs, final=True)
            )
        finally:
            chat.adjust(params=params)
        self._begun = chat.engine.home, reply
        return reply

    def said(self, reply: Reply) -> None:
        """See ``Task.said``."""
        if self._number == 0 and self._begun is not None and reply.tokens:
            self._shared.computed(self._begun[0], len(reply.prompt))

    def over(self) -> None:
        """See ``Task.over``."""
        if self._number == 0:
            if self._begun is not None:
                self.said(self._begun[1])
            self._shared.over()


def mean_logprob(reply: Reply) -> float | None:
    """Return the mean log-probability of a reply's tokens, at temperature 1; None where none are known."""
    found = [one.logprob for one in reply.logprobs]
    return sum(found) / len(found) if found else None


def best_of(replies: Sequence[Reply]) -> int:
    """Return the place of the reply with the highest ``mean_logprob``; the first of several such."""
    means = [mean_logprob(reply) for reply in replies]
    return max(range(len(means)), key=lambda at: -float("inf") if (mean := means[at]) is None else mean)


@dataclass(frozen=True, slots=True)
class Vote:
    """The outcome of a vote: the first reply with the most frequent answer, and what each reply answers."""

    chosen: int
    answers: tuple[str | None, ...]

    @property
    def votes(self) -> int:
        """Replies with the answer that won."""
        return self.answers.count(self.answers[self.chosen])


def vote_of(texts: Sequence[str], pattern: re.Pattern[str] | None = None) -> Vote:
    """Return the majority's answer; the earliest of several as frequent ones.

    A text's answer is the last match of ``pattern``, of its first group if it has one; None: the last number.
    Raises EdgeDecError when no text has an answer.

    >>> vote_of(["It is 12.", "So 12", "13!"]).chosen, vote_of(["a: x", "b"], re.compile("a: (.)")).answers
    (0, ('x', None))
    """
    answers = tuple(_answer(text, pattern) for text in texts)
    counts = Counter(answer for answer in answers if answer is not None)
    if not counts:
        kind = "a number" if pattern is None else f"a match of {pattern.pattern!r:.40}"
        raise EdgeDecError(
            f"none of {len(texts)} samples has {kind}",
            hint="ask for another form of answer, or for more samples",
        )
    return Vote(answers.index(counts.most_common(1)[0][0]), answers)


def _answer(text: str, pattern: re.Pattern[str] | None) -> str | None:
    if pattern is None:
        return last_number(text)
    found = [*pattern.finditer(text)]
    return (found[-1][1] if pattern.groups else found[-1][0]) if found else None
