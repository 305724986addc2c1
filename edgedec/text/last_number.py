"""The last number of a text: the answer to a question that asks for one."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")


def last_number(text: str) -> str | None:
    """Return the last number of a text in the form that is compared; None if there is none."""
    found = [match.group() for match in _NUMBER.finditer(text)]
    return re.sub(r"\.$", "", re.sub(r"[,$]", "", found[-1])) if found else None
