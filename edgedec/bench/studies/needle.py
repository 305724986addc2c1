"""Facts in long texts, asked for at the end, with a KV cache that is too small for the text.

Source: needle in a haystack (Kamradt 2023). The model reads the text once, with the fact at some depth. A
reply that has the fact's number is right.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgedec.bench.studies.energies import Energies
from edgedec.bench.studies.reply_energies import ReplyEnergy, energies_of_stats
from edgedec.core.errors import UsageError
from edgedec.core.progress import Progress
from edgedec.metrics.marks import Marks
from edgedec.metrics.stats import ReplyStats
from edgedec.sampling import DrawParams
from edgedec.session.prompt import Message, Prompts

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.text.codec import Codec
    from edgedec.text.tokenizer import Tokenizer

FULL = "full"
"""The side whose KV cache has room for the whole text."""
CITIES = ("Oslo", "Lima", "Cairo", "Kyoto", "Quito", "Delhi", "Paris", "Sofia", "Dakar", "Perth")
REPLY_TOKENS = 24
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
    """Replies of one side to the trials, and their joules of decoding.

    ``evicted`` counts the tokens that left its KV cache.
    """

    right: tuple[bool, ...]
    replies: tuple[str, ...]
    evicted: int
    seconds: float
    energies: tuple[ReplyEnergy | None, ...] = ()

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


def trials_of(
    texts: Sequence[str], tokenizer: Tokenizer, tokens: int, depths: int, repeat: int
) -> list[NeedleTrial]:
    """Make ``repeat`` trials at each of ``depths`` even depths.

    Each has another piece of ``tokens`` tokens of the texts. Raises UsageError for texts that are too short.
    """
    ids = tokenizer.encode("\n\n".join(texts), add_bos=False)
    if len(ids) < tokens:
        raise UsageError(
            f"the texts have {len(ids)} tokens, and {tokens} are wanted",
            hint="give more text, or ask for fewer tokens",
        )
    made = []
    for number in range(depths * repeat):
        start = number * tokens % (len(ids) - tokens + 1)
        sentences = _SENTENCE.split(tokenizer.decode(ids[start : start + tokens]).strip("\ufffd"))
        depth = number % depths / max(depths - 1, 1)
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


def find_needles(model: Model, way: str, trials: Sequence[NeedleTrial], progress: Progress) -> NeedleResult:
    """Reply to all trials greedily. ``way`` names the model's eviction policy, or ``FULL``."""
    engine, codec = model.single.engine, model.loaded.codec
    policy, ends = engine.policy, engine.spec.eos_ids
    before = policy.tokens if policy else 0
    replies: list[str] = []
    energies: list[ReplyEnergy | None] = []
    began = time.perf_counter()
    for done, trial in enumerate(trials):
        progress(way, done, len(trials))
        prompt, preamble = prompt_of(trial, codec)
        if policy:
            policy.keep(preamble)
        said, energy = _reply(model, prompt)
        replies.append(codec.tokenizer.decode([token for token in said if token not in ends]))
        energies.append(energy)
    right = tuple(trial.number in reply for trial, reply in zip(trials, replies, strict=True))
    evicted = policy.tokens - before if policy else 0
    return NeedleResult(right, tuple(replies), evicted, time.perf_counter() - began, tuple(energies))


def energies_of_needles(sides: Mapping[str, NeedleResult]) -> Energies:
    """Return the joules a token of decoding by side."""
    return energies_of_stats({way: found.energies for way, found in sides.items()})


def _reply(model: Model, prompt: Sequence[int]) -> tuple[list[int], ReplyEnergy | None]:
    """Reply greedily from an empty KV cache; return the tokens and the joules of decoding."""
    runner = model.single
    engine = runner.engine
    engine.reset()
    start, ends = engine.mark(), engine.spec.eos_ids
    steps = engine.generate(prompt, DrawParams(), max_tokens=REPLY_TOKENS, stop_ids=ends)
    tokens, first = [next(steps).token], engine.mark()
    tokens += [step.token for step in steps]
    stats = ReplyStats(len(prompt), 0, len(tokens), 0.0, 0.0)
    energy = runner.measures.energy(Marks(start, first, engine.mark()), stats)
    return tokens, ReplyEnergy.of(energy.as_json(), len(tokens))
