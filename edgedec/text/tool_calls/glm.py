"""GLM 4.5 and models after it:

<tool_call>NAME
<arg_key>KEY</arg_key>
<arg_value>VALUE</arg_value>
</tool_call>

A value is plain text where the function's schema wants a string, and JSON elsewhere.
"""

from __future__ import annotations

import json

from edgedec.text.tool_calls.family import Family, Schemas, tagged
from edgedec.text.tool_calls.hermes import BEGIN, END
from edgedec.text.tool_calls.scanner import NoCallError, Scanner, Wait
from edgedec.text.tool_calls.tagged_grammar import TaggedForm
from edgedec.text.tool_calls.typed_values import typed_value

_KEY, _KEY_END = "<arg_key>", "</arg_key>"
_VALUE, _VALUE_END = "<arg_value>", "</arg_value>"
_MOST_NAME = 200


def _call(scanner: Scanner, schemas: Schemas) -> Wait:
    name, mark = yield from scanner.until(_KEY, END, most=_MOST_NAME)
    name = name.strip()
    if not name or any(char in name for char in "{<\n"):
        raise NoCallError
    scanner.begin(name)
    scanner.arguments("{")
    before = ""
    while mark == _KEY:
        key, _ = yield from scanner.until(_KEY_END, most=_MOST_NAME)
        scanner.arguments(f"{before}{json.dumps(key.strip(), ensure_ascii=False)}: ")
        yield from scanner.expect(_VALUE)
        yield from typed_value(scanner, _VALUE_END, schemas.get(name, {}), key.strip())
        before = ", "
        mark = yield from scanner.expect(_KEY, END)
    scanner.arguments("}")


GLM = Family(
    "glm",
    lambda template: BEGIN in template and _KEY in template,
    tagged((BEGIN,), _call),
    (BEGIN, END, _KEY, _KEY_END, _VALUE, _VALUE_END),
    tagged=TaggedForm(f"{BEGIN}NAME\n", f"{_KEY}KEY{_KEY_END}\n{_VALUE}", "", _VALUE_END, END),
)
