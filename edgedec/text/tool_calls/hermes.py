"""Tags around JSON: Hermes, Qwen2.5, Qwen3, SmolLM3, Granite 4.

<tool_call>{"name": ..., "arguments": {...}}</tool_call>
"""

from __future__ import annotations

import json

from edgedec.text.tool_calls.family import Family, Schemas, tagged
from edgedec.text.tool_calls.json_calls import json_calls
from edgedec.text.tool_calls.scanner import Scanner, Wait

BEGIN, END = "<tool_call>", "</tool_call>"


def read(scanner: Scanner, schemas: Schemas) -> Wait:
    """Read the calls behind a tag, and the closing one if it is there."""
    yield from json_calls(scanner)
    yield from scanner.space()
    yield from scanner.next_is(END)


def named(name: str) -> str:
    """Return a call up to its arguments, as Python's JSON spells it."""
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": '


HERMES = Family(
    "hermes",
    lambda template: BEGIN in template,
    tagged((BEGIN,), read),
    (BEGIN, END),
    lambda name: (f"{BEGIN}\n{named(name)}", f"}}\n{END}"),
)
