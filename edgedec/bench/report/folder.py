"""Results of parts in files: a report that was interrupted goes on after its last whole part."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from edgedec.bench.harness.other_load import OtherLoad
from edgedec.core.errors import BadFileError, UsageError
from edgedec.disk.files import TRANSIENT, atomic_path, storage_errors
from edgedec.telemetry.cores import load_average, usable_cores

CONDITIONS, PARTS, JOURNALS = "conditions.json", "parts", "replies"
"""Names in the folder: the conditions, results of parts, and single replies."""
DAMAGE = (BadFileError, KeyError, TypeError, ValueError, AttributeError, IndexError)
"""Errors of reading a file that is damaged, or not as this version writes it."""
_CHANGES = "give the same options, or name another folder"


class PartsFolder:
    """The folder of one report."""

    def __init__(self, path: Path, conditions: Mapping[str, Any]) -> None:
        """Raises UsageError for a folder that another report or anything else is in, and StorageError."""
        self.path = path
        file = path / CONDITIONS
        with storage_errors(str(path)):
            (path / PARTS).mkdir(parents=True, exist_ok=True)
        if not file.exists():
            if strange := next((one for one in path.iterdir() if not _own(one.name)), None):
                hint = "name another folder"
                raise UsageError(f"{path} holds other files, such as {strange.name}", hint=hint)
            write_json(file, dict(conditions))
        found, conditions = read_json(file), json.loads(json.dumps(dict(conditions)))  # as the file has them
        different = [name for name, value in conditions.items() if found.get(name) != value]
        if different or len(found) != len(conditions):
            now = [f"{name} {found.get(name)}, now {conditions[name]}" for name in different]
            shown = "; ".join(now) or "others"
            raise UsageError(f"{path} was measured under other conditions: {shown}", hint=_CHANGES)

    def part(
        self,
        name: str,
        measure: Callable[[], Mapping[str, Any]],
        check: Callable[[dict[str, Any]], object] = dict,
        read: Callable[[], float] | None = None,
    ) -> dict[str, Any]:
        """Return the part as it is kept, or measure and keep it.

        A kept part for which ``check`` raises an error of ``DAMAGE`` is measured again.

        It has the ``result``, the time ``at``, the ``seconds`` it took, the load averages around it, the
        share of the cores that ``others`` took, and what ``read`` returned around it: the machine's speed.
        """
        file = self.path / PARTS / f"{name}.json"
        with suppress(*DAMAGE):
            if file.exists():
                check(kept := read_json(file))
                return kept
        load, readings = load_average(), [] if read is None else [read()]
        began, others = time.perf_counter(), OtherLoad()
        result = dict(measure())
        share = others.share(usable_cores())
        found = {
            "at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "seconds": round(time.perf_counter() - began, 1),
            "readings": readings if read is None else [*readings, read()],
            "others": None if share is None else round(share, 3),
            "load_average": load,
            "load_average_after": load_average(),
            "result": result,
        }
        write_json(file, found)
        return found

    def kept(self) -> list[str]:
        """Return the names of the parts that are measured."""
        return sorted(file.stem for file in (self.path / PARTS).glob("*.json"))


def _own(name: str) -> bool:
    """Whether a file of a folder without conditions is of a report that was killed as it began."""
    return name == PARTS or (name.startswith(CONDITIONS) and TRANSIENT.search(name) is not None)


def write_json(file: Path, value: Mapping[str, Any]) -> None:
    """Replace a file. Raises StorageError."""
    with atomic_path(file) as temporary:
        text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
        temporary.write_text(text, encoding="utf-8", newline="\n")


def read_json(file: Path) -> dict[str, Any]:
    """Read an object. Raises BadFileError."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError
    except (OSError, ValueError, RecursionError) as error:
        raise BadFileError(f"{file} is damaged or missing", hint="remove it, and measure again") from error
    return found
