"""Facts in long texts, asked for at the end, with a KV cache that is too small for the text.

Source: needle in a haystack (Kamradt 2023). The model reads the text once, with the fact at some depth. A
reply that has the fact's number is right.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from edgedec.bench.harness.energy import EnergyProbe
from edgedec.bench.harness.journal import Journal, SideAnswer
from edgedec.bench.harness.study import OFF, Case, OpenSide, Study, StudySide, run_study
from edgedec.core.errors import UsageError
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass
from edgedec.sampling import DrawParams
from edgedec.session.prompt import Message, Prompts

if TYPE_CHECKING:
    from edgedec.text.codec import Codec
    from edgedec.text.tokenizer import Tokenizer

FULL = "full"
"""The side whose KV cache has room for the whole text."""
CITIES = ("Oslo", "Lima", "Cairo", "Kyoto", "Quito", "Delhi", "Paris", "Sofia", "Dakar", "Perth")
REPLY_TOKENS = 24
DEPTHS = 5
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class NeedleTrial:
    """A text with a fact in it. ``depth`` is 0 at its beginning, 1 at its end."""

    depth: float
    city: str
    number: str
    text: str

    @property
    def question(self) -> str:
        return f"What is the secret number of {self.city}? Answer with the number."

    @property
    def opening(self) -> str:
        """Text that takes the question's place for a model without chat template."""
        return f"The secret number of {self.city} is"


@dataclass(frozen=True, slots=True)
class NeedleResult:
    """Replies of one side to the trials."""

    right: tuple[bool, ...]
    replies: tuple[str, ...]
    answers: tuple[SideAnswer, ...] = ()

    @property
    def evicted(self) -> int:
        """Tokens that left the KV cache."""
        return sum(one.evicted for one in self.answers)

    @property
    def seconds(self) -> float:
        return sum(one.prefill_s + one.decode_s for one in self.answers)

    def as_json(self, trials: Sequence[NeedleTrial]) -> dict[str, Any]:
        depths = sorted({trial.depth for trial in trials})
        by_depth = {str(depth): self.at(depth, trials) for depth in depths}
        return {
            "found": sum(self.right), "of": len(self.right), "by_depth": by_depth,
            "evicted_tokens": self.evicted, "seconds": round(self.seconds, 1), "replies": list(self.replies),
        }  # fmt: skip

    def at(self, depth: float, trials: Sequence[NeedleTrial]) -> int:
        """Count the facts found at this depth."""
        return sum(right for trial, right in zip(trials, self.right, strict=True) if trial.depth == depth)


def trials_of(texts: Sequence[str], tokenizer: Tokenizer, tokens: int, count: int) -> list[NeedleTrial]:
    """Make ``count`` trials, at ``DEPTHS`` even depths in turn.

    Each has another piece of ``tokens`` tokens of the texts. Raises UsageError for texts that are too short.
    """
    ids = tokenizer.encode("\n\n".join(texts), add_bos=False)
    if len(ids) < tokens:
        raise UsageError(
            f"the texts have {len(ids)} tokens, and {tokens} are wanted",
            hint="give more text, or ask for fewer tokens",
        )
    made = []
    for number in range(count):
        start = number * tokens % (len(ids) - tokens + 1)
        sentences = _SENTENCE.split(tokenizer.decode(ids[start : start + tokens]).strip("\ufffd"))
        depth = number % DEPTHS / (DEPTHS - 1)
        city, secret = CITIES[number % len(CITIES)], str(random.Random(number).randrange(10_000, 100_000))
        sentences.insert(round(depth * len(sentences)), f"The secret number of {city} is {secret}.")
        made.append(NeedleTrial(depth, city, secret, " ".join(sentences)))
    return made


def prompt_of(trial: NeedleTrial, codec: Codec) -> tuple[list[int], int]:
    """Return the prompt's token ids, and the count of those before the user's text."""
    prompts = Prompts(codec.tokenizer, codec.template)
    asked = trial.question if codec.template else trial.opening
    messages = [Message("user", f"{trial.text}\n\n{asked}")]
    prompt = prompts.build(messages)
    return prompt.ids, prompts.preamble(messages, prompt)


def find_needles(
    sides: Sequence[StudySide],
    trials: Sequence[NeedleTrial],
    codec: Codec,
    ends: Sequence[int],
    progress: Progress,
    probe: EnergyProbe | None = None,
) -> dict[str, NeedleResult]:
    """Reply to all trials greedily, on every side from an empty KV cache. Raises as ``run_study``."""
    cases = [Case((str(number), 0), number, prompt_of(trial, codec)) for number, trial in enumerate(trials)]

    def ask(host: OpenSide, case: Case, side: StudySide) -> SideAnswer:
        prompt, preamble = case.data
        took = host.metered(
            "reply", "decode_s", tokens=prompt, max_tokens=REPLY_TOKENS, stop=list(ends), mode=OFF,
            sampling=asdict(DrawParams()), sinks=preamble,
        )  # fmt: skip
        return SideAnswer(str(case.key[0]), 0, side.name, 1, prompt_tokens=len(prompt), **took)

    run = Study(sides=sides, cases=cases, total=len(cases), ask=ask, energy=probe)
    journal: Journal[SideAnswer] = run_study(run, Journal(), progress)
    found = {}
    for side in sides:
        answers = tuple(journal.answers[str(number), 0, side.name] for number in range(len(trials)))
        replied = ([token for token in one.tokens if token not in ends] for one in answers)
        replies = tuple(codec.tokenizer.decode(tokens) for tokens in replied)
        right = tuple(trial.number in reply for trial, reply in zip(trials, replies, strict=True))
        found[side.name] = NeedleResult(right, replies, answers)
    return found
