"""How a model's replies are drawn unless the user says otherwise: its preset, kept in its manifest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass

MOST_STOPS = 16
MOST_STOP_CHARS = 200
MOST_SYSTEM_CHARS = 20_000
_MOST = 100.0
"""The highest temperature, penalty and top-n-sigma of a preset; models are published with 0 to 2."""
_MOST_K = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SamplingValues:
    """The values that decide how a token is drawn, without the seed; every default is "off".

    ``sampling.DrawParams`` says in which order they apply. Raises UsageError for a value outside its range.
    """

    temperature: float = 0.0
    """0 = greedy (the highest logit after the penalty); otherwise logits are divided by it."""
    top_k: int = 0
    """Keep this many highest logits; 0 = all."""
    top_p: float = 1.0
    """Keep the smallest set of highest logits whose probability reaches this; 1 = all."""
    min_p: float = 0.0
    """Keep tokens at least this probable relative to the most probable one; 0 = all."""
    top_n_sigma: float = 0.0
    """Keep logits within this many standard deviations (over the vocabulary) of the highest; 0 = all."""
    typical: float = 1.0
    """Keep the tokens whose surprise is nearest to the entropy, up to this probability; 1 = all."""
    eta: float = 0.0
    """Keep tokens of at least this probability, or less where the entropy is high; 0 = all."""
    top_h: float = 1.0
    """Keep as many of the best as have at most this share of the entropy; 1 = all."""
    mirostat: float = 0.0
    """Hold the surprise of tokens near so many bits (mirostat 2); 0 = off."""
    mirostat_eta: float = 0.1
    """How fast mirostat follows."""
    edt: float = 0.0
    """Lower the temperature where the model is sure: to T * 0.8^(this / entropy); 0 = off."""
    repetition_penalty: float = 1.0
    """Logits of tokens seen before are divided (if positive) or multiplied (if negative) by it; 1 = off."""
    frequency_penalty: float = 0.0
    """Logits of tokens that the reply has said are lowered by this, once for each time; 0 = off."""
    presence_penalty: float = 0.0
    """Logits of tokens that the reply has said are lowered by this, however often; 0 = off."""

    def __post_init__(self) -> None:
        _check("temperature", self.temperature, 0.0 <= self.temperature < math.inf, "0 (greedy) or more")
        _check("top-k", self.top_k, whole(self.top_k) and self.top_k >= 0, "0 (off) or a positive integer")
        _check("top-p", self.top_p, 0.0 < self.top_p <= 1.0, "above 0 and at most 1 (off)")
        _check("min-p", self.min_p, 0.0 <= self.min_p <= 1.0, "between 0 (off) and 1")
        _check("top-n-sigma", self.top_n_sigma, 0.0 <= self.top_n_sigma < math.inf, "0 (off) or more")
        _check("typical", self.typical, 0.0 < self.typical <= 1.0, "above 0 and at most 1 (off)")
        _check("eta", self.eta, 0.0 <= self.eta < 1.0, "from 0 (off) to below 1")
        _check("top-h", self.top_h, 0.0 < self.top_h <= 1.0, "above 0 and at most 1 (off)")
        _check("mirostat", self.mirostat, 0.0 <= self.mirostat < math.inf, "0 (off) or a number of bits")
        _check("mirostat-eta", self.mirostat_eta, 0.0 < self.mirostat_eta <= 1.0, "above 0 and at most 1")
        _check("edt", self.edt, 0.0 <= self.edt < math.inf, "0 (off) or more")
        penalty = self.repetition_penalty
        _check("repetition penalty", penalty, 0.0 < penalty < math.inf, "above 0 (1 is off)")
        for name in ("frequency_penalty", "presence_penalty"):
            value = getattr(self, name)
            _check(_words(name), value, -2.0 <= value <= 2.0, "from -2 to 2 (0 is off)")

    def drawing(self) -> dict[str, Any]:
        """Return these values by name, without what a subclass adds."""
        return {name: getattr(self, name) for name in DRAWING}

    def in_words(self) -> str:
        """Describe how tokens are drawn, in words: ``temperature 0.2, top-p 0.9``, or ``greedy``."""
        first = "greedy" if self.temperature == 0.0 else f"temperature {self.temperature:g}"
        others = [
            f"{_words(field.name)} {getattr(self, field.name):g}"
            for field in fields(SamplingValues)
            if field.name != "temperature" and getattr(self, field.name) != field.default
        ]
        return ", ".join([first, *others])


DRAWING = tuple(field.name for field in fields(SamplingValues))
"""The names of the values that decide how a token is drawn."""


@dataclass(frozen=True, slots=True)
class Preset(SamplingValues):
    """Sampling values, system message and stop strings that suit a model; every default is "off".

    Raises UsageError for a value outside its range.
    """

    system: str | None = None
    """System message, for models whose chat template brings none of its own."""
    stops: tuple[str, ...] = ()
    """Strings that end a reply, as the user's own do."""

    def __post_init__(self) -> None:
        SamplingValues.__post_init__(self)  # super() does not find the class that slots make anew
        for name in ("temperature", "top_n_sigma", "mirostat", "edt", "repetition_penalty"):
            value = getattr(self, name)
            _check(_words(name), value, value <= _MOST, f"at most {_MOST:g} in a preset")
        _check("top-k", self.top_k, self.top_k <= _MOST_K, f"at most {_MOST_K} in a preset")
        ok = self.system is None or (0 < len(self.system) <= MOST_SYSTEM_CHARS and _encodes(self.system))
        _check("system message", "this text", ok, f"text of 1 to {MOST_SYSTEM_CHARS} characters")
        ok = all(0 < len(stop) <= MOST_STOP_CHARS and _encodes(stop) for stop in self.stops)
        ok = ok and len(self.stops) <= MOST_STOPS
        allowed = f"at most {MOST_STOPS} texts of 1 to {MOST_STOP_CHARS} characters"
        _check("stop strings", "these", ok, allowed)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Preset:
        """Make a preset of JSON fields; those that are absent are off.

        Raises TypeError for an unknown field or a value of the wrong type, and UsageError as the class does.
        """
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(data) - known):
            raise TypeError(f"has the unknown field {unknown[0]!r:.40}")
        for name in DRAWING:
            if name in data and (isinstance(data[name], bool) or not isinstance(data[name], int | float)):
                raise TypeError(f"has no number as {name}")
        system, stops = data.get("system"), data.get("stops", [])
        if not isinstance(system, str | None):
            raise TypeError("has no text as system")
        if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
            raise TypeError("has no list of texts as stops")
        values = {name: data[name] for name in DRAWING if name in data}
        return cls(**values, system=system, stops=tuple(stops))

    def as_json(self) -> dict[str, Any]:
        """Return the values that are not off as JSON fields."""
        off = asdict(OFF)
        found = {name: value for name, value in asdict(self).items() if value != off[name]}
        return found | ({"stops": list(self.stops)} if self.stops else {})

    def summary(self) -> str:
        """Describe it in one line: ``temperature 0.2, top-p 0.9``."""
        parts = [self.in_words()]
        parts += [f"system message {self.system!r:.60}"] if self.system else []
        parts += [f"ends at {', '.join(map(repr, self.stops))}"] if self.stops else []
        return ", ".join(parts)


def whole(value: object) -> bool:
    """Whether a value is an integer, and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def _words(name: str) -> str:
    return name.replace("_", " " if name.endswith("_penalty") else "-")


def _encodes(text: str) -> bool:
    """Whether a text has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check(name: str, value: object, ok: bool, allowed: str) -> None:
    if not ok:
        raise UsageError(f"{name} cannot be {value}", hint=f"it must be {allowed}")


OFF = Preset()
"""Greedy decoding, no system message, no stop strings."""
