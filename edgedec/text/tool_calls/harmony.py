"""Calls of gpt-oss: ``to=functions.NAME<|channel|>commentary json<|message|>`` and the arguments as JSON."""

from __future__ import annotations

import re

from edgedec.text.channels import CHANNEL, MESSAGE, call_header, has_channels
from edgedec.text.tool_calls.family import Family, Schemas, tagged
from edgedec.text.tool_calls.scanner import NoCallError, Scanner, Wait

_BEGIN, _END = "to=functions.", "<|call|>"
_NAME = re.compile(r"[\w.-]+")
_LONGEST = 200
"""Most characters of a name, and of what stands between it and the arguments."""


def _call(scanner: Scanner, schemas: Schemas) -> Wait:
    name, _ = yield from scanner.until(CHANNEL, most=_LONGEST)
    yield from scanner.until(MESSAGE, most=_LONGEST)
    if not _NAME.fullmatch(name := name.strip()):
        raise NoCallError
    yield from scanner.space()
    if not scanner.text.startswith("{"):
        raise NoCallError
    scanner.begin(name)
    yield from scanner.value(scanner.arguments)
    yield from scanner.next_is(_END)


HARMONY = Family(
    "harmony",
    lambda template: has_channels(template) and "functions" in template,
    tagged((_BEGIN,), _call),
    (f" {_BEGIN}",),
    around=lambda name: (f" {call_header(f'functions.{name}')}", ""),
)
