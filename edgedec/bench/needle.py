"""A fact in a long text, asked for at the end: does a cache that is too small for the text still have it?

After the needle in a haystack (Kamradt 2023): the text is read once, with the fact at a depth of it, and the
reply is right if it has the fact's number.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgedec.core.errors import UsageError
from edgedec.decode.engine import Engine
from edgedec.draft import lookup_ahead
from edgedec.eviction.policies import policy_for
from edgedec.sampling import SamplingParams
from edgedec.session.prompt import Message, Prompts

if TYPE_CHECKING:
    from edgedec.runtime.loaded_model import LoadedModel
    from edgedec.text.tokenizer import Tokenizer

FULL = "full"
"""The side whose cache has room for all."""
CITIES = ("Oslo", "Lima", "Cairo", "Kyoto", "Quito", "Delhi", "Paris", "Sofia", "Dakar", "Perth")
REPLY = 24
"""Tokens of the longest reply."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class Trial:
    """A text with a fact in it: ``depth`` is 0 for its beginning, 1 for its end."""

    depth: float
    city: str
    number: str
    text: str

    @property
    def question(self) -> str:
        return f"What is the secret number of {self.city}? Answer with the number."

    @property
    def opening(self) -> str:
        """What a model that continues text is given in place of the question."""
        return f"The secret number of {self.city} is"


@dataclass(frozen=True, slots=True)
class Found:
    """What one side made of the trials; ``evicted``: tokens that left its cache, in all."""

    right: tuple[bool, ...]
    replies: tuple[str, ...]
    evicted: int
    seconds: float

    def as_json(self, trials: Sequence[Trial]) -> dict[str, Any]:
        depths = sorted({trial.depth for trial in trials})
        by_depth = {str(depth): self.at(depth, trials) for depth in depths}
        return {
            "found": sum(self.right), "of": len(self.right), "by_depth": by_depth,
            "evicted_tokens": self.evicted, "seconds": round(self.seconds, 1), "replies": list(self.replies),
        }  # fmt: skip

    def at(self, depth: float, trials: Sequence[Trial]) -> int:
        """How many facts were found at this depth."""
        return sum(right for trial, right in zip(trials, self.right, strict=True) if trial.depth == depth)


def trials_of(
    texts: Sequence[str], tokenizer: Tokenizer, tokens: int, depths: int, repeat: int
) -> list[Trial]:
    """``repeat`` trials at each of ``depths`` even depths, each in another piece of ``tokens`` tokens of the
    texts, one after the other and from their beginning again. Raises UsageError for texts that are too short.
    """
    ids = tokenizer.encode("\n\n".join(texts), add_bos=False)
    if len(ids) < tokens:
        raise UsageError(
            f"the texts have {len(ids)} tokens, and {tokens} are wanted",
            hint="give more --text, or less --tokens",
        )
    made = []
    for number in range(depths * repeat):
        start = number * tokens % (len(ids) - tokens + 1)
        sentences = _SENTENCE.split(tokenizer.decode(ids[start : start + tokens]).strip("\ufffd"))
        depth = number % depths / max(depths - 1, 1)
        city, secret = CITIES[number % len(CITIES)], str(random.Random(number).randrange(10_000, 100_000))
        sentences.insert(round(depth * len(sentences)), f"The secret number of {city} is {secret}.")
        made.append(Trial(depth, city, secret, " ".join(sentences)))
    return made


def prompt_of(trial: Trial, model: LoadedModel) -> tuple[list[int], int]:
    """Token ids, and how many of them come before what the user says."""
    prompts = Prompts(model.tokenizer, model.template)
    asked = trial.question if model.template else trial.opening
    messages = [Message("user", f"{trial.text}\n\n{asked}")]
    prompt = prompts.build(messages)
    return prompt.ids, prompts.preamble(messages, prompt)


def measure(
    model: LoadedModel, way: str, trials: Sequence[Trial], progress: Callable[[str, int, int], None]
) -> Found:
    """Ask all, greedily, of a model whose context is that of ``way``: a policy, or ``FULL``."""
    policy = policy_for(way, model.forward, lookup_ahead)
    engine = Engine(model.forward, policy=policy)
    replies: list[str] = []
    began = time.perf_counter()
    for done, trial in enumerate(trials):
        progress(way, done, len(trials))
        prompt, preamble = prompt_of(trial, model)
        if policy:
            policy.keep(preamble)
        engine.reset()
        ends = model.manifest.spec.eos_ids
        steps = engine.generate(prompt, SamplingParams(), max_tokens=REPLY, stop_ids=ends)
        replies.append(model.tokenizer.decode([step.token for step in steps if step.token not in ends]))
    right = tuple(trial.number in reply for trial, reply in zip(trials, replies, strict=True))
    evicted = policy.tokens if policy else 0
    return Found(right, tuple(replies), evicted, time.perf_counter() - began)
