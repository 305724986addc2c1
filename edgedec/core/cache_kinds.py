"""The kinds of cache that a model keeps: keys and values, and what recurrent layers remember."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from edgedec.core.quick_dataclass import dataclass

TRAIL_SLOTS = 32
"""Newest tokens of a sequence whose rows a trail holds."""
_NAMES = {"keys": ("kv_cache", "kv_window"), "states": ("delta", "conv")}
_MOST = 1 << 24


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys and values of all tokens, or with a ``window`` of the newest.

    They are f16[layers, 2, kv heads, slots, row].

    ``name``: the input of the graph. ``layers``: those that have keys of their own; others may read them.
    """

    name: str
    layers: int
    kv_heads: int
    head_dim: int
    window: int = 0


@dataclass(frozen=True, slots=True)
class States:
    """The memory of recurrent layers, whose size does not depend on the context.

    The inputs of the graph are ``{name}_trail`` f32[layers, slots, trail] and, with ``state`` > 0,
    ``{name}_state`` f32[layers, sequences, state]. A trail row is what the recurrence needs of one token.
    The state covers the first ``applied`` tokens; later ones are applied from their rows in the trail.
    """

    name: str
    layers: int
    trail: int
    """Numbers of a token's row in one layer."""
    tail: int
    """Rows before a pass that it reads: the width of the convolution less one."""
    state: int = 0
    """Numbers of one layer's state; 0: the trail is all there is."""

    @property
    def undone(self) -> int:
        """Most tokens that can be taken back: those whose rows are there beside the tail's."""
        return TRAIL_SLOTS - self.tail


CacheKind = Keys | States


def kinds_as_json(kinds: Iterable[CacheKind]) -> list[dict[str, Any]]:
    """Return the form in a manifest."""
    return [{"kind": "keys" if isinstance(kind, Keys) else "states", **asdict(kind)} for kind in kinds]


def kinds_from_json(value: object) -> tuple[CacheKind, ...]:
    """Read that form back. Raises TypeError, which says what is wrong."""
    if not isinstance(value, list):
        raise TypeError("is no list")
    kinds = tuple(_kind(row) for row in value)
    names = [kind.name for kind in kinds]
    if not kinds or len(set(names)) < len(names):
        raise TypeError("lists no kind of cache, or one twice")
    return kinds


def _kind(row: object) -> CacheKind:
    if not isinstance(row, Mapping):
        raise TypeError("lists something that is no kind of cache")
    what, name = row.get("kind"), row.get("name")
    if not isinstance(what, str) or not isinstance(name, str) or name not in _NAMES.get(what, ()):
        raise TypeError("lists a kind of cache that this EdgeDec does not know")
    layers = _size(row, "layers")
    if what == "keys":
        keys = Keys(name, layers, _size(row, "kv_heads"), _size(row, "head_dim"), _size(row, "window", 0))
        if (keys.window > 0) != (name == "kv_window"):
            raise TypeError("has a window where there is none, or none where there is one")
        return keys
    states = States(name, layers, _size(row, "trail"), _size(row, "tail"), _size(row, "state", 0))
    if states.tail >= TRAIL_SLOTS:
        raise TypeError(f"reads {states.tail} rows before a pass: at most {TRAIL_SLOTS - 1}")
    return states


def _size(row: Mapping[str, object], key: str, least: int = 1) -> int:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
        raise TypeError(f"has no proper {key}")
    return value
