"""Several samples of one prompt: sample i is, token for token, the reply alone with seed + i.

The first one computes the prompt. The others wait for that, borrow it from its cache, or copy it where the
model cannot lend, and then share each pass with it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgedec.core.errors import EdgeDecError
from edgedec.core.quick_dataclass import dataclass
from edgedec.text.last_number import last_number

if TYPE_CHECKING:
    from edgedec.sampling import DrawParams
    from edgedec.session.reply import Reply

_SEEDS = 1 << 64


def with_seed(params: DrawParams, sample: int) -> DrawParams:
    """Return how sample ``sample`` is drawn: with a seed of its own."""
    return replace(params, seed=(params.seed + sample) % _SEEDS)


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
