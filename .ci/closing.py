"""Print one closing line for runs of pytest, the later ones of tests that an earlier one skipped.

`python .ci/closing.py "torch playwright" LOG...`: tests that a log skipped for these ran later.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from functools import partial
from pathlib import Path

CLOSING = re.compile(r"^=+ (.*\S) in ([\d.]+)s\b.*=$", re.MULTILINE)
SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] (.*)$", re.MULTILINE)
COUNT = re.compile(r"(\d+) ([a-z]+)")
COLOUR = re.compile(r"\x1b\[[\d;]*m")
PLURAL = {"error": "errors", "warning": "warnings"}
ORDER = ("failed", "passed", "skipped", "xfailed", "xpassed", "warnings", "errors")


def closing(again: list[str], logs: list[str]) -> str:
    """Return the line; runs that selected nothing have no part in it."""
    counts, seconds = Counter[str](), 0.0
    for log in map(partial(COLOUR.sub, ""), logs):
        lines = CLOSING.findall(log)
        if not lines:
            sys.exit("a run of pytest printed no closing line")
        words, time = lines[-1]
        seconds += float(time)
        for number, kind in COUNT.findall(words):
            counts[PLURAL.get(kind, kind)] += int(number)
        for number, reason in SKIPPED.findall(log):
            counts["skipped"] -= int(number) if any(tool in reason for tool in again) else 0
    told = ", ".join(f"{counts[kind]} {kind}" for kind in ORDER if counts[kind] > 0)
    return f"==== {told or 'no tests ran'} in {seconds:.2f}s ===="


if __name__ == "__main__":
    texts = [Path(name).read_text(encoding="utf-8", errors="replace") for name in sys.argv[2:]]
    print(closing(sys.argv[1].split(), texts))
