"""Mistral: ``[TOOL_CALLS][{"name": ..., "arguments": {...}, "id": ...}]``.

Models since Small 3.2 write ``[TOOL_CALLS]NAME[ARGS]{...}``, perhaps with ``[CALL_ID]`` and an id between.
"""

from __future__ import annotations

import re

from edgedec.text.tool_calls.family import Family, Schemas, tagged
from edgedec.text.tool_calls.hermes import named
from edgedec.text.tool_calls.json_calls import json_calls
from edgedec.text.tool_calls.scanner import NoCallError, Scanner, Wait

BEGIN, ARGUMENTS, CALL_ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"
_NAME = re.compile(r"\s*[\w.:/-]+\s*")
_MOST_NAME = 200


def _call(scanner: Scanner, schemas: Schemas) -> Wait:
    yield from scanner.space()
    if scanner.text.startswith(("[", "{")):
        yield from json_calls(scanner)
        return
    name, mark = yield from scanner.until(ARGUMENTS, CALL_ID, "{", most=_MOST_NAME)
    if not _NAME.fullmatch(name):
        raise NoCallError
    if mark == CALL_ID:
        yield from scanner.until(ARGUMENTS, most=_MOST_NAME)
    scanner.begin(name.strip())
    if mark == "{":
        scanner.put_back(mark)
    yield from scanner.space()
    if not scanner.text.startswith("{"):
        scanner.arguments("{}")
        return
    yield from scanner.value(scanner.arguments)


MISTRAL = Family(
    "mistral",
    lambda template: BEGIN in template and ARGUMENTS not in template,
    tagged((BEGIN,), _call),
    (BEGIN, ARGUMENTS, CALL_ID),
    lambda name: (f"{BEGIN}[{named(name)}", "}]"),
)
MISTRAL_ARGS = Family(
    "mistral-args",
    lambda template: BEGIN in template and ARGUMENTS in template,
    tagged((BEGIN,), _call),
    (BEGIN, ARGUMENTS, CALL_ID),
    lambda name: (f"{BEGIN}{name}{ARGUMENTS}", ""),
)
