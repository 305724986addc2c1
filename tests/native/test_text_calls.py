"""text/: calls of tools in the engine: abilities of templates, prompts, and replies, as Python has them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from edgedec.core.errors import EdgeDecError
from edgedec.native.text_probe import NativeError, TextProbe
from edgedec.session.message import message_of
from edgedec.text.reply_reader import ReplyReader
from edgedec.text.template import ChatTemplate
from edgedec.text.template_inputs import TemplateInputs
from edgedec.text.template_program import program_of
from edgedec.text.thinking import ThinkingSplitter, thinking_tags
from edgedec.text.tool_calls.families import FAMILIES
from edgedec.text.tool_calls.scanner import Scanner
from tests.native.tool_talks import BOOK, SOURCES, TALKS
from tests.text.tool_calls.forms import FORMS, INPUTS, NOW, WEATHER, pieces_of, read
from tests.text.tool_calls.test_families import ARGUMENTS, calls_of

TOOLS = [WEATHER, NOW, BOOK]
READ = [family for family in FAMILIES if family.name != "harmony"]
"""Families whose calls the engine reads; channels are Python's alone."""
SCHEMAS = {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in TOOLS}


@pytest.fixture(scope="module")
def probe() -> Iterator[TextProbe]:
    with TextProbe() as found:
        yield found


def use(probe: TextProbe, source: str) -> ChatTemplate:
    probe.use_template(program_of(source), source, bos="<bos>", eos="<eos>")
    return ChatTemplate(source, bos="<bos>", eos="<eos>")


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "form of harmony"])
def test_templates_have_the_abilities_that_python_finds(name: str, probe: TextProbe) -> None:
    template = use(probe, SOURCES[name])
    forms = template._tool_forms()
    family = forms.family.name if forms.family else ""
    expected = {"declares": forms.declares, "calls": forms.calls, "text": forms.text, "cut": forms.cut}
    assert probe.ask("forms") == {**expected, "family": family}


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "form of harmony"])
def test_conversations_with_tools_are_rendered_as_in_python(name: str, probe: TextProbe) -> None:
    template = use(probe, SOURCES[name])
    written = 0
    for talk in TALKS.values():
        messages = [message_of(one).for_template() for one in talk]
        for tools in ([], TOOLS[:1], TOOLS):
            expected, refused = outcome(template.render, messages, TemplateInputs(tuple(tools)))
            assert outcome(probe.render, messages, tools) == (expected, refused)
            written += not refused
    assert written


def outcome(render: Callable[..., str], *given: Any) -> tuple[str, str]:
    """The prompt, or the beginning of the refusal: lines and reasons have words of their own."""
    try:
        return render(*given), ""
    except (EdgeDecError, NativeError) as error:
        return "", error.message.split(" in line")[0]


def python_read(family: Any, pieces: list[str]) -> tuple[str, list[list[str]]]:
    tags = thinking_tags("")
    found = read(ReplyReader(ThinkingSplitter(begun=False, tags=tags), Scanner(), family, SCHEMAS), pieces)
    return found.content, [[name, arguments] for _, name, arguments in found.calls]


def native_read(probe: TextProbe, family: Any, pieces: list[str]) -> tuple[str, list[list[str]]]:
    found = probe.ask("calls", family=family.name, pieces=pieces, tools=TOOLS, messages=[])
    return "".join(found["content"]), found["calls"]


