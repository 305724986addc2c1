"""Requests and answers of an OpenAI-compatible server, as vLLM and llama-server have them.

A reply that begins is asked for with its messages, at ``/chat/completions``: the server's own template
renders them. For a reply that is continued there is no standard:

- vLLM continues the last message with ``continue_final_message``, EdgeDec with ``edgedec.continue``, and
  llama-server where it is the assistant's (its default since May 2025, ``--no-prefill-assistant`` turns it
  off). They are known by ``owned_by`` in their list of models.
- All others continue a text at ``/completions``. It is in the local model's template.
- A server that has nothing but messages gets the text in one, with the request to go on, so that a reply may
  begin anew. Only a user who asks for it gets it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, Self

from edgedec.core.quick_dataclass import dataclass
from edgedec.text.passage import Passage

Hide = Callable[[str], str]
"""Makes the key unreadable in a text, before any of it is cut off or shown."""
DONE = "[DONE]"
"""The data of the event after the last one."""
_MOST_MODEL_NAMES = 3
_DATED = re.compile(r"-\d{4}-?\d{2}-?\d{2}")
_GO_ON = (
    "Continue the text below from its last character on. Write the continuation alone: no repetition, no "
    "comment.\n\n"
)


_GOES_ON: Mapping[str, Mapping[str, Any]] = {
    "vllm": {"continue_final_message": True, "add_generation_prompt": False},
    "llamacpp": {},
    "edgedec": {"edgedec": {"continue": True}},
}
"""Servers that continue the last message, by ``owned_by``, with the fields that ask for it."""


class NoCompletion(Exception):  # noqa: N818 - the caller makes a SideLost of it
    """An answer is no part of a completion; the message says why."""


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Some text of a reply. ``finish`` is the reason of its end: "stop", "length", or None before it."""

    text: str
    finish: str | None = None


@dataclass(frozen=True, slots=True)
class AskedPassage:
    """The fields of a request that are about the passage, and the text that an answer may not repeat."""

    fields: Mapping[str, Any]
    before: str

    @property
    def chat(self) -> bool:
        """Whether it has messages, not a text."""
        return "messages" in self.fields

    @classmethod
    def of(cls, passage: Passage, owner: str, *, chat: bool) -> Self:
        """Ask for the text behind ``passage``.

        ``owner``: ``owned_by`` of the server's models. ``chat``: it has nothing but messages.
        """
        turns = [{"role": role, "content": content} for role, content in passage.turns]
        if turns and not passage.reply:
            return cls({"messages": turns}, "")
        if turns and owner in _GOES_ON:
            said = {"role": "assistant", "content": passage.reply}
            return cls({"messages": [*turns, said], **_GOES_ON[owner]}, passage.reply)
        if chat:
            return cls({"messages": [{"role": "user", "content": _GO_ON + passage.text}]}, passage.text)
        return cls({"prompt": passage.text}, passage.text)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How one model of a server is asked. ``chat``: with messages, not with a text."""

    model: str
    chat: bool = False

    @property
    def path(self) -> str:
        return "/chat/completions" if self.chat else "/completions"

    def body(self, question: AskedPassage, fields: Mapping[str, Any]) -> bytes:
        """Return the request for a streamed answer to ``question``, drawn as ``fields`` say."""
        return json.dumps({**question.fields, "model": self.model, "stream": True, **fields}).encode()

    def read(self, data: str, hide: Hide = str) -> TextPiece | None:
        """Read the data of one event; None for one that holds no text, such as counts of tokens.

        ``hide`` gets each text of it. Raises NoCompletion when it is none, or another model's.
        """
        answer = parsed(data, hide)
        if error := error_in(answer):
            raise NoCompletion(f"an error: {error}")
        self._check_model(answer.get("model"))
        choices = answer.get("choices")
        if choices == []:
            return None
        if not (isinstance(choices, list) and isinstance(choices[0], dict)):
            raise NoCompletion("JSON that is no completion")
        choice: Mapping[str, Any] = choices[0]
        said, finish = choice.get("delta") if self.chat else choice, choice.get("finish_reason")
        text = said.get("content" if self.chat else "text") if isinstance(said, dict) else said
        text = "" if text is None and (self.chat or finish) else text
        if not (isinstance(text, str) and isinstance(finish, str | None)):
            raise NoCompletion("JSON that is no completion")
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise NoCompletion("text that is not Unicode")
        return TextPiece(text, finish)

    def _check_model(self, found: object) -> None:
        """Raise NoCompletion unless ``found`` is the model: its name, its file, or a dated version of it."""
        if not isinstance(found, str) or not found:
            raise NoCompletion("text of a model that it does not name")
        known = {self.model, PurePosixPath(self.model).name}
        rest = found.removeprefix(self.model)
        dated = rest != found and _DATED.fullmatch(rest)
        if not dated and not known & {found, PurePosixPath(found).name}:
            raise NoCompletion(f"text of another model: {found!r:.80}, not {self.model!r:.80}")


@dataclass(frozen=True, slots=True)
class ModelList:
    """An answer of ``/models``. ``owner``: the one ``owned_by`` of all models; empty for none, or several."""

    names: tuple[str, ...] = ()
    owner: str = ""

    @classmethod
    def of(cls, data: str, hide: Hide = str) -> Self:
        """Read it. Raises NoCompletion for an answer that lists no models."""
        listed = parsed(data, hide).get("data")
        rows = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        names = tuple(one["id"] for one in rows if isinstance(one.get("id"), str))
        if not names:
            raise NoCompletion("no list of models")
        owners = {str(one.get("owned_by", "")) for one in rows}
        return cls(names, owners.pop() if len(owners) == 1 else "")

    def only(self) -> str:
        """Return the name of the one model. Raises NoCompletion for several; it has some of their names."""
        if len(self.names) > 1:
            some = ", ".join(f"{name!r:.80}" for name in self.names[:_MOST_MODEL_NAMES])
            raise NoCompletion(f"{len(self.names)} models: name one, such as {some}")
        return self.names[0]


def error_in(answer: Mapping[str, Any]) -> str:
    """Return the message of an answer that says what went wrong; empty for another one."""
    error = answer.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    return f"{message:.200}" if isinstance(message, str) else "" if error is None else "no message"


def parsed(data: str, hide: Hide = str) -> dict[str, Any]:
    """Return the object that is ``data``, with texts as ``hide`` makes them. Raises NoCompletion."""

    def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: hide(value) if isinstance(value, str) else value for name, value in pairs}

    try:
        answer = json.loads(data, object_pairs_hook=fields)
    except (ValueError, RecursionError):
        raise NoCompletion("text that is not JSON") from None
    if not isinstance(answer, dict):
        raise NoCompletion("JSON that is no completion")
    return answer
