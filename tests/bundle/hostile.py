"""What a hostile manifest of any kind looks like."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgedec.disk.listed_files import sealed

HASH = "0" * 64
FILES: list[tuple[tuple[str, ...], Any]] = [
    (("files",), []),
    (("files", "../secret"), {"bytes": 1, "sha256": HASH}),
    (("files", "/etc/passwd"), {"bytes": 1, "sha256": HASH}),
    (("files", "a\\b"), {"bytes": 1, "sha256": HASH}),
    (("files", ".."), {"bytes": 1, "sha256": HASH}),
]
TEXTS = ["", "{", "[]", "null", "[" * 100_000, '{"a": NaN}', "\x00", '"x"', "{" + " " * 2_000_000 + "}"]


def edit(file: Path, path: tuple[str, ...], value: Any) -> None:
    """Set (or with ... delete) one field of a manifest on disk."""
    data = json.loads(file.read_text())
    place = data
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    file.write_text(json.dumps(json.loads(sealed(data))))  # in ASCII
