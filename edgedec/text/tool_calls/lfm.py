"""LFM2: ``<|tool_call_start|>[weather(town="Rome")]<|tool_call_end|>``; some write JSON within the tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgedec.text.tool_calls.family import Family, Schemas, tagged
from edgedec.text.tool_calls.json_calls import json_calls
from edgedec.text.tool_calls.python_calls import calls_of, give, python_text
from edgedec.text.tool_calls.scanner import NoCallError, Scanner, Wait

BEGIN, END = "<|tool_call_start|>", "<|tool_call_end|>"
_MOST = 100_000


def _call(scanner: Scanner, schemas: Schemas) -> Wait:
    yield from scanner.space()
    while scanner.text.rstrip() == "[" and (yield from scanner.more()):
        pass
    if scanner.text.lstrip("[ \n\t").startswith("{"):
        yield from json_calls(scanner)
        yield from scanner.space()
        yield from scanner.next_is(END)
        return
    while END not in scanner.text and (yield from scanner.more()):
        if len(scanner.text) > _MOST:
            raise NoCallError
    text, end, _ = scanner.text.partition(END)
    found = calls_of(text)
    scanner.take(len(text) + len(end))
    for name, arguments in found:
        give(scanner, name, arguments)


def _write(name: str, arguments: Mapping[str, Any]) -> str:
    given = ", ".join(f"{key}={python_text(value)}" for key, value in arguments.items())
    return f"{BEGIN}[{name}({given})]{END}"


LFM = Family(
    "lfm",
    lambda template: BEGIN in template or "<|tool_list_start|>" in template or "List of tools: [" in template,
    tagged((BEGIN,), _call),
    (BEGIN, END),
    write=_write,
)
