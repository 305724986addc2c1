"""Every family: what its templates write is read again, in pieces of any size, and no other text is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedec.core.errors import UnsupportedError
from edgedec.text.reply_reader import reader_of
from edgedec.text.template import ChatTemplate
from edgedec.text.tool_calls.families import FAMILIES, family_of
from tests.fixtures.nightly import every
from tests.text.tool_calls.forms import FORMS, INPUTS, Read, pieces_of, read, read_form

BAR = "\uff5c"
ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"town": "Köln", "days": 3},
    {"town": 'He said "}]" \\ and\nleft', "list": [1, 2.5, True, None, "x"], "more": {"a": {"b": "{"}}},
    {"town": "", "days": -1, "list": [], "more": {}},
]


def calls_of(*arguments: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"id": f"call{at:05d}", "type": "function", "function": {"name": "weather", "arguments": one}}
        for at, one in enumerate(arguments)
    ]


def assert_called(found: Read, *arguments: dict[str, Any]) -> None:
    assert [name for _, name, _ in found.calls] == ["weather"] * len(arguments)
    assert [json.loads(text) for _, _, text in found.calls] == list(arguments)
    assert [id for id, _, _ in found.calls] == [f"call{at:05d}" for at in range(len(arguments))]


def test_every_family_has_its_form_here_and_is_known_by_it() -> None:
    assert {family.name for family in FAMILIES} == set(FORMS)
    for name, form in FORMS.items():
        named, probed = family_of(form.template.source), form.template.call_family()
        assert named is not None
        assert probed is not None
        assert (named.name, probed.name) == (name, name)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_a_call_is_read_as_it_was_written(name: str, arguments: dict[str, Any]) -> None:
    found = read_form(name, FORMS[name].written(calls_of(arguments)))
    assert (found.content, found.reasoning) == ("", "")
    assert_called(found, arguments)


@pytest.mark.parametrize("name", FORMS)
def test_several_calls(name: str) -> None:
    found = read_form(name, FORMS[name].written(calls_of(*ARGUMENTS)))
    assert found.content == ""
    assert_called(found, *ARGUMENTS)


@pytest.mark.parametrize("name", FORMS)
def test_pieces_of_any_size_give_the_same(name: str) -> None:
    text = FORMS[name].written(calls_of(ARGUMENTS[1], ARGUMENTS[2]))
    if name != "llama":  # its calls are at the beginning
        text = f"<think>Hm.</think>\n\nI look. < [ {text}"
    whole = read_form(name, text)
    assert len(whole.calls) == 2
    for size in (1, 2, 3, 5, 11):
        assert read_form(name, text, size) == whole
    reader = FORMS[name].template
    for at in range(len(text)):
        assert read(reader_of(reader, INPUTS), (text[:at], text[at:])) == whole


STREAMED = [name for name in FORMS if name != "lfm"]


@pytest.mark.parametrize("name", STREAMED)
def test_arguments_are_given_out_as_they_come(name: str) -> None:
    reader = reader_of(FORMS[name].template, INPUTS)
    text = FORMS[name].written(calls_of({"town": "x" * 100}))
    seen = 0
    for piece in pieces_of(text[: text.index("x" * 60) + 60], 1):
        seen += sum(delta.arguments.count("x") for delta in reader.push(piece).calls)
    assert seen >= 40


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hello.",
        " \n two  lines \n\n",
        "a < b and [1, 2] { } <tool <| <\uff5c [TOOL call: ```json",
        '{"answer": 42}',
        '{"name": "nobody", "arguments": {}}',
        "<tool_call>",
        "<tool_call> </tool_call> x",
        '<tool_call>{"name": 3, "arguments": {}}</tool_call>',
        '<tool_call>{"title": "x"}',
        "<function=\n",
        "[TOOL_CALLS] and more",
        "[TOOL_CALLS][1, 2]",
        "<|tool_call|>\n<|/tool_call|>",
        "<|tool_call_start|>[]<|tool_call_end|>",
        "<|tool_call_start|>[f(1)]<|tool_call_end|>",
        "<|tool_call_start|>[f(a=open)]",
        "<|python_tag|>print(1",
        "<|tool_call>call me",
        "<start_function_call>call:x",
        f"<{BAR}tool\u2581calls\u2581begin{BAR}>x",
    ],
    ids=str,
)
def test_text_that_is_no_call_stays_as_it_is(name: str, text: str) -> None:
    for step in (1, 3, 10**9):
        assert read_form(name, text, step) == Read(content=text)


@pytest.mark.parametrize("name", STREAMED)
def test_a_call_that_is_cut_stands_with_what_it_has(name: str) -> None:
    text = FORMS[name].written(calls_of({"town": "x" * 100}))
    found = read_form(name, text[: text.index("x" * 60) + 60])
    assert found.content == ""
    assert [called for _, called, _ in found.calls] == ["weather"]
    assert found.calls[0][2].count("x") >= 60


def test_a_broken_end_leaves_the_call_and_the_text_behind_it() -> None:
    found = read_form("hermes", '<tool_call>{"name": "now", "arguments": {}] or </tool_call>')
    assert found == Read("] or </tool_call>", "", (("call00000", "now", "{}"),))


def test_text_around_calls_is_content() -> None:
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    found = read_form("hermes", f"One.\n\n{call}\n\nTwo.\n{call}\n")
    assert found.content == "One.\n\nTwo."
    assert len(found.calls) == 2


@pytest.mark.parametrize(
    "text",
    [
        '{"arguments": {"days": 1}, "name": "weather"}',
        '{"type": "function", "function": {"name": "weather", "arguments": {"days": 1}}}',
        '{"id": "x", "name": "weather", "parameters": {"days": 1}, "more": [{}]}',
        '{"name": "weather", "arguments": "{\\"days\\": 1}"}',
        '[{"function": "weather", "arguments": {"days": 1}}]',
    ],
)
def test_models_order_and_name_the_fields_as_they_like(text: str) -> None:
    for step in (1, 10**9):
        assert_called(read_form("hermes", f"<tool_call>{text}</tool_call>", step), {"days": 1})


def test_a_call_without_arguments_has_an_empty_object() -> None:
    for text in ('{"name": "weather"}', '{"name": "weather", "arguments": null}'):
        assert_called(read_form("hermes", f"<tool_call>{text}</tool_call>"), {})
    assert_called(read_form("mistral-args", "[TOOL_CALLS]weather[ARGS]"), {})


def test_forms_that_templates_do_not_write_but_models_do() -> None:
    for name, text in (
        ("llama", '<|python_tag|>{"name": "weather", "parameters": {"days": 1}}'),
        ("llama", "<|python_tag|>weather.call(days=1)"),
        ("mistral-args", '[TOOL_CALLS]weather[CALL_ID]123456789[ARGS]{"days": 1}'),
        ("mistral", '[TOOL_CALLS]weather{"days": 1}'),
        ("mistral", '[TOOL_CALLS] [{"name": "weather", "arguments": {"days": 1}}]'),
        ("phi", 'functools[{"name": "weather", "arguments": {"days": 1}}]'),
        ("granite", '<tool_call>[{"name": "weather", "arguments": {"days": 1}}]'),
        ("lfm", '<|tool_call_start|>[{"name": "weather", "arguments": {"days": 1}}]<|tool_call_end|>'),
        ("qwen-coder", '<tool_call>{"name": "weather", "arguments": {"days": 1}}</tool_call>'),
        ("qwen-coder", "<function=weather>\n<parameter=days>\n1\n</parameter>\n</function>\n</tool_call>"),
    ):
        found = read_form(name, text)
        assert found.content == ""
        assert_called(found, {"days": 1})


def test_a_function_that_is_not_declared_is_called_all_the_same() -> None:
    found = read_form("hermes", '<tool_call>{"name": "nobody", "arguments": {}}</tool_call>')
    assert [name for _, name, _ in found.calls] == ["nobody"]


def test_ids_go_on_after_those_of_the_conversation() -> None:
    reader = reader_of(FORMS["hermes"].template, INPUTS, calls=["call00003", "abc", "call00001"])
    text = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    assert [id for id, _, _ in read(reader, [text, text]).calls] == ["call00004", "call00005"]


def test_without_tools_a_call_is_text() -> None:
    text = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    assert read(reader_of(FORMS["hermes"].template), [text]) == Read(text)


@pytest.mark.parametrize("name", ["hermes", "lfm", "granite", "mistral", "deepseek", "llama"])
def test_a_call_that_a_template_drops_is_content(name: str) -> None:
    form = FORMS[name]
    family = form.template.call_family()
    assert family is not None
    turns = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    source = f"{{{{ tools | tojson if tools }}}}{{# {''.join(family.control)} #}}{turns}"
    dropping = ChatTemplate(source, bos="", eos="")
    message = {"role": "assistant", "content": "", "tool_calls": calls_of(ARGUMENTS[1])}
    text = dropping.render([{"role": "user", "content": "x"}, message], INPUTS).split("<assistant>")[1]
    assert_called(read(reader_of(dropping, INPUTS), [text]), ARGUMENTS[1])


def test_a_template_is_known_by_the_calls_that_it_writes_and_not_by_its_words() -> None:
    source = FORMS["mistral-args"].template.source
    family = ChatTemplate(f"{{# not <tool_call> #}}{source}", bos="", eos="").call_family()
    assert family is not None
    assert family.name == "mistral-args"


def test_tools_need_a_known_form() -> None:
    template = ChatTemplate("{{ tools | tojson }}", bos="", eos="")
    with pytest.raises(UnsupportedError, match="knows no tools"):
        reader_of(ChatTemplate("{{ messages }}", bos="", eos=""), INPUTS)
    with pytest.raises(UnsupportedError, match="form of this model's tool calls is not known"):
        reader_of(template, INPUTS)


TEXTUAL = {"function-gemma", "gemma4", "qwen-coder", "glm"}
"""Families in which some texts end a value, or look like another one."""
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.text(st.characters(codec="utf-8"), max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(set(FORMS) - TEXTUAL)),
    arguments=st.lists(
        st.dictionaries(st.sampled_from(["town", "q"]), plain, max_size=2), max_size=3, min_size=1
    ),
    step=st.integers(1, 40),
)
def test_any_arguments_survive(name: str, arguments: list[dict[str, Any]], step: int) -> None:
    assert_called(read_form(name, FORMS[name].written(calls_of(*arguments)), step), *arguments)


WORDS = ("calls\u2581begin", "call\u2581begin", "sep", "call\u2581end")
MARKS = [
    "<tool_call>", "</tool_call>", "<|tool_call|>", "[TOOL_CALLS]", "[ARGS]", "<function=f>", "<parameter=a>",
    "</parameter>", "</function>", "<|python_tag|>", "<|tool_call_start|>", "<escape>", "call:f{", "}", "{",
    "<start_function_call>", "<|tool_call>", '<|"|>', '{"name": "now", "arguments": {', "]", '"', "\\", "\n",
    "x", *(f"<{BAR}tool\u2581{word}{BAR}>" for word in WORDS),
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(sorted(FORMS)),
    parts=st.lists(st.sampled_from(MARKS), max_size=14),
    step=st.integers(1, 9),
)
def test_any_mixture_of_tags_is_read_alike_in_any_pieces(name: str, parts: list[str], step: int) -> None:
    text = "".join(parts)
    whole = read_form(name, text)
    assert read_form(name, text, step) == whole
    if not whole.calls:
        assert whole.content == text


@pytest.mark.parametrize("name", every(3, FORMS))
def test_a_huge_reply_takes_time_in_proportion(name: str) -> None:
    long = {"town": 'a"{<' * 25_000}
    text = FORMS[name].written(calls_of(long))
    if name == "lfm":  # read at its end, and bounded
        assert read_form(name, text, 4).content == text
    else:
        assert_called(read_form(name, text, 4), long)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("inner", ["[", "{", '{"a":', "f(a=", "<escape>", '[{"name":'])
def test_hostile_nesting_ends(name: str, inner: str) -> None:
    call = FORMS[name].written(calls_of({"list": [1]}))
    at = call.rindex("[1]")
    read_form(name, call[:at] + inner * 20_000, 1000)
    read_form(name, call[: call.index("weather")] + inner * 20_000, 1000)
