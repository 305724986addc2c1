"""Several samples of one prompt: sample i is, token for token, the reply alone with seed + i.

The first one computes the prompt. The others wait for that, borrow it from its cache, or copy it where the
model cannot lend, and then share each pass with it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
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
    answers = tuple(answer_of(text, pattern) for text in texts)
    counts = Counter(answer for answer in answers if answer is not None)
    if not counts:
        kind = "a number" if pattern is None else f"a match of {pattern.pattern!r:.40}"
        raise EdgeDecError(
            f"none of {len(texts)} samples has {kind}",
            hint="ask for another form of answer, or for more samples",
        )
    return Vote(answers.index(counts.most_common(1)[0][0]), answers)


def settled(answers: Mapping[int, str | None], count: int) -> bool:
    """Whether a vote of ``count`` samples has its outcome, whatever the samples say that are not there yet.

    ``answers`` are those of the samples that ended, by number. The outcome is the chosen sample, so the
    earlier ones have to be there.

    >>> settled({0: "12", 1: "12"}, 4), settled({1: "12", 2: "12", 3: "12"}, 4)
    (True, False)
    """
    left = [number for number in range(count) if number not in answers]
    ranks: dict[str, tuple[int, int]] = {}  # by votes, then by the number of the first sample, negative
    for number in sorted(answers, reverse=True):
        if (answer := answers[number]) is not None:
            ranks[answer] = (ranks.get(answer, (0, 0))[0] + 1, -number)
    if not ranks:
        return False
    leader = max(ranks, key=ranks.__getitem__)
    votes, first = ranks.pop(leader)
    if left and -first > left[0]:
        return False
    return votes >= len(left) and all(
        (rival + len(left), number) < (votes, first) for rival, number in ranks.values()
    )


def answer_of(text: str, pattern: re.Pattern[str] | None) -> str | None:
    """Return the answer of a text as ``vote_of`` reads it; None if it has none."""
    if pattern is None:
        return last_number(text)
    found = [*pattern.finditer(text)]
    return (found[-1][1] if pattern.groups else found[-1][0]) if found else None
