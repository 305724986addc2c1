"""Chooses the format of each matrix: the least harm within a size."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

LADDER = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0")
"""Formats to choose among, from the smallest to the largest."""
_LAYER = re.compile(r"blk\.(\d+)\.(.+)\.weight")

Table = Mapping[str, Mapping[str, float]]
"""A number for each format, by the name of a matrix."""


def choose(harms: Table, sizes: Table, limit: int) -> dict[str, str]:
    """Return a format for each matrix with sizes of at most ``limit`` in all, where the least ones fit.

    From the smallest formats on, it takes the step that removes most harm for a byte, while it fits. Equal
    ones are taken in the order of names. One format for all is taken where that does less harm.
    """
    chosen = dict.fromkeys(sizes, LADDER[0])
    left = limit - sum(sizes[name][LADDER[0]] for name in sizes)
    steps = [(name, step) for name in sizes for step in _steps(harms[name], sizes[name])]
    for name, (_, before, after) in sorted(steps, key=lambda one: (-one[1][0], one[0])):
        cost = sizes[name][after] - sizes[name][before]
        if chosen[name] == before and cost <= left:
            chosen[name], left = after, left - cost
    alike = [dict.fromkeys(sizes, format) for format in LADDER[1:]]
    fitting = [one for one in alike if _sum(sizes, one) <= limit]
    return min([chosen, *fitting], key=lambda one: _sum(harms, one))


def _sum(table: Table, formats: Mapping[str, str]) -> float:
    return math.fsum(table[name][format] for name, format in formats.items())


def _steps(harms: Mapping[str, float], sizes: Mapping[str, float]) -> Iterator[tuple[float, str, str]]:
    """Yield (gain for a byte, format, next format) along the formats that no mean of two others beats."""
    hull: list[str] = []
    for format in LADDER:
        if hull and harms[format] >= harms[hull[-1]]:
            continue
        while len(hull) > 1 and _gain(harms, sizes, hull[-2], hull[-1]) <= _gain(
            harms, sizes, hull[-1], format
        ):
            hull.pop()
        hull.append(format)
    for before, after in pairwise(hull):
        yield _gain(harms, sizes, before, after), before, after


def _gain(harms: Mapping[str, float], sizes: Mapping[str, float], before: str, after: str) -> float:
    return (harms[before] - harms[after]) / (sizes[after] - sizes[before])


def show_formats(formats: Mapping[str, str]) -> str:
    """Return one line with the formats of all matrices, layers of a kind together.

    >>> show_formats({f"blk.{i}.attn_q.weight": "q4_0" if i < 3 else "q8_0" for i in range(4)})
    'attn_q: q4_0 0-2, q8_0 3'
    """
    kinds: dict[str, dict[str, list[int]]] = {}
    for name, format in formats.items():
        found = _LAYER.fullmatch(name)
        layers = kinds.setdefault(found[2] if found else name.removesuffix(".weight"), {})
        layers.setdefault(format, []).extend([int(found[1])] if found else [])
    return "; ".join(
        f"{kind}: " + ", ".join(f"{format} {_runs(layers[format])}".rstrip() for format in sorted(layers))
        for kind, layers in sorted(kinds.items())
    )


def _runs(numbers: list[int]) -> str:
    ordered = sorted(numbers)
    firsts = [one for one in ordered if one - 1 not in ordered]
    lasts = [one for one in ordered if one + 1 not in ordered]
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(firsts, lasts, strict=True))
