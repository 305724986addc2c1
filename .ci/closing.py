"""Print one closing line for runs of pytest, the later ones of tests that an earlier one skipped.

`python .ci/closing.py AGAIN LOG...`: the file AGAIN has a line for each of these tests.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

CLOSING = re.compile(r"^=+ (.*\S) in ([\d.]+)s\b.*=$", re.MULTILINE)
COUNT = re.compile(r"(\d+) ([a-z]+)")
COLOUR = re.compile(r"\x1b\[[\d;]*m")
PLURAL = {"error": "errors", "warning": "warnings"}
ORDER = ("failed", "passed", "skipped", "xfailed", "xpassed", "warnings", "errors")


def closing(again: int, logs: list[str]) -> str:
    """Return the line; runs that selected nothing have no part in it."""
    counts, seconds = Counter({"skipped": -again}), 0.0
    for log in logs:
        lines = CLOSING.findall(COLOUR.sub("", log))
        if not lines:
            sys.exit("a run of pytest printed no closing line")
        words, time = lines[-1]
        seconds += float(time)
        for number, kind in COUNT.findall(words):
            counts[PLURAL.get(kind, kind)] += int(number)
    told = ", ".join(f"{counts[kind]} {kind}" for kind in ORDER if counts[kind] > 0)
    return f"==== {told or 'no tests ran'} in {seconds:.2f}s ===="


if __name__ == "__main__":
    again, *logs = (Path(name).read_text(encoding="utf-8", errors="replace") for name in sys.argv[1:])
    print(closing(len(again.split("\n")) - 1 if again.strip() else 0, logs))
