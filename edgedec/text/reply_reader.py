"""A reply's text as it streams, told apart: reasoning, content, and calls of tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from edgedec.core.errors import UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.text.channels import MARKS, has_channels
from edgedec.text.thinking import ThinkingSplitter, thinking_tags
from edgedec.text.tool_calls.scanner import CallDelta, Scanner

if TYPE_CHECKING:
    from edgedec.text.template import ChatTemplate
    from edgedec.text.template_inputs import TemplateInputs
    from edgedec.text.tokenizer import Tokenizer
    from edgedec.text.tool_calls.family import Family, Schemas

_ID = re.compile(r"call(\d{5,9})")
_NO_FORM = "leave the tools out, or use a model with another chat template"


@dataclass(frozen=True, slots=True)
class ReplyParts:
    """Text that is certain now, and news of calls."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[CallDelta, ...] = ()


class ReplyReader:
    """Reads one reply piece by piece. Get one with ``reader_of``.

    Each text is in one part, and none is lost but tags, and white space around them. A call whose form is
    broken before its arguments begin is content; from there on it stands, with the arguments as they came.
    """

    def __init__(
        self, splitter: ThinkingSplitter, scanner: Scanner, family: Family | None, schemas: Schemas
    ) -> None:
        self._splitter = splitter
        self._scanner = scanner
        self._parsing = family.parser(scanner, schemas) if family else None
        if self._parsing:
            next(self._parsing, None)

    @property
    def calls(self) -> int:
        """The number of calls so far."""
        return self._scanner.calls

    def push(self, text: str) -> ReplyParts:
        """Add a piece; return the parts that are certain now."""
        return self._parts(*self._splitter.push(text))

    def flush(self) -> ReplyParts:
        """End the reply; return the parts that were held back."""
        reasoning, content = self._splitter.flush()
        self._scanner.ended = True
        return self._parts(reasoning, content)

    def _parts(self, reasoning: str, content: str) -> ReplyParts:
        if self._parsing is None or not (content or self._scanner.ended):
            return ReplyParts(content, reasoning)
        scanner = self._scanner
        scanner.thought = self._splitter.thought
        scanner.text += content
        next(self._parsing, None)
        content, calls = "".join(scanner.content), _joined(scanner.deltas)
        scanner.content.clear()
        scanner.deltas.clear()
        return ReplyParts(content, reasoning, calls)


def reader_of(
    template: ChatTemplate | None,
    inputs: TemplateInputs | None = None,
    *,
    prompt: str = "",
    calls: Iterable[str] = (),
    strict: bool = False,
) -> ReplyReader:
    """Return the reader of one reply of a model with ``template``.

    ``inputs``: those of the prompt; without tools, calls are content. ``prompt``: the rendered prompt, the
    end of which tells whether the reply begins in its thinking part. ``calls``: ids of the calls in the
    conversation; those of the reply are others. ``strict``: a grammar keeps calls to their form. Raises
    UnsupportedError for tools where the form of the model's calls is not known.
    """
    source = template.source if template else ""
    tags = thinking_tags(source)
    splitter = ThinkingSplitter(begun=prompt.rstrip().endswith(tags[0]), tags=tags)
    tools = inputs.tools if inputs else ()
    family = template.call_family() if tools and template else None
    if tools and family is None:
        raise no_form(template)
    functions = [tool["function"] for tool in tools]
    schemas = {one["name"]: one.get("parameters") or {} for one in functions}
    return ReplyReader(splitter, Scanner(_first(calls), strict=strict), family, schemas)


def no_form(template: ChatTemplate | None) -> UnsupportedError:
    """Say why replies of a model cannot call tools."""
    if template is None or not template.writes_tools():
        return UnsupportedError("the chat template of this model knows no tools", hint=_NO_FORM)
    return UnsupportedError("the form of this model's tool calls is not known", hint=_NO_FORM)


def spelled_ids(
    tokenizer: Tokenizer, template: ChatTemplate | None, inputs: TemplateInputs | None = None
) -> frozenset[int]:
    """Return the control tokens that a reader must see spelled out: tags of calls and of thinking."""
    source = template.source if template else ""
    family = template.call_family() if template and inputs and inputs.tools else None
    first, last = thinking_tags(source)
    control = tokenizer.control_ids()
    texts = (first, first.removesuffix("thought"), last, *(family.control if family else ()))
    if has_channels(source):
        texts = MARKS
    return frozenset(control[text] for text in texts if text in control)


def _first(calls: Iterable[str]) -> int:
    """Return the number of the first call after all of ``calls``."""
    return max((int(match[1]) + 1 for one in calls if (match := _ID.fullmatch(one))), default=0)


def _joined(deltas: Sequence[CallDelta]) -> tuple[CallDelta, ...]:
    """Join the pieces of arguments that came at once."""
    found: list[CallDelta] = []
    for delta in deltas:
        if found and found[-1].index == delta.index:
            last = found.pop()
            delta = CallDelta(delta.index, last.id, last.name, last.arguments + delta.arguments)
        found.append(delta)
    return tuple(found)
