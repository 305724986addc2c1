"""How a model's replies are drawn unless the user says otherwise: its preset, kept in its manifest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol

from edgedec.core.errors import UsageError

MOST_STOPS = 16
MOST_STOP_CHARS = 200
MOST_SYSTEM_CHARS = 20_000
_MOST = 100.0
"""The highest temperature, penalty and top-n-sigma of a preset; models are published with 0 to 2."""
_MOST_K = 2**31 - 1


class SamplingValues(Protocol):
    """The values that decide how a token is drawn, without the seed."""

    @property
    def temperature(self) -> float: ...
    @property
    def top_k(self) -> int: ...
    @property
    def top_p(self) -> float: ...
    @property
    def min_p(self) -> float: ...
    @property
    def top_n_sigma(self) -> float: ...
    @property
    def repetition_penalty(self) -> float: ...


DRAWING = ("temperature", "top_k", "top_p", "min_p", "top_n_sigma", "repetition_penalty")
"""The fields of ``SamplingValues``."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Sampling values, system message and stop strings that suit a model; every default is "off".

    The values mean what they mean in ``SamplingParams``. ``system`` is for models whose chat template brings
    no system message of its own. ``stops`` end a reply, as the user's own do.

    Raises UsageError for a value outside its range.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    top_n_sigma: float = 0.0
    repetition_penalty: float = 1.0
    system: str | None = None
    stops: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_ranges(self)
        for name in ("temperature", "top_n_sigma", "repetition_penalty"):
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
        parts = [summary(self)]
        parts += [f"system message {self.system!r:.60}"] if self.system else []
        parts += [f"ends at {', '.join(map(repr, self.stops))}"] if self.stops else []
        return ", ".join(parts)


def summary(given: SamplingValues) -> str:
    """Describe how tokens are drawn, in words: ``temperature 0.2, top-p 0.9``, or ``greedy``."""
    parts = [
        f"{_words(name)} {getattr(given, name):g}"
        for name in DRAWING
        if name != "temperature" and getattr(given, name) != getattr(OFF, name)
    ]
    first = "greedy" if given.temperature == 0.0 else f"temperature {given.temperature:g}"
    return ", ".join([first, *parts])


def check_ranges(given: SamplingValues) -> None:
    """Raise UsageError for a value that drawing cannot use."""
    _check("temperature", given.temperature, 0.0 <= given.temperature < math.inf, "0 (greedy) or more")
    _check("top-k", given.top_k, whole(given.top_k) and given.top_k >= 0, "0 (off) or a positive integer")
    _check("top-p", given.top_p, 0.0 < given.top_p <= 1.0, "above 0 and at most 1 (off)")
    _check("min-p", given.min_p, 0.0 <= given.min_p <= 1.0, "between 0 (off) and 1")
    _check("top-n-sigma", given.top_n_sigma, 0.0 <= given.top_n_sigma < math.inf, "0 (off) or more")
    penalty = given.repetition_penalty
    _check("repetition penalty", penalty, 0.0 < penalty < math.inf, "above 0 (1 is off)")


def whole(value: object) -> bool:
    """Whether a value is an integer, and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def _words(name: str) -> str:
    return name.replace("_", " " if name == "repetition_penalty" else "-")


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
