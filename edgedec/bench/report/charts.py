"""Charts in SVG, without a library and without styles: the colours of the page apply, light or dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from edgedec.bench.report.views import Chart, number
from edgedec.core.quick_dataclass import dataclass

WIDTH, HEIGHT = 480, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 14, 46, 46
_LEGEND_Y = 18
_TICKS = 5


@dataclass(frozen=True, slots=True)
class _Axis:
    """Values from ``low`` to ``high`` on pixels from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def at(self, value: float) -> float:
        low, high, here = (math.log2(one) if self.log else one for one in (self.low, self.high, value))
        return self.start + (here - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.log:
            steps = range(math.ceil(math.log2(self.low)), math.floor(math.log2(self.high)) + 1)
            return [2.0**step for step in steps]
        step = _nice((self.high - self.low) / _TICKS)
        count = math.floor(self.high / step + 1e-9)
        return [step * index for index in range(math.ceil(self.low / step - 1e-9), count + 1)]


def svg(chart: Chart) -> str:
    """Draw a chart as an ``svg`` element. Names and labels are escaped."""
    points = [point for line in chart.lines.values() for point in line]
    across = _axis([x for x, _ in points], (_LEFT, WIDTH - _RIGHT), chart.log)
    heights = [y for _, y in points]
    if not chart.log:
        heights += [0.0, 1.05 * max(heights)]
    up = _axis(heights, (HEIGHT - _BOTTOM, _TOP), chart.log)
    parts = [*_grid(across, up), *_labels(chart)]
    each = (WIDTH - _LEFT - _RIGHT) / len(chart.lines)
    for index, (name, line) in enumerate(chart.lines.items()):
        parts += _line(line, f"s{index}", name in chart.points, across.at, up.at)
        parts += _legend(name, index, _LEFT + index * each)
    label = escape(f"{chart.title}: {chart.y} over {chart.x}", quote=True)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _axis(values: Sequence[float], pixels: tuple[float, float], log: bool) -> _Axis:
    low, high = min(values), max(values)
    if high <= low:
        high = 2.0 * low if log else low + 1.0
    return _Axis(low, high, *pixels, log)


def _nice(step: float) -> float:
    """Return the smallest of 1, 2, 5, 10, ... times a power of ten that is at least ``step``."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))


def _grid(across: _Axis, up: _Axis) -> list[str]:
    bottom = HEIGHT - _BOTTOM
    parts = []
    for tick in across.ticks():
        x = across.at(tick)
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{_tick(tick)}</text>')
    for tick in up.ticks():
        y = up.at(tick)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_tick(tick)}</text>')
    return parts


def _tick(value: float) -> str:
    return number(value, 4) if value else "0"


def _labels(chart: Chart) -> list[str]:
    middle = (_TOP + HEIGHT - _BOTTOM) / 2
    across = f'x="{(WIDTH + _LEFT) / 2:.0f}" y="{HEIGHT - 10}"'
    up = f'transform="translate(14 {middle:.0f}) rotate(-90)"'
    return [
        f'<text {place} text-anchor="middle">{escape(label)}</text>'
        for place, label in ((across, chart.x), (up, chart.y))
    ]


def _line(
    line: Sequence[tuple[float, float]],
    style: str,
    dots: bool,
    x: Callable[[float], float],
    y: Callable[[float], float],
) -> list[str]:
    places = [f"{x(a):.1f} {y(b):.1f}" for a, b in line]
    parts = [f'<path class="line {style}" d="M{"L".join(places)}"/>']
    if dots:
        parts += [f'<circle class="{style}" cx="{x(a):.1f}" cy="{y(b):.1f}" r="4"/>' for a, b in line]
    return parts


def _legend(name: str, index: int, x: float) -> list[str]:
    """Draw a sample of a line and its name above the lines."""
    return [
        f'<path class="line s{index}" d="M{x:.0f} {_LEGEND_Y}h20"/>',
        f'<text x="{x + 26:.0f}" y="{_LEGEND_Y + 4}">{escape(name)}</text>',
    ]
