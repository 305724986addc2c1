"""Description of a family of models by the form in which they write calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from edgedec.core.quick_dataclass import dataclass
from edgedec.text.tool_calls.scanner import NoCallError, Scanner, Wait
from edgedec.text.tool_calls.tagged_grammar import TaggedForm

Schemas = Mapping[str, Mapping[str, Any]]
"""The JSON schema of the parameters of each function, by its name."""
Parser = Callable[[Scanner, Schemas], Wait]


@dataclass(frozen=True, slots=True)
class Family:
    """One form of calls.

    ``knows`` tells by the text of a chat template whether its model writes this form. ``parser`` reads
    replies. ``control`` are the texts of tokens that belong to the form; where they are control tokens, the
    reader must see them spelled out. ``around`` has the text before and after the arguments of a call of a
    function; None where they are no JSON. ``write`` writes a call where ``around`` cannot.
    ``untagged``: an object at the beginning of a reply may be a call, too. ``tagged``: the form of arguments
    that stand between tags of their own.
    """

    name: str
    knows: Callable[[str], bool]
    parser: Parser
    control: tuple[str, ...] = ()
    around: Callable[[str], tuple[str, str]] | None = None
    write: Callable[[str, Mapping[str, Any]], str] | None = None
    untagged: bool = False
    tagged: TaggedForm | None = None

    def written(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """Return a call as the model writes it; None where that is not known."""
        if self.write:
            return self.write(name, arguments)
        if self.around:
            before, after = self.around(name)
            return f"{before}{json.dumps(arguments, ensure_ascii=False)}{after}"
        return None

    def reads(self, text: str, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether the first call in ``text`` is this one."""
        scanner = Scanner()
        scanner.text, scanner.ended = text, True
        for _ in self.parser(scanner, {name: {}}):
            raise AssertionError("a parser waits at the end of its text")
        own = [delta for delta in scanner.deltas if delta.index == 0]
        if not own or own[0].name != name:
            return False
        try:
            return bool(json.loads("".join(delta.arguments for delta in own)) == dict(arguments))
        except ValueError:
            return False


def attempt(scanner: Scanner, call: Wait) -> Wait:
    """Read a call; if it is none, the text that was held for it is content."""
    try:
        yield from call
    except NoCallError:
        scanner.release()


def tagged(begins: tuple[str, ...], call: Callable[[Scanner, Schemas], Wait]) -> Parser:
    """Make a parser of text in which each call, read by ``call``, follows one of ``begins``."""

    def parser(scanner: Scanner, schemas: Schemas) -> Wait:
        while (yield from scanner.content_until(*begins)) is not None:
            yield from attempt(scanner, call(scanner, schemas))

    return parser
