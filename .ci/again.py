"""Print tests that the last run of pytest skipped for tools, a line each: `python .ci/again.py torch`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LACKED = ROOT / ".pytest_cache" / "v" / "edgedec" / "lacked"
"""Tool by test or file; written by tests/conftest.py."""


def skipped_for(tools: list[str], lacked: dict[str, str]) -> list[str]:
    """Return ids of tests, those of whole files first, without tests of these files."""
    found = [test for test, tool in lacked.items() if tool in tools]
    files = {test for test in found if "::" not in test}
    return sorted(files) + sorted(test for test in found if test.partition("::")[0] not in files)


if __name__ == "__main__":
    print("\n".join(skipped_for(sys.argv[1:], json.loads(LACKED.read_text(encoding="utf-8")))))
