"""Print one of the two commands in README's section Start: `python .ci/start.py chat`, or `tests`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECTION = re.compile(r"^## Start\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
ENDS = {"chat": re.compile(r"/edgedec chat( [\w.-]+)?$"), "tests": re.compile(r" -m pytest( -.*)?$")}
"""How the commands end, in the order in which they stand."""


def commands(readme: str) -> dict[str, str]:
    """Return the commands by name; end the process where README has others than those two."""
    sections = SECTION.findall(readme)
    blocks = [block.strip() for block in FENCED.findall(sections[0])] if sections else []
    if len(blocks) != len(ENDS):
        sys.exit(f"README's section Start has {len(blocks)} sh blocks, not {len(ENDS)}: {' and '.join(ENDS)}")
    for (name, end), block in zip(ENDS.items(), blocks, strict=True):
        if "\n" in block or not end.search(block):
            sys.exit(f"README's command for {name} is not one line that matches {end.pattern}: {block}")
    return dict(zip(ENDS, blocks, strict=True))


def main(names: list[str]) -> None:
    if len(names) != 1 or names[0] not in ENDS:
        sys.exit(f"name one of: {', '.join(ENDS)}")
    print(commands((ROOT / "README.md").read_text(encoding="utf-8"))[names[0]])


if __name__ == "__main__":
    main(sys.argv[1:])
