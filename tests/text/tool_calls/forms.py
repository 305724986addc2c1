"""The forms of calls as templates write them, and a way to read a reply in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from edgedec.text.reply_reader import ReplyReader, reader_of
from edgedec.text.template import ChatTemplate
from edgedec.text.template_inputs import TemplateInputs

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {
                "town": {"type": "string"},
                "days": {"type": "integer"},
                "more": {"type": "object"},
                "list": {"type": "array"},
            },
        },
    },
}
NOW: dict[str, Any] = {"type": "function", "function": {"name": "now"}}
INPUTS = TemplateInputs((WEATHER, NOW))
_DECLARES = "{% for t in tools or [] %}{{ t.function.name }} {% endfor %}"
_TURNS = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
_GEMMA = (
    "{% macro v(x) %}{% if x is string %}QUOTE{{ x }}QUOTE{% elif x is mapping %}{{ '{' }}"
    "{% for k in x %}{{ k }}:{{ v(x[k]) }}{{ ',' if not loop.last }}{% endfor %}{{ '}' }}"
    "{% elif x is iterable %}[{% for y in x %}{{ v(y) }}{{ ',' if not loop.last }}{% endfor %}]"
    "{% else %}{{ x | tojson }}{% endif %}{% endmacro %}"
)
_BAR, _LINE = "\uff5c", "\u2581"


@dataclass(frozen=True)
class Form:
    """A family, with a template that writes a call ``c`` of a turn as the family's own templates do."""

    name: str
    call: str
    before: str = ""
    after: str = ""
    macros: str = ""

    @property
    def template(self) -> ChatTemplate:
        return _template(self)

    def written(self, calls: list[dict[str, Any]]) -> str:
        """A reply of nothing but these calls, as the template writes it."""
        user = {"role": "user", "content": "x"}
        message = {"role": "assistant", "content": "", "tool_calls": calls}
        return self.template.render([user, message], INPUTS).split("<assistant>")[1]


@cache
def _template(form: Form) -> ChatTemplate:
    """One for all tests: it has a process."""
    turns = _TURNS.replace("{% for c", f"{{% if m.tool_calls %}}{form.before}{{% endif %}}{{% for c", 1)
    end = f"{{% endfor %}}{{% if m.tool_calls %}}{form.after}{{% endif %}}{{% endfor %}}"
    end += "{% if add_generation_prompt %}<assistant>{% endif %}"
    return ChatTemplate(f"{form.macros}{_DECLARES}{turns}{form.call}{end}", bos="", eos="")


def _object(arguments: str) -> str:
    return '{"name": "{{ c.function.name }}", "' + arguments + '": {{ c.function.arguments | tojson }}}'


def _tag(words: str) -> str:
    return f"<{_BAR}{words.replace(' ', _LINE)}{_BAR}>"


_SEPARATED = "{{ ', ' if not loop.last }}"
_CODER = (
    "\n<tool_call>\n<function={{ c.function.name }}>\n{% for k, x in c.function.arguments | items %}"
    "<parameter={{ k }}>\n{{ x if x is string else x | tojson }}\n</parameter>\n{% endfor %}"
    "</function>\n</tool_call>"
)
_GLM = (
    "\n<tool_call>{{ c.function.name }}\n{% for k, x in c.function.arguments | items %}"
    "<arg_key>{{ k }}</arg_key>\n<arg_value>{{ x if x is string else x | tojson }}</arg_value>\n{% endfor %}"
    "</tool_call>"
)
_PYTHON = (
    "{{ c.function.name }}({% for k, x in c.function.arguments | items %}{{ k }}={{ x | tojson }}"
    "{{ ', ' if not loop.last }}{% endfor %})" + _SEPARATED
)


def _gemma(name: str, begin: str, end: str, quote: str) -> Form:
    call = begin + "call:{{ c.function.name }}{{ v(c.function.arguments) }}" + end
    return Form(name, call, macros=_GEMMA.replace("QUOTE", quote))


_FENCED = _tag("tool call begin") + "function" + _tag("tool sep") + "{{ c.function.name }}\n```json\n"

FORMS = {
    form.name: form
    for form in (
        Form("hermes", f"\n<tool_call>\n{_object('arguments')}\n</tool_call>"),
        Form("qwen-coder", _CODER),
        Form("glm", _GLM),
        Form("nemotron", _object("arguments") + _SEPARATED, "<TOOLCALL>[", "]</TOOLCALL>"),
        Form("apriel", _object("arguments") + _SEPARATED, "<tool_calls>[", "]</tool_calls>"),
        Form("llama", _object("parameters") + "{{ '; ' if not loop.last }}", macros="{# <|python_tag|> #}"),
        Form(
            "mistral", _object("arguments")[:-1] + ', "id": "{{ c.id }}"}' + _SEPARATED, "[TOOL_CALLS][", "]"
        ),
        Form("mistral-args", "[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson }}"),
        Form("lfm", _PYTHON, "<|tool_call_start|>[", "]<|tool_call_end|>"),
        Form("phi", _object("arguments") + _SEPARATED, "<|tool_call|>[", "]<|/tool_call|>"),
        Form(
            "harmony",
            " to=functions.{{ c.function.name }}<|channel|>commentary json<|message|>"
            "{{ c.function.arguments | tojson }}<|call|>",
        ),
        Form("granite", _object("arguments") + _SEPARATED, "<|tool_call|>[", "]"),
        _gemma("function-gemma", "<start_function_call>", "<end_function_call>", "<escape>"),
        _gemma("gemma4", "<|tool_call>", "<tool_call|>", '<|"|>'),
        Form(
            "deepseek",
            f"{_tag('tool call begin')}{{{{ c.function.name }}}}{_tag('tool sep')}"
            f"{{{{ c.function.arguments | tojson }}}}{_tag('tool call end')}",
            _tag("tool calls begin"),
            _tag("tool calls end"),
        ),
        Form(
            "deepseek-fenced",
            _FENCED + "{{ c.function.arguments | tojson }}\n```" + _tag("tool call end"),
            _tag("tool calls begin"),
            _tag("tool calls end"),
        ),
    )
}


@dataclass
class Read:
    """A reply as it was read."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    """Id, name and arguments of each call."""


def read(reader: ReplyReader, pieces: Iterable[str]) -> Read:
    """Read a reply in these pieces."""
    found = Read()
    calls: dict[int, list[str]] = {}
    for parts in [*map(reader.push, pieces), reader.flush()]:
        found.content += parts.content
        found.reasoning += parts.reasoning
        for delta in parts.calls:
            if delta.name is not None:
                assert delta.index == len(calls)
                calls[delta.index] = [delta.id or "", delta.name, ""]
            calls[delta.index][2] += delta.arguments
    found.calls = tuple((id, name, arguments) for id, name, arguments in calls.values())
    return found


def read_form(name: str, text: str, step: int = 10**9) -> Read:
    """Read a reply of a family in pieces of ``step`` characters."""
    return read(reader_of(FORMS[name].template, INPUTS), pieces_of(text, step))


def pieces_of(text: str, step: int) -> Iterator[str]:
    for at in range(0, len(text), step):
        yield text[at : at + step]
