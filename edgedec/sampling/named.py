"""Sampling values as a caller names them: some of them, the rest is as a model's preset says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeAlias, TypedDict

from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.sampling.bias import LogitBias, frozen_bias
from edgedec.sampling.params import DrawParams


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How replies are drawn, as far as it is named. The rest is as the model's preset says.

    Temperature 0 is greedy decoding: it turns off everything else that is not named. Raises UsageError for a
    value outside its range.

    >>> warm = SamplingParams(temperature=0.7)
    >>> warm.over(DrawParams(temperature=0.2, top_p=0.9)).summary()
    'temperature 0.7, top-p 0.9, seed 0'
    >>> SamplingParams.greedy().over(DrawParams(temperature=0.2, top_p=0.9)).summary()
    'greedy'
    """

    temperature: float | None = None
    """0 = greedy (the highest logit after the penalty); otherwise logits are divided by it."""
    top_k: int | None = None
    """Keep this many highest logits; 0 = all."""
    top_p: float | None = None
    """Keep the smallest set of highest logits whose probability reaches this; 1 = all."""
    min_p: float | None = None
    """Keep tokens at least this probable relative to the most probable one; 0 = all."""
    top_n_sigma: float | None = None
    """Keep logits within this many standard deviations (over the vocabulary) of the highest; 0 = all."""
    typical: float | None = None
    """Keep the tokens whose surprise is nearest to the entropy, up to this probability; 1 = all."""
    eta: float | None = None
    """Keep tokens of at least this probability, or less where the entropy is high; 0 = all."""
    top_h: float | None = None
    """Keep as many of the best as have at most this share of the entropy; 1 = all."""
    mirostat: float | None = None
    """Hold the surprise of tokens near so many bits (mirostat 2); 0 = off."""
    mirostat_eta: float | None = None
    """How fast mirostat follows; not named: 0.1."""
    edt: float | None = None
    """Lower the temperature where the model is sure: to T * 0.8^(this / entropy); 0 = off."""
    repetition_penalty: float | None = None
    """Logits of tokens seen before are divided (if positive) or multiplied (if negative) by it; 1 = off."""
    frequency_penalty: float | None = None
    """Logits of tokens that the reply has said are lowered by this, once for each time; 0 = off."""
    presence_penalty: float | None = None
    """Logits of tokens that the reply has said are lowered by this, however often; 0 = off."""
    seed: int | None = None
    """Seed of the noise; the same seed, sequence and settings give the same tokens. Not named: 0."""

    logit_bias: LogitBias | None = None
    """By token id, a number from -100 to 100 that is added to the token's logit; -100 bans the token."""

    def __post_init__(self) -> None:
        if self.logit_bias is not None:
            object.__setattr__(self, "logit_bias", frozen_bias(self.logit_bias))
        DrawParams(**self._named())

    def __repr__(self) -> str:
        return f"SamplingParams({', '.join(f'{name}={value!r}' for name, value in self._named().items())})"

    @classmethod
    def greedy(cls) -> SamplingParams:
        """Return the settings that always take the most probable token."""
        return cls(temperature=0.0)

    def over(self, given: DrawParams) -> DrawParams:
        """Return ``given`` with those values that are named here."""
        if self.temperature == 0.0:
            given = DrawParams(seed=given.seed)
        return replace(given, **self._named())

    def on(self, others: SamplingParams) -> SamplingParams:
        """Return ``others`` with those values that are named here."""
        return replace(others, **self._named())

    def _named(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in values.items() if value is not None}


class SamplingArguments(TypedDict, total=False):
    """The fields of ``SamplingParams`` as arguments of a call, which say what they mean there."""

    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    top_n_sigma: float | None
    typical: float | None
    eta: float | None
    top_h: float | None
    mirostat: float | None
    mirostat_eta: float | None
    edt: float | None
    repetition_penalty: float | None
    frequency_penalty: float | None
    presence_penalty: float | None
    seed: int | None
    logit_bias: LogitBias | None


Sampling: TypeAlias = SamplingParams | DrawParams | Mapping[str, Any]
"""How tokens are drawn, in the forms that a caller may give: a mapping has names of ``SamplingParams``."""


def params_of(
    sampling: Sampling | None, values: Mapping[str, Any] | None = None
) -> SamplingParams | DrawParams | None:
    """Return ``sampling`` with single ``values`` on top of it; None where neither names anything.

    Raises UsageError for names that are none, and for values out of range.

    >>> params_of({"temperature": 0.5, "top_p": 0.9}, {"top_p": 0.8})
    SamplingParams(temperature=0.5, top_p=0.8)
    """
    if sampling is not None and not isinstance(sampling, SamplingParams | DrawParams):
        sampling = _of_names(sampling)
    if not values:
        return sampling
    named = _of_names(values)
    if sampling is None:
        return named
    return named.over(sampling) if isinstance(sampling, DrawParams) else named.on(sampling)


def chosen(named: Sampling | None, given: DrawParams) -> DrawParams:
    """Return how tokens are drawn: as ``named``, and where that names nothing, as ``given``."""
    params = params_of(named)
    if params is None:
        return given
    return params.over(given) if isinstance(params, SamplingParams) else params


def _of_names(values: object) -> SamplingParams:
    if not isinstance(values, Mapping):
        raise UsageError(
            f"sampling cannot be {values!r:.40}",
            hint='give SamplingParams or a mapping: {"temperature": 0.5}',
        )
    known = [one.name for one in fields(SamplingParams)]
    for name in values:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(str(name), known, n=1)
            meant = f"did you mean {near[0]}? " if near else ""
            raise UsageError(
                f"there is no sampling value {name!r:.40}", hint=f"{meant}there are {', '.join(known)}"
            )
    return SamplingParams(**values)
