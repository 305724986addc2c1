"""Messages of a conversation, in the forms of OpenAI's chat API."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.text.tokenizer import valid_text

ROLES = ("system", "user", "assistant", "tool")
_HINT = 'as in {"role": "user", "content": "Hello!"}'
_CALL_HINT = (
    'as in {"id": "call1", "type": "function", "function": {"name": "now", "arguments": "{\\"zone\\": 1}"}}'
)
_FIELDS = {"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content", "reasoning"}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a function that a model asks for; ``arguments`` is a JSON object as text.

    A model may have been cut off within them. Then they are a text that is none.
    """

    id: str
    name: str
    arguments: str = "{}"

    def __post_init__(self) -> None:
        for field in ("id", "name", "arguments"):
            object.__setattr__(self, field, valid_text(getattr(self, field)))

    def values(self) -> dict[str, Any]:
        """Return the arguments as Python values. Raises UsageError where they are no JSON object."""
        return _object(self.name, self.arguments)

    def shown(self) -> dict[str, Any] | str:
        """Return the arguments as a chat template gets them: as values, or as text that is no JSON object."""
        try:
            return self.values()
        except UsageError:
            return self.arguments

    def as_json(self) -> dict[str, Any]:
        """Return the call in OpenAI's form."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class AboutText:
    """A question about a text, which comes before it with a blank line between them.

    A model that was opened with a ``context_weight`` replies by what the text changes. Raises UsageError
    where one of them is blank.
    """

    question: str
    context: str

    def __post_init__(self) -> None:
        if not (self.question.strip() and self.context.strip()):
            raise UsageError("a question about a text needs both", hint="give the question and the text")

    @property
    def whole(self) -> str:
        """The text and the question."""
        return f"{self.context.rstrip()}\n\n{self.question}"


@dataclass(frozen=True, slots=True, repr=False)
class Message:
    """One turn; ``role`` is one of ``ROLES``. Lone surrogates in its texts become U+FFFD.

    A message of role "tool" has the result of the call ``tool_call_id``. An assistant's message may have
    ``tool_calls``, and the ``reasoning`` before its answer. ``name`` is that of a user or of a function.
    """

    role: str
    content: str
    name: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    reasoning: str = ""

    def __post_init__(self) -> None:
        for field in ("content", "name", "tool_call_id", "reasoning"):
            object.__setattr__(self, field, valid_text(getattr(self, field)))

    def __repr__(self) -> str:
        used = [(field.name, getattr(self, field.name)) for field in fields(self)]
        shown = ", ".join(f"{name}={value!r}" for name, value in used if value or name == "content")
        return f"Message({shown})"

    @property
    def uses_tools(self) -> bool:
        """Whether it is a call of a tool or the result of one."""
        return self.role == "tool" or bool(self.tool_calls)

    def as_json(self) -> dict[str, Any]:
        """Return the message in OpenAI's form, without the fields that it does not use."""
        found: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.reasoning:
            found["reasoning_content"] = self.reasoning
        if self.name:
            found["name"] = self.name
        if self.tool_calls:
            found["tool_calls"] = [call.as_json() for call in self.tool_calls]
        if self.tool_call_id:
            found["tool_call_id"] = self.tool_call_id
        return found

    def for_template(self) -> dict[str, Any]:
        """Return the message as chat templates read it: a call's arguments are values where they can be."""
        found = self.as_json()
        for call, shown in zip(self.tool_calls, found.get("tool_calls", ()), strict=True):
            shown["function"]["arguments"] = call.shown()
        return found

    def texts(self) -> list[str]:
        """Return every text of the message that may be long."""
        return [self.content, self.reasoning, *(call.arguments for call in self.tool_calls)]


