"""The form of replies to a conversation with tools: its prompt, the calls that are allowed, a reader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.grammar.spec import GrammarSpec
from edgedec.session.message import Message, ToolCall
from edgedec.text.channels import FINAL, has_channels
from edgedec.text.template_inputs import Plain, TemplateInputs
from edgedec.text.thinking import thinking_tags

if TYPE_CHECKING:
    from edgedec.session.prompt import Prompt
    from edgedec.text.codec import Codec
    from edgedec.text.reply_reader import ReplyParts, ReplyReader

AUTO, NONE, REQUIRED = "auto", "none", "required"


@dataclass(frozen=True)
class ReplySyntax:
    """The form of replies of a model with ``codec``, with ``tools`` and ``options`` of its chat template.

    ``choice`` is "auto", "none" for no calls, "required" for a reply that is a call, or the name of the
    function that it calls. Raises UsageError for a choice that no tool fits, UnsupportedError where the form
    of the model's calls is not known.
    """

    codec: Codec
    tools: Sequence[Mapping[str, Any]] = ()
    choice: str = AUTO
    options: Mapping[str, Plain] | None = None
    bound: bool = False
    """Whether calls keep the schemas of functions that are not strict, too, as far as a grammar can."""

    def __post_init__(self) -> None:
        if self.choice not in (AUTO, NONE) and not self._chosen:
            what = "a tool call is required" if self.choice == REQUIRED else f"{self.choice!r:.40} is no tool"
            raise UsageError(
                what if self.tools else f"{what}, and there are no tools", hint="declare the tool"
            )
        if self.inputs.tools:
            from edgedec.text.reply_reader import reader_of

            reader_of(self.codec.template, self.inputs)

    @cached_property
    def inputs(self) -> TemplateInputs:
        """Values for the chat template; no tools where none may be called."""
        return TemplateInputs(() if self.choice == NONE else tuple(self.tools), self.options or {})

    @cached_property
    def spelled(self) -> frozenset[int]:
        """Control tokens that are text for the reader."""
        from edgedec.text.reply_reader import spelled_ids

        return spelled_ids(self.codec.tokenizer, self.codec.template, self.inputs)

    @cached_property
    def channels(self) -> bool:
        """Whether replies are in channels."""
        return self.codec.template is not None and has_channels(self.codec.template.source)

    def grammar(self, prompt: str, form: GrammarSpec | None = None) -> GrammarSpec | None:
        """Return the grammar of the replies to a rendered prompt; None where they are free.

        - A reply that must be a call has no other ``form``.
        - With the choice "auto" it has ``form`` or calls. Without a form its text is free, and so are calls,
          unless a function is ``strict`` or ``bound``, and the beginning of a call can be told from text.

        Raises UnsupportedError for a call that must be, in a form that is not JSON; UsageError for a form
        beside tools that is not of JSON.
        """
        functions = [tool["function"] for tool in self.inputs.tools]
        strict = self.choice == AUTO and self._strict
        template = self.codec.template
        asked = self._chosen or strict or (form and functions)
        family = template.call_family() if template and asked else None
        if template is None or family is None:
            return form
        from edgedec.session.tool_schemas import bound_functions, kept_functions
        from edgedec.text.tool_calls.call_grammar import call_grammar, form_or_calls, strict_grammar

        control = self.codec.tokenizer.control_ids()
        begin, end = thinking_tags(template.source)
        thought = end if prompt.rstrip().endswith(begin) else ""
        if self._chosen:
            functions, left_out = kept_functions(self._chosen)
            return GrammarSpec.of_calls(call_grammar(family, functions, control, thought), left_out)
        functions, left_out = bound_functions(functions, bind=self.bound)
        if form:
            if form.sampling != "masked":
                raise UsageError("an unbiased form has no tools beside it", hint="leave one of both out")
            text = form_or_calls(family, functions, control, form.schema(), thought)
            return GrammarSpec.of_calls(text, form.left_out + left_out)
        strict_text = None if self.channels else strict_grammar(family, functions, control, (begin, end))
        return GrammarSpec.of_calls(strict_text, left_out, cuttable=True) if strict_text else None

    def opened(self, prompt: Prompt, form: GrammarSpec | None) -> Prompt:
        """Return the prompt of a reply that must have a ``form``: in channels, it begins within the answer.

        Beside tools it may be a call, which has a header of its own.
        """
        if not self.channels or form is None or self.inputs.tools:
            return prompt
        ids = self.codec.tokenizer.encode(FINAL, add_bos=False, parse_special=True)
        return replace(prompt, text=prompt.text + FINAL, ids=[*prompt.ids, *ids])

    def reader(
        self, prompt: str = "", messages: Iterable[Message] = (), form: GrammarSpec | None = None
    ) -> ReplyReader:
        """Return a reader of one reply to a rendered prompt of ``messages``.

        A reply of a ``form`` is all answer, also where the prompt begins a thinking part; beside tools the
        form has that part, too.
        """
        from edgedec.text.reply_reader import reader_of

        if form and not self.inputs.tools:
            prompt = ""
        calls = [call.id for message in messages for call in message.tool_calls]
        return reader_of(self.codec.template, self.inputs, prompt=prompt, calls=calls, strict=self._strict)

    @property
    def _strict(self) -> bool:
        """Whether a grammar is to keep calls to their schemas."""
        return self.bound or any(tool["function"].get("strict") for tool in self.inputs.tools)

    @cached_property
    def _chosen(self) -> list[Mapping[str, Any]]:
        """The functions that a reply must call one of."""
        functions = [tool["function"] for tool in self.inputs.tools]
        return [one for one in functions if self.choice in (REQUIRED, one["name"])]


def read_whole(reader: ReplyReader, text: str) -> Message:
    """Read the text of a reply as an assistant's message; its calls may be unfinished."""
    parts = [reader.push(text), reader.flush()]
    return Message(
        "assistant",
        "".join(part.content for part in parts),
        tool_calls=_calls(parts),
        reasoning="".join(part.reasoning for part in parts).strip(),
    )


def _calls(parts: Iterable[ReplyParts]) -> tuple[ToolCall, ...]:
    found: list[ToolCall] = []
    for delta in (delta for part in parts for delta in part.calls):
        if delta.name is not None:
            found.append(ToolCall(delta.id or "", delta.name, delta.arguments))
        else:
            last = found.pop()
            found.append(ToolCall(last.id, last.name, last.arguments + delta.arguments))
    return tuple(found)
