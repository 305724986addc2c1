"""Two reports side by side: of two machines, two versions or two models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgedec.bench.report.contents import PARTS, Report
from edgedec.bench.report.views import Figure, TableView, View, number
from edgedec.core.quick_dataclass import dataclass

SAME, BETTER, WORSE = "no difference seen", "better", "worse"


@dataclass(frozen=True, slots=True)
class Pair:
    """One figure of both reports; ``ratio`` is the second by the first, None where the first is 0.

    ``slowed``: the most by which other programs slowed down the first and the second measurement, as factors.
    On a quiet machine it could have been quicker by so much: the interval of a figure that other load changes
    reaches as far.
    """

    first: Figure
    second: Figure
    slowed: tuple[float, float] = (1.0, 1.0)

    @property
    def ratio(self) -> float | None:
        return self.second.value / self.first.value if self.first.value else None

    @property
    def verdict(self) -> str:
        """Return "better" or "worse" for the second where the intervals part; "" without a direction."""
        if not self.first.better:
            return ""
        figures = zip((self.first, self.second), self.slowed, strict=True)
        (low, high), (other_low, other_high) = (_bounds(one, slowed) for one, slowed in figures)
        if other_low <= high and low <= other_high:
            return SAME
        return BETTER if (other_low > high) == (self.first.better == "more") else WORSE

    def as_json(self) -> dict[str, Any]:
        ratio = None if self.ratio is None else round(self.ratio, 4)
        found = {"figure": self.first.name, "unit": self.first.unit, "better": self.first.better}
        sides = {
            name: {"value": one.value, "interval": one.interval and list(one.interval)}
            for name, one in (("first", self.first), ("second", self.second))
        }
        return {**found, **sides, "ratio": ratio, "verdict": self.verdict}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Pairs of figures by part, and what else differs."""

    first: Report
    second: Report

    @property
    def title(self) -> str:
        return f"{self.first.conditions['model']} and {self.second.conditions['model']}, side by side"

    @property
    def lines(self) -> tuple[str, str]:
        """Say which reports these are, and what was measured on a busy machine: ratios mislead there."""
        first, second = (" ".join((f"{one.title}.", *one.busy)) for one in (self.first, self.second))
        return f"First: {first}", f"Second: {second}"

    def differing(self) -> dict[str, tuple[Any, Any]]:
        """Return the conditions, and facts about the machines, that are not the same."""
        facts = [{**report.conditions, **_machine(report)} for report in (self.first, self.second)]
        names = dict.fromkeys([*facts[0], *facts[1]])
        pairs = {name: (facts[0].get(name), facts[1].get(name)) for name in names}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def pairs(self) -> dict[str, list[Pair]]:
        """Return the figures that both reports have."""
        first, second = self.first.figures(), self.second.figures()
        found = {}
        for title in (title for title in first if title in second):
            theirs, slowed = {one.name: one for one in second[title]}, self._slowed(title)
            found[title] = [Pair(one, theirs[one.name], slowed) for one in first[title] if one.name in theirs]
        return found

    def _slowed(self, title: str) -> tuple[float, float]:
        """Return how much other programs slowed down this part of both reports."""
        unrest = self.unrest
        return max(self.first.slowdown(title), unrest), max(self.second.slowdown(title), unrest)

    @property
    def unrest(self) -> float:
        """The most by which a read of memory took longer than another one, beside the parts of both reports.

        Reports of different machines are compared by the unrest within each.
        """
        first, second = self.first.readings, self.second.readings
        same = all(self.first.conditions.get(name) == self.second.conditions.get(name)
                   for name in ("cpu", "threads"))  # fmt: skip
        groups = [first + second] if same else [first, second]
        return max((max(some) / min(some) for some in groups if some), default=1.0)

    def alone(self) -> tuple[list[str], list[str]]:
        """Return the figures that only the first report has, and those that only the second has.

        A part that the other one lacks is named as a whole.
        """
        first, second = self.first.figures(), self.second.figures()
        return _missing(first, second), _missing(second, first)

    def parts(self) -> list[tuple[str, View]]:
        """Return the comparison as parts of a page."""
        rows = tuple((name, _shown(a), _shown(b)) for name, (a, b) in self.differing().items())
        same = ("Both were measured under the same conditions, on the same kind of machine.",)
        tables = (TableView(("", "first", "second"), rows),) if rows else ()
        views = [("Differences", View(() if rows else same, tables))]
        for title, pairs in self.pairs().items():
            head = ("figure", "first", "second", "second by first", "")
            views.append((title, View(tables=(TableView(head, tuple(map(_row, pairs))),))))
        alone = [f"Only in the {which}: {'; '.join(names)}." for which, names in
                 zip(("first", "second"), self.alone(), strict=True) if names]  # fmt: skip
        return [*views, ("Not in both", View(tuple(alone)))] if alone else views

    def as_json(self) -> dict[str, Any]:
        return {
            "first": dict(self.first.conditions),
            "second": dict(self.second.conditions),
            "differing": {name: list(pair) for name, pair in self.differing().items()},
            "figures": {title: [pair.as_json() for pair in pairs] for title, pairs in self.pairs().items()},
            "only_first": self.alone()[0],
            "only_second": self.alone()[1],
        }


def _bounds(one: Figure, slowed: float) -> tuple[float, float]:
    """Return the bounds of a figure on a quiet machine."""
    low, high = one.interval or (one.value, one.value)
    if not one.timed:
        return low, high
    return (low, high * slowed) if one.better == "more" else (low / slowed, high)


def _missing(here: Mapping[str, list[Figure]], there: Mapping[str, list[Figure]]) -> list[str]:
    """Return names of the figures of ``here`` that ``there`` lacks; a whole part by its title."""
    found = []
    for title, figures in here.items():
        known = {one.name for one in there.get(title, ())}
        lacking = [f"{title}: {one.name}" for one in figures if one.name not in known]
        found += lacking if title in there else [title]
    return found


def _machine(report: Report) -> Mapping[str, Any]:
    found = report.parts.get("machine", {}).get("result", {}).get("machine", {})
    kept = ("system", "architecture", "cores", "logical_cpus", "memory_bytes", "features")
    loads = {
        f"load before {title}": report.parts[name]["load_average"]
        for name, (title, _) in PARTS.items()
        if report.parts.get(name, {}).get("load_average") is not None
    }
    return {name: found.get(name) for name in kept} | loads


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, float):
        return number(value)
    return "-" if value is None else str(value)


def _row(pair: Pair) -> tuple[str, ...]:
    return pair.first.name, pair.first.worded(), pair.second.worded(), number(pair.ratio), pair.verdict
