"""Qwen3-Coder's tags, and those of models after it:

<tool_call>
<function=NAME>
<parameter=KEY>
VALUE
</parameter>
</function>
</tool_call>

A value is plain text where the function's schema wants a string, and JSON elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Generator

from edgedec.text.tool_calls.family import Family, Schemas, attempt
from edgedec.text.tool_calls.hermes import BEGIN, END, read
from edgedec.text.tool_calls.scanner import NoCallError, Scanner, Wait
from edgedec.text.tool_calls.tagged_grammar import TaggedForm
from edgedec.text.tool_calls.typed_values import typed_value

_FUNCTION, _FUNCTION_END = "<function=", "</function>"
_PARAMETER, _PARAMETER_END = "<parameter=", "</parameter>"
_MOST_NAME = 200


def _tagged(scanner: Scanner, schemas: Schemas) -> Wait:
    """Read a call behind ``<tool_call>``; one in JSON is a call too."""
    yield from scanner.space()
    if scanner.text.startswith("{"):
        yield from read(scanner, schemas)
        return
    yield from scanner.expect(_FUNCTION)
    yield from _function(scanner, schemas)


def _function(scanner: Scanner, schemas: Schemas) -> Wait:
    name = yield from _name(scanner)
    scanner.begin(name)
    scanner.arguments("{")
    before = ""
    while (yield from scanner.expect(_PARAMETER, _FUNCTION_END)) == _PARAMETER:
        key = yield from _name(scanner)
        scanner.arguments(f"{before}{json.dumps(key, ensure_ascii=False)}: ")
        yield from scanner.next_is("\n")
        yield from typed_value(scanner, _PARAMETER_END, schemas.get(name, {}), key, "\n")
        before = ", "
    scanner.arguments("}")
    yield from scanner.space()
    yield from scanner.next_is(END)


def _name(scanner: Scanner) -> Generator[None, None, str]:
    text, _ = yield from scanner.until(">", most=_MOST_NAME)
    if not text or "\n" in text:
        raise NoCallError
    return text


def _parser(scanner: Scanner, schemas: Schemas) -> Wait:
    while (mark := (yield from scanner.content_until(BEGIN, _FUNCTION))) is not None:
        call = _tagged if mark == BEGIN else _function  # some models leave the first tag out
        yield from attempt(scanner, call(scanner, schemas))


QWEN_CODER = Family(
    "qwen-coder",
    lambda template: _FUNCTION in template and _PARAMETER in template,
    _parser,
    (BEGIN, END),
    tagged=TaggedForm(
        f"{BEGIN}\n{_FUNCTION}NAME>\n",
        f"{_PARAMETER}KEY>\n",
        "\n",
        _PARAMETER_END,
        _FUNCTION_END,
        f"\n{END}",
        bare=_FUNCTION,
    ),
)