def message_of(given: Message | Mapping[str, object]) -> Message:
    """Return a message, perhaps given in OpenAI's form, ``{"role": "user", "content": "Hello!"}``.

    Fields that are None or empty lists count as left out. A list of text parts as content is joined; other
    parts are refused. Role "developer" is "system". Raises UsageError.
    """
    if isinstance(given, Message):
        _check(given)
        return given
    if not isinstance(given, Mapping):
        raise UsageError(f"{given!r:.60} is no message", hint=_HINT)
    found = {key: value for key, value in given.items() if value is not None and value != []}
    if unknown := sorted(str(key) for key in set(found) - _FIELDS):
        raise UsageError(f"a message has no field {unknown[0]!r:.40}", hint=_HINT)
    role = found.get("role")
    calls = _calls(found.get("tool_calls", ()))
    if not isinstance(role, str) or ("content" not in found and not calls):
        raise UsageError(f"{dict(given)!r:.60} is no message", hint=_HINT)
    message = Message(
        "system" if role == "developer" else role,
        _content(given, found.get("content", "")),
        name=_text("name", found.get("name", "")),
        tool_calls=calls,
        tool_call_id=_text("tool_call_id", found.get("tool_call_id", "")),
        reasoning=_text("reasoning_content", found.get("reasoning_content", found.get("reasoning", ""))),
    )
    _check(message)
    return message


def conversation_of(
    given: Iterable[Message | Mapping[str, object]], system: str | None, usual: str | None = None
) -> list[Message]:
    """Return messages, first the system message: their own, or ``system``, or where that is None ``usual``.

    Empty text is none. Raises UsageError for anything that is no message, for two system messages, and for
    one that is not the first.
    """
    messages = [message_of(one) for one in given]
    if any(message.role == "system" for message in messages[1:]):
        raise UsageError("a system message stands after another message", hint="put it first")
    if messages and messages[0].role == "system" and system is not None:
        raise UsageError("there are two system messages", hint="leave out one of them")
    return with_system(messages, usual if system is None else system)


def with_system(messages: Sequence[Message], text: str | None) -> list[Message]:
    """Return messages that begin with a system message: their own, else ``text``, which may be none."""
    own = bool(messages) and messages[0].role == "system"
    return [*messages] if own or not text else [Message("system", text), *messages]


def in_one_system(messages: Sequence[Message], *, later: bool) -> list[Message]:
    """Return messages with one system message at the beginning, which joins the texts of several.

    With ``later`` those that stand after another message keep their place.
    """
    first: list[str] = []
    rest: list[Message] = []
    for one in messages:
        if one.role == "system" and not (later and rest):
            first.append(one.content)
        else:
            rest.append(one)
    return [Message("system", "\n\n".join(filter(None, first))), *rest] if first else rest


def _check(message: Message) -> None:
    """Raise UsageError for a message whose fields do not belong together."""
    if message.role not in ROLES:
        raise UsageError(f"unknown role {message.role!r:.40}", hint=f"there are {', '.join(ROLES)}")
    if message.role != "assistant" and (message.tool_calls or message.reasoning):
        raise UsageError(f"a message of role {message.role} has no tool calls and no reasoning", hint=_HINT)
    if message.role != "tool" and message.tool_call_id:
        raise UsageError(f"a message of role {message.role} answers no tool call", hint='use role "tool"')


def _content(given: Mapping[str, object], content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        raise UsageError(f"{dict(given)!r:.60} is no message", hint=_HINT)
    return "".join(_part(part) for part in content)


def _part(part: object) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if isinstance(part, Mapping) and kind == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    raise UsageError(f"this model reads text alone, and a part of a message is {kind or part!r:.40}")


def _calls(given: object) -> tuple[ToolCall, ...]:
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise UsageError(f"{given!r:.60} is no list of tool calls", hint=_CALL_HINT)
    return tuple(one if isinstance(one, ToolCall) else _call(one) for one in given)


def _call(given: object) -> ToolCall:
    function = given.get("function") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or not isinstance(function, Mapping):
        raise UsageError(f"{given!r:.60} is no tool call", hint=_CALL_HINT)
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or not name:
        raise UsageError(f"{given!r:.60} is no tool call", hint=_CALL_HINT)
    if isinstance(arguments, Mapping):
        arguments = json.dumps(arguments)
    return ToolCall(
        _text("id", given.get("id") or ""), name, _text("arguments", arguments or "").strip() or "{}"
    )


def _text(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{field} is {value!r:.40}, and no text", hint=_HINT)
    return value


def _object(name: str, arguments: str) -> dict[str, Any]:
    try:
        found = json.loads(arguments, parse_constant=_refused)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UsageError(
            f"the arguments of the call of {name!r:.40} are no JSON object: {arguments!r:.40}",
            hint="give a JSON object as text",
        )
    return found


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
