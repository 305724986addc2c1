"""``<|tool_call|>`` and JSON: Granite 3 writes a list behind it, Phi-4-mini closes it with a tag."""

from __future__ import annotations

from edgedec.text.tool_calls.family import Family, Schemas, attempt, tagged
from edgedec.text.tool_calls.hermes import named
from edgedec.text.tool_calls.json_calls import json_calls
from edgedec.text.tool_calls.scanner import Scanner, Wait

BEGIN, END = "<|tool_call|>", "<|/tool_call|>"
_OTHER_PHI = "functools["


def _call(scanner: Scanner, schemas: Schemas) -> Wait:
    yield from json_calls(scanner)
    yield from scanner.space()
    yield from scanner.next_is(END)


def _phi(scanner: Scanner, schemas: Schemas) -> Wait:
    while (mark := (yield from scanner.content_until(BEGIN, _OTHER_PHI))) is not None:
        if mark == _OTHER_PHI:
            scanner.put_back("[")
        yield from attempt(scanner, _call(scanner, schemas))


PHI = Family(
    "phi",
    lambda template: END in template or "<|/tool|>" in template,
    _phi,
    (BEGIN, END),
    lambda name: (f"{BEGIN}[{named(name)}", f"}}]{END}"),
)
GRANITE = Family(
    "granite",
    lambda template: BEGIN in template and not PHI.knows(template),
    tagged((BEGIN, "<tool_call>"), _call),
    (BEGIN,),
    lambda name: (f"{BEGIN}[{named(name)}", "}]"),
)
