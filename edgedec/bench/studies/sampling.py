"""Replies under several sampling settings: how much they repeat themselves, and how good they are.

Sources:

- Share of repeated n-grams: Welleck et al. 2019, "Neural Text Generation with Unlikelihood Training"
  (seq-rep-4): 1 less the share of distinct 4-grams of a reply's tokens.
- Log-probability of the tokens under the model at temperature 1: a setting that draws improbable tokens has
  a low one, a reply that copies itself a high one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from edgedec.api import Model
from edgedec.bench.harness.pairing import rounded
from edgedec.bench.studies.energies import Energies
from edgedec.bench.studies.quality import last_number
from edgedec.bench.studies.reply_energies import ReplyEnergy, energies_of_stats
from edgedec.sampling import DrawParams
from edgedec.session.chat import Chat
from edgedec.session.reply import Reply

_GRAM = 4
_END_TOKENS = 100
_LOOPING = 0.5


@dataclass(frozen=True, slots=True)
class Asked:
    """A question; ``answer`` is the last number of a right reply, None where nothing is counted."""

    text: str
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """Figures of one reply. ``repeated`` is the share of its 4-grams that are not the first of their kind."""

    tokens: int
    repeated: float
    loops: bool
    cut: bool
    logprob: float
    right: bool | None
    energy: ReplyEnergy | None = None


@dataclass(frozen=True, slots=True)
class SettingResult:
    """All replies of one setting."""

    params: DrawParams
    replies: tuple[Said, ...]

    def as_json(self) -> dict[str, object]:
        said = self.replies
        return {
            "sampling": self.params.in_words(),
            "replies": len(said),
            "tokens": sum(one.tokens for one in said),
            "repeated": rounded(fmean(one.repeated for one in said)),
            "loops": sum(one.loops for one in said),
            "cut": sum(one.cut for one in said),
            "mean_logprob": rounded(fmean(one.logprob for one in said)),
            "right": None if said[0].right is None else sum(bool(one.right) for one in said),
        }


def energies_of_settings(found: Sequence[SettingResult]) -> Energies:
    """Return the joules a token of decoding by setting."""
    said: dict[str, list[ReplyEnergy | None]] = {}
    for one in found:
        said.setdefault(one.params.in_words(), []).extend(reply.energy for reply in one.replies)
    return energies_of_stats(said)


def measure_settings(
    model: Model,
    settings: Sequence[DrawParams],
    asked: Sequence[Asked],
    max_tokens: int,
    step: Callable[[int, int], None],
) -> Iterator[SettingResult]:
    """Ask every question with every setting, each in a new conversation; yields setting by setting.

    ``step(done, total)`` counts replies. Raises the errors of ``Chat.reply``.
    """
    chat, done = model.chat(max_tokens=max_tokens), 0
    for params in settings:
        model.single.make_room_for(params, logprobs=True)
        chat.adjust(params=params)
        said = []
        for number, one in enumerate(asked):
            chat.adjust(params=replace(params, seed=number))
            reply = _answer(chat, one)
            said.append(replace(_said(reply, one), energy=_energy(model, reply)))
            done += 1
            step(done, len(settings) * len(asked))
        yield SettingResult(params, tuple(said))


def _answer(chat: Chat, asked: Asked) -> Reply:
    chat.reset()
    reply = chat.reply(asked.text, logprobs=1, final=True)
    reply.read()
    return reply


def _energy(model: Model, reply: Reply) -> ReplyEnergy | None:
    if reply.marks is None:
        return None
    stats = reply.stats
    return ReplyEnergy.of(model.single.measures.energy(reply.marks, stats).as_json(), stats.completion_tokens)


def _said(reply: Reply, asked: Asked) -> Said:
    cut = reply.finish_reason != "stop"
    return Said(
        len(reply.tokens),
        repeated(reply.tokens),
        cut and repeated(reply.tokens[-_END_TOKENS:]) > _LOOPING,
        cut,
        fmean(one.logprob for one in reply.logprobs),
        None if asked.answer is None else last_number(reply.text) == asked.answer,
    )


def repeated(tokens: Sequence[int]) -> float:
    """Return the share of 4-grams that are not the first of their kind; 0 for fewer than four tokens.

    >>> repeated([1, 2, 3, 4, 5]), repeated([7] * 8)
    (0.0, 0.8)
    """
    grams = [tuple(tokens[at : at + _GRAM]) for at in range(len(tokens) - _GRAM + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
