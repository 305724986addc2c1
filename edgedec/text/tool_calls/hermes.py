"""Tags around JSON: Hermes, Qwen2.5, Qwen3, SmolLM3, Granite 4.

<tool_call>{"name": ..., "arguments": {...}}</tool_call>

Small models leave the tags out: they write the object alone, or in a fence of Markdown. At the beginning of a
reply such an object is a call if its name is that of a tool. Qwen2.5's template shows the object in double
braces, and its models copy them.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from edgedec.text.tool_calls.family import Family, Schemas, attempt, tagged
from edgedec.text.tool_calls.json_calls import json_calls
from edgedec.text.tool_calls.scanner import NoCallError, Scanner, Wait

BEGIN, END = "<tool_call>", "</tool_call>"
_FENCE = "```json\n"


def read(scanner: Scanner, schemas: Schemas) -> Wait:
    """Read the calls behind a tag, and the closing one if it is there."""
    yield from _objects(scanner, bool)
    yield from scanner.space()
    yield from scanner.next_is(END)


def _objects(scanner: Scanner, accepts: Callable[[str], bool]) -> Wait:
    yield from scanner.space()
    doubled = yield from scanner.next_is("{{")
    if doubled:
        scanner.put_back("{")
    yield from json_calls(scanner, accepts)
    if doubled:
        yield from scanner.space()
        yield from scanner.next_is("}")


def _without_tags(scanner: Scanner, accepts: Callable[[str], bool]) -> Wait:
    yield from scanner.space()
    if scanner.strict and scanner.thought:  # a grammar keeps to its schema what begins the reply
        raise NoCallError
    fenced = yield from scanner.next_is(_FENCE)
    if not fenced and not scanner.text.startswith("{"):
        raise NoCallError
    yield from _objects(scanner, accepts)
    if fenced:
        yield from scanner.expect("```")


def _parser(scanner: Scanner, schemas: Schemas) -> Wait:
    scanner.hold()
    yield from attempt(scanner, _without_tags(scanner, schemas.__contains__))
    while (yield from scanner.content_until(BEGIN)) is not None:
        yield from attempt(scanner, read(scanner, schemas))


def named(name: str) -> str:
    """Return a call up to its arguments, as Python's JSON spells it."""
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": '


def _other(name: str, begin: str, end: str) -> Family:
    """Make a family with other tags, and a list within them."""

    def call(scanner: Scanner, schemas: Schemas) -> Wait:
        yield from json_calls(scanner)
        yield from scanner.space()
        yield from scanner.next_is(end)

    return Family(
        name,
        lambda template: begin in template,
        tagged((begin,), call),
        (begin, end),
        lambda function: (f"{begin}[{named(function)}", f"}}]{end}"),
    )


NEMOTRON = _other("nemotron", "<TOOLCALL>", "</TOOLCALL>")
APRIEL = _other("apriel", "<tool_calls>", "</tool_calls>")
HERMES = Family(
    "hermes",
    lambda template: BEGIN in template,
    _parser,
    (BEGIN, END),
    lambda name: (f"{BEGIN}\n{named(name)}", f"}}\n{END}"),
    untagged=True,
)