TEXTS = (
    "",
    "Hello.",
    " \n two  lines \n\n",
    '{"answer": 42}',
    '{"name": "nobody", "arguments": {}}',
    '{"name": "now", "arguments": {}} and more',
    '```json\n{"name": "now", "arguments": {}}\n``` so',
    '{{"name": "now", "parameters": {"a": "\\u00e9\\ud83d"}}}',
    '<tool_call>{{"name": "now", "arguments": {"x": 1}}}</tool_call>\n\n'
    '<tool_call>{"name": "a"}</tool_call> b',
    '<tool_call>[{"function": {"name": "f", "arguments": "{\\"a\\": 1}"}}, {"name": "g", "arguments": null}]',
    '<tool_call>{"arguments": {"a": [1, "]}"]}, "x": -1.5e3, "name": "f"} {"name": "g", "y": }</tool_call>',
    '<tool_call>{"name": "a\nb", "arguments": {"t": "x\ty"}}</tool_call>',
    '<tool_call>{"name": "f", "arguments": {"t": "</tool_call> } ]"}}</tool_call> end',
    '<tool_call>{"name": "f", "arguments": {]</tool_call> end',
    '<tool_call>{"name": "f", "arguments": "no json"}</tool_call>',
    "<tool_call>\n<function=weather>\n<parameter=town>\nA\nB </parameter> \n</parameter>\n<parameter=days>"
    "\n 3\n</parameter><parameter=x>None</parameter></function></tool_call>",
    "<function=weather>\n<parameter=list>\n[1,\n</parameter>\n</function> after",
    "<tool_call>weather\n<arg_key>town</arg_key>\n<arg_value>a.<</arg_value><arg_key>days</arg_key>"
    "<arg_value>True</arg_value></tool_call> t",
    "<tool_call>now</tool_call><tool_call>{x</tool_call>",
    '<|python_tag|>weather.call(town="x", days=2)',
    '{"name": "weather", "parameters": {"days": 1}}; {"name": "now", "parameters": {}} ; x',
    '<|python_tag|>{"name": "now", "parameters": {}}',
    '[TOOL_CALLS][{"name": "f", "arguments": {}, "id": "123456789"}] x',
    "[TOOL_CALLS]weather[CALL_ID]123[ARGS]{\"a\": {}} [TOOL_CALLS]now[ARGS][TOOL_CALLS]a b{}",
    'functools[{"name": "f", "arguments": {}}] x <|tool_call|>[{"name": "g"}]<|/tool_call|> y',
    "<|tool_call>call:weather{town:<|\"|>R<tool_call|>o\"me<|\"|>,days:2,more:{a:[1,None,x y,-0.5e2,01]},"
    "<|\"|>k<|\"|>:true}<tool_call|> b",
    "<start_function_call>call:now{}<end_function_call><start_function_call>call:x{a:<escape>b",
    "<|tool_call_start|>[weather(town=\"R\\u00f6\\n'm\", days=-2, more={'a': [1, 2.50, (True, None), ()],"
    " 'b': ('x'), 1: 1_0}), a.b.c(x='''q\n\"'''  'z', y=r'\\d', z=[null, false, --1, .5, 1e400],)]"
    "<|tool_call_end|> t",
    "<|tool_call_start|>[f(1)]<|tool_call_end|>",
    "<|tool_call_start|>[f(a=1 + 2)]<|tool_call_end|>",
    "<|tool_call_start|>[f(class=1)]<|tool_call_end|>",
    "<|tool_call_start|>[f(a='x\ny')]<|tool_call_end|>",
    "<|tool_call_start|>[f(a=007)]<|tool_call_end|>",
    '<|tool_call_start|>[{"name": "f", "arguments": {"a": 1}}]<|tool_call_end|>',
    "<|tool_call_start|>[f(a={**b}, c={1})]",
    "<|tool_call_start|>[f(a='\0')]<|tool_call_end|>",
    '<tool_call>{"name": "f", "arguments": {}, "x": \u00e9}</tool_call>',
    "<tool_call>" * 3 + "x",
)


@pytest.mark.parametrize("family", READ, ids=lambda family: family.name)
def test_replies_are_read_as_in_python(family: Any, probe: TextProbe) -> None:
    texts = [*TEXTS, *(f"I look.\n{text}\n" for text in TEXTS)]
    some = (ARGUMENTS, *([one] for one in ARGUMENTS))
    texts += [FORMS[family.name].written(calls_of(*one)) for one in some]
    found = 0
    for text in texts:
        expected = python_read(family, [text])
        found += len(expected[1])
        for step in (1, 3, 10, 10**9):
            assert native_read(probe, family, list(pieces_of(text, step))) == expected, text
    assert found >= 2 * len(ARGUMENTS)


@pytest.mark.parametrize("family", READ, ids=lambda family: family.name)
def test_damaged_replies_are_read_as_in_python(family: Any, probe: TextProbe) -> None:
    rng = random.Random(family.name)
    own = [FORMS[family.name].written(calls_of(*ARGUMENTS)) for _ in range(8)]
    for text in [*TEXTS, *own]:
        for _ in range(6):
            cut = sorted(rng.choices(range(len(text) + 1), k=2))
            first, last = text[: cut[0]], text[cut[1] :]
            damaged = rng.choice((first, first + last, text[: cut[1]] + text[cut[0] :]))
            expected = python_read(family, [damaged])
            assert native_read(probe, family, [damaged]) == expected, damaged
            assert native_read(probe, family, list(pieces_of(damaged, 2))) == expected, damaged


def test_a_long_call_that_comes_in_small_pieces_is_read_in_time(probe: TextProbe) -> None:
    value = "x" * 200_000
    text = f'<tool_call>{{"name": "f", "arguments": {{"a": "{value}"}}}}</tool_call>'
    [hermes] = [family for family in FAMILIES if family.name == "hermes"]
    assert native_read(probe, hermes, list(pieces_of(text, 4)))[1] == [["f", f'{{"a": "{value}"}}']]


def test_the_family_that_python_alone_reads_is_named(probe: TextProbe) -> None:
    use(probe, SOURCES["form of harmony"])
    assert probe.ask("forms")["family"] == "harmony"
    assert INPUTS.tools
