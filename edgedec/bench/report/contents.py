"""All parts of a report, and what they were measured under."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from edgedec.bench.harness.other_load import slowdown
from edgedec.bench.report.folder import DAMAGE, PartsFolder, read_json, write_json
from edgedec.bench.report.parts import budgets, drafts, machine, memory, passes, quality
from edgedec.bench.report.subject import Subject
from edgedec.bench.report.views import Figure, TableView, View
from edgedec.core.errors import BadFileError, EdgeDecError, NotFoundError, StorageError
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass

FORMAT = 2
_BUSY_SHARE = 0.05
REPORT, SUMMARY = "report.json", "In short"
PARTS: dict[str, tuple[str, ModuleType]] = {
    "machine": ("Machine", machine),
    "passes": ("Passes", passes),
    "memory": ("Memory plan", memory),
    "drafts": ("Drafters", drafts),
    "budgets": ("Speed over memory", budgets),
    "quality": ("Quality checks", quality),
}
"""Parts in the order of the report, with their titles. A new part is a file in ``parts`` and a line here."""
_FIRST = "memory"
"""Measured before the others, which make this process larger: a plan counts the process, too."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report as its JSON has it."""

    conditions: Mapping[str, Any]
    parts: Mapping[str, Mapping[str, Any]]

    @property
    def title(self) -> str:
        count = self.conditions["threads"]
        plural = "s" if count != 1 else ""
        return f"{self.conditions['model']} on {self.conditions['cpu']}, {count} thread{plural}"

    @property
    def busy(self) -> tuple[str, ...]:
        """A line about parts that were measured while other programs ran; none where it was quiet."""
        cores = self._cores
        parts = [title for name, (title, _) in PARTS.items() if _busy(self.parts.get(name, {}), cores)]
        if not (cores and parts):
            return ()
        return (f"Other programs ran beside these parts, which were slower for it: {', '.join(parts)}.",)

    def views(self) -> list[tuple[str, View]]:
        """Return title and view of the summary and each part. A part that could not be measured says why."""
        parts = [(title, _view(kind, self.parts.get(name, {}))) for name, (title, kind) in PARTS.items()]
        return [(SUMMARY, View(tables=(TableView(("", ""), self._rows()),))), *parts]

    def _rows(self) -> tuple[tuple[str, str], ...]:
        """Return the most telling figures of the parts that were measured, in words."""
        found = [one for figures in self.figures().values() for one in figures if one.short]
        return tuple((one.short, one.worded()) for one in found)

    @property
    def readings(self) -> list[float]:
        """The memory bandwidth before and after each part, in GB/s."""
        return [float(one) for part in self.parts.values() for one in part.get("readings", ())]

    def slowdown(self, title: str) -> float:
        """Return the most by which other programs slowed down the part of this title, as a factor."""
        part = next((self.parts.get(name, {}) for name, (other, _) in PARTS.items() if other == title), {})
        return slowdown(part.get("others"), self._cores)

    @property
    def _cores(self) -> int:
        return int(self.parts.get("machine", {}).get("result", {}).get("machine", {}).get("cores", 0))

    @property
    def absent(self) -> tuple[str, ...]:
        """Titles of the parts that could not be measured."""
        return tuple(title for name, (title, _) in PARTS.items() if "result" not in self.parts.get(name, {}))

    def figures(self) -> dict[str, list[Figure]]:
        """Return the figures of the parts that were measured, by title."""
        return {
            title: kind.figures(self.parts[name]["result"])
            for name, (title, kind) in PARTS.items()
            if "result" in self.parts.get(name, {})
        }

    @property
    def differing_replies(self) -> int:
        """Replies with drafts that differ from plain decoding: more than none is a bug."""
        found = self.parts.get("drafts", {}).get("result", {}).get("differing_replies", {})
        return sum(one["replies"] for one in found.values())

    def as_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "conditions": dict(self.conditions), "parts": dict(self.parts)}

    def write(self, folder: Path) -> None:
        """Write ``report.json``. Raises StorageError."""
        write_json(folder / REPORT, self.as_json())

    @classmethod
    def read(cls, path: Path) -> Report:
        """Read the report of a folder, or a file. Raises NotFoundError, BadFileError."""
        file = path / REPORT if path.is_dir() else path
        if not file.is_file():
            raise NotFoundError(f"there is no report in {path}", hint=f"a report is a folder with {REPORT}")
        found = read_json(file)
        try:
            if found["format"] != FORMAT:
                written = f"{file} is a report of format {found['format']!r:.40}"
                raise BadFileError(f"{written}; this version reads format {FORMAT}", hint="measure again")
            report = cls(dict(found["conditions"]), dict(found["parts"]))
            _ = report.title, report.differing_replies, report.readings  # they raise
            _ = [report.slowdown(title) for title, _ in PARTS.values()]
            for name in PARTS.keys() & report.parts.keys():
                _check(PARTS[name][1], report.parts[name])
        except BadFileError:
            raise
        except DAMAGE as error:
            raise BadFileError(f"{file} is no report, or is damaged", hint="measure again") from error
        return report


def measure(subject: Subject, folder: PartsFolder, progress: Progress) -> Report:
    """Measure the parts that ``folder`` lacks.

    A part that fails gets the reason in place of a result, and is tried the next time. Raises StorageError
    where results cannot be written.
    """
    parts: dict[str, Mapping[str, Any]] = {}
    for index, (name, (title, kind)) in enumerate(sorted(PARTS.items(), key=lambda one: one[0] != _FIRST)):
        heading = f"{index + 1}/{len(PARTS)} {title}"
        progress(heading, 0, 1)

        def steps(stage: str, done: int, total: int, heading: str = heading) -> None:
            progress(f"{heading}: {stage}", done, total)

        try:
            parts[name] = folder.part(
                name, partial(kind.measure, subject, steps), partial(_check, kind), subject.reading
            )
        except StorageError:
            raise  # nothing that is measured from here on could be kept
        except EdgeDecError as error:
            parts[name] = {"absent": error.message}
    return Report(subject.conditions(), {name: parts[name] for name in PARTS})


def _busy(part: Mapping[str, Any], cores: int) -> bool:
    """Whether more ran than the part itself, which may keep all cores busy: that is the load after it."""
    if (others := part.get("others")) is not None:
        return bool(others > _BUSY_SHARE)
    before, after = (part.get(name) or 0.0 for name in ("load_average", "load_average_after"))
    return before > cores / 2 or after > 1.5 * cores


def _check(kind: ModuleType, part: Mapping[str, Any]) -> None:
    """Raise one of ``DAMAGE`` unless a page can be made of the part."""
    _view(kind, part)
    for one in kind.figures(part["result"]) if "result" in part else ():
        one.worded()


def _view(kind: ModuleType, part: Mapping[str, Any]) -> View:
    if "result" not in part:
        return View(lines=(f"Not measured: {part.get('absent', 'not reached')}.",))
    found: View = kind.view(part["result"])
    before, after = part["load_average"], part.get("load_average_after")
    load = "" if before is None else f", load {before:.1f} before"
    load += "" if after is None else f" and {after:.1f} after"
    taken = f"Measured {part['at']} in {part['seconds']:.0f} s{load}."
    return View(found.lines, found.tables, found.charts, (*found.notes, taken))
