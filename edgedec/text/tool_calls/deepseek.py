"""DeepSeek's tags: calls begin, call begin, name, a separator, arguments, call end, calls end.

V3 and R1 write the word "function" in place of the name, the name behind the separator, and JSON in a fence;
V3.1 writes name and JSON alone. The tags have a wide bar and an underscore of their own.
"""

from __future__ import annotations

from edgedec.text.tool_calls.family import Family, Schemas, tagged
from edgedec.text.tool_calls.scanner import NoCallError, Scanner, Wait


def _tag(words: str) -> str:
    return "<\uff5c" + words.replace(" ", "\u2581") + "\uff5c>"


_ALL, _ALL_END = _tag("tool calls begin"), _tag("tool calls end")
_ONE, _ONE_END = _tag("tool call begin"), _tag("tool call end")
_BETWEEN = _tag("tool sep")
_FENCE, _FENCE_END = "```json", "```"
_MOST_NAME = 200


def _calls(scanner: Scanner, schemas: Schemas) -> Wait:
    while (yield from scanner.expect(_ONE, _ALL_END)) == _ONE:
        yield from _call(scanner)


def _call(scanner: Scanner) -> Wait:
    name, _ = yield from scanner.until(_BETWEEN, most=_MOST_NAME)
    yield from scanner.space()
    fenced = not scanner.text.startswith("{")
    if fenced:
        name, _ = yield from scanner.until("\n", most=_MOST_NAME)
        yield from scanner.expect(_FENCE)
        yield from scanner.space()
    if not name.strip() or not scanner.text.startswith("{"):
        raise NoCallError
    scanner.begin(name.strip())
    yield from scanner.value(scanner.arguments)
    if fenced:
        yield from scanner.expect(_FENCE_END)
    yield from scanner.expect(_ONE_END)


def _around(name: str) -> tuple[str, str]:
    return f"{_ALL}{_ONE}{name}{_BETWEEN}", f"{_ONE_END}{_ALL_END}"


def _around_fenced(name: str) -> tuple[str, str]:
    before = f"{_ALL}{_ONE}function{_BETWEEN}{name}\n{_FENCE}\n"
    return before, f"\n{_FENCE_END}{_ONE_END}{_ALL_END}"


_CONTROL = (_ALL, _ALL_END, _ONE, _ONE_END, _BETWEEN)
DEEPSEEK = Family(
    "deepseek",
    lambda template: _ONE in template and _FENCE not in template,
    tagged((_ALL,), _calls),
    _CONTROL,
    _around,
)
DEEPSEEK_FENCED = Family(
    "deepseek-fenced",
    lambda template: _ONE in template and _FENCE in template,
    tagged((_ALL,), _calls),
    _CONTROL,
    _around_fenced,
)
