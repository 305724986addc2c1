"""Replies that must be a call, and calls of strict functions: the grammar allows them and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgedec.core.errors import UnsupportedError, UsageError
from edgedec.core.ledger import Ledger
from edgedec.grammar.spec import GrammarSpec
from edgedec.session.reply_syntax import ReplySyntax, read_whole
from edgedec.text.codec import Codec
from tests.fixtures.tiny_vocab import BPE_SPECIALS
from tests.grammar.support import spec
from tests.session import parrot
from tests.text.tool_calls.forms import FORMS

pytest.importorskip("llguidance")

PAINT: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "paint",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"colour": {"enum": ["red", "green"]}, "coats": {"type": "integer"}},
            "required": ["colour"],
            "additionalProperties": False,
        },
    },
}
NOTED: dict[str, Any] = {
    "type": "function",
    "function": {
        **PAINT["function"],
        "parameters": {
            **PAINT["function"]["parameters"],
            "properties": {
                "colour": {"type": "string", "enum": ["red", "green"]},
                "coats": {"type": "integer"},
                "note": {"type": "string"},
            },
        },
    },
}
STOP: dict[str, Any] = {"type": "function", "function": {"name": "stop"}}
JSON_FORMS = [name for name in FORMS if name not in ("qwen-coder", "lfm", "glm", "function-gemma", "gemma4")]


def codec_for(folder: Path, name: str) -> Codec:
    return replace(parrot.codec_of(parrot.make_tokenizer(folder)), template=FORMS[name].template)


def allows(codec: Codec, form: GrammarSpec | None, text: str) -> bool:
    """Whether a reply of these tokens is of the form."""
    from edgedec.grammar.matcher import constraint_for

    assert form is not None
    model = replace(spec(), vocab_size=codec.tokenizer.size, eos_ids=(parrot.END,))
    one = constraint_for(form, codec.tokenizer, model, Ledger())
    ids = codec.tokenizer.encode(text, add_bos=False, parse_special=True)
    return all(one.advance(token) for token in ids) and one.accepts


def call(codec: Codec, name: str, **arguments: object) -> str:
    assert codec.template is not None
    family = codec.template.call_family()
    assert family is not None
    return family.written(name, arguments) or ""


@pytest.mark.parametrize("name", JSON_FORMS)
def test_a_required_call_keeps_form_and_schema(tmp_path: Path, name: str) -> None:
    codec = codec_for(tmp_path, name)
    any_one = ReplySyntax(codec, (PAINT, STOP), "required").grammar("")
    named = ReplySyntax(codec, (PAINT, STOP), "stop").grammar("")
    good = call(codec, "paint", colour="red", coats=2)
    assert allows(codec, any_one, good)
    assert allows(codec, any_one, call(codec, "stop"))
    assert allows(codec, named, call(codec, "stop"))
    for bad in (
        "", "Hello.", good[:-1], f"{good} ", f"x{good}", f"{good}{good}", call(codec, "paint"),
        call(codec, "paint", colour="blue"), call(codec, "paint", colour="red", more=1), call(codec, "other"),
    ):  # fmt: skip
        assert not allows(codec, any_one, bad), bad
    assert not allows(codec, named, good)


def test_a_required_call_after_thinking(tmp_path: Path) -> None:
    codec = codec_for(tmp_path, "hermes")
    form = ReplySyntax(codec, (STOP,), "required").grammar("<|im_start|>assistant\n<think>\n")
    assert allows(codec, form, f"Hm, <tool_call>?\n</think>\n\n{call(codec, 'stop')}")
    assert not allows(codec, form, call(codec, "stop"))


def test_calls_in_channels_are_free(tmp_path: Path) -> None:
    """Marks of channels are control tokens, of which a grammar of text has none."""
    assert ReplySyntax(codec_for(tmp_path, "harmony"), (PAINT, STOP)).grammar("") is None


@pytest.mark.parametrize("name", sorted(set(JSON_FORMS) - {"llama", "harmony"}))
def test_calls_of_strict_functions_keep_their_schema(tmp_path: Path, name: str) -> None:
    codec = codec_for(tmp_path, name)
    form = ReplySyntax(codec, (PAINT, STOP)).grammar("")
    good = call(codec, "paint", colour="red", coats=2)
    free = call(codec, "stop", anything=[1])
    for text in ("", "Hello, < [ {.", good, f"I paint. {good}", f"{good}\n{good} Done.", f"{good}{free}"):
        assert allows(codec, form, text), text
    for text in (
        call(codec, "paint"),
        f"x {call(codec, 'paint', colour='blue')}",
        f"{good}{call(codec, 'paint')}",
    ):
        assert not allows(codec, form, text), text


NUMBER = GrammarSpec.json_schema(
    {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
)


@pytest.mark.parametrize("name", sorted(FORMS))
def test_a_reply_beside_tools_has_its_form_or_is_a_call(tmp_path: Path, name: str) -> None:
    codec = codec_for(tmp_path, name)
    form = ReplySyntax(codec, (PAINT, STOP)).grammar("", NUMBER)
    written = FORMS[name].written([{"id": "c", "function": {"name": "stop", "arguments": {}}}]).strip()
    written = call(codec, "stop") if name in JSON_FORMS else written
    for text in ('{"n": 7}', '{\n  "n": 7\n}', written):
        assert allows(codec, form, text), text
    for text in ("", "Hello.", '{"m": 7}', 'I say {"n": 7}', f'{{"n": 7}}{written}'):
        assert not allows(codec, form, text), text
    if name in JSON_FORMS:
        assert allows(codec, form, call(codec, "stop", anything=[1]))
        assert not allows(codec, form, call(codec, "paint", colour="blue"))


def test_a_call_without_its_tag_may_stand_in_place_of_the_form(tmp_path: Path) -> None:
    codec = codec_for(tmp_path, "hermes")
    form = ReplySyntax(codec, (PAINT, STOP)).grammar("", NUMBER)
    bare = '{"name": "paint", "arguments": {"colour": "%s"}}'
    assert allows(codec, form, bare % "red")
    assert allows(codec, form, '{"name": "stop", "arguments": {}}')
    assert not allows(codec, form, bare % "blue")
    assert not allows(codec, form, '{"name": "other", "arguments": {}}')
    referring = {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"const": 1}}}
    function = {**STOP["function"], "strict": True, "parameters": referring}
    form = ReplySyntax(codec, ({"type": "function", "function": function},)).grammar("", NUMBER)
    assert allows(codec, form, '{"name": "stop", "arguments": {"a": 1}}')
    assert not allows(codec, form, '{"name": "stop", "arguments": {"a": 2}}')


def test_a_reply_that_must_be_a_call_has_no_other_form(tmp_path: Path) -> None:
    codec = codec_for(tmp_path, "hermes")
    required = ReplySyntax(codec, (STOP,), "required").grammar("", NUMBER)
    assert allows(codec, required, call(codec, "stop"))
    assert not allows(codec, required, '{"n": 7}')
    assert ReplySyntax(codec, (STOP,), "none").grammar("", NUMBER) == NUMBER
    assert ReplySyntax(codec).grammar("", NUMBER) == NUMBER
    thinking = ReplySyntax(codec, (STOP,)).grammar("<|im_start|>assistant\n<think>\n", NUMBER)
    assert allows(codec, thinking, 'Hm.\n</think>\n\n{"n": 7}')
    with pytest.raises(UsageError, match="beside tools"):
        ReplySyntax(codec, (STOP,)).grammar("", GrammarSpec.regex("yes|no"))


def test_control_tokens_of_a_form_are_tokens_in_its_grammar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parrot, "BPE_SPECIALS", (*BPE_SPECIALS, "[TOOL_CALLS]"))
    codec = codec_for(tmp_path, "mistral")
    for syntax in (ReplySyntax(codec, (PAINT,), "required"), ReplySyntax(codec, (PAINT,))):
        form = syntax.grammar("")
        assert form is not None
        assert f"<[{len(BPE_SPECIALS)}]>" in form.text
        assert allows(codec, form, call(codec, "paint", colour="red"))
        assert not allows(codec, form, call(codec, "paint", colour="blue"))


def test_without_strict_functions_replies_are_free(tmp_path: Path) -> None:
    codec = codec_for(tmp_path, "hermes")
    assert ReplySyntax(codec, (STOP,)).grammar("") is None
    assert ReplySyntax(codec, (PAINT,), "none").grammar("") is None
    assert ReplySyntax(codec_for(tmp_path, "llama"), (PAINT,)).grammar("") is None


def bound(codec: Codec, *tools: dict[str, Any]) -> GrammarSpec:
    form = ReplySyntax(codec, tools, bound=True).grammar("")
    assert form is not None
    return form


FREE: dict[str, Any] = {"type": "function", "function": {**PAINT["function"], "strict": False}}


@pytest.mark.parametrize("name", sorted(set(JSON_FORMS) - {"llama", "harmony"}))
def test_bound_calls_keep_schemas_that_are_not_strict(tmp_path: Path, name: str) -> None:
    codec = codec_for(tmp_path, name)
    form = bound(codec, FREE)
    assert allows(codec, form, f"I paint. {call(codec, 'paint', colour='red', coats=2)}")
    assert not allows(codec, form, call(codec, "paint", colour="blue"))
    assert not allows(codec, form, call(codec, "other"))


def test_bound_objects_of_llama_keep_their_schema(tmp_path: Path) -> None:
    codec = replace(
        codec_for(tmp_path, "llama"), tokenizer=parrot.make_tokenizer(tmp_path, ["<|python_tag|>"])
    )
    form = bound(codec, FREE, STOP)
    red, blue = (call(codec, "paint", colour=colour) for colour in ("red", "blue"))
    for text in (red, f"<|python_tag|>{red}", f"{red}; {call(codec, 'stop')}", "Hello.", '{"name": "Bob"}'):
        assert allows(codec, form, text), text
    for text in (blue, f"<|python_tag|>{blue}", f"{red}; {blue}", f"\n{blue}", "<|python_tag|>paint.call()"):
        assert not allows(codec, form, text), text


def test_a_thinking_part_between_control_tokens_is_free_and_calls_behind_it_are_bound(tmp_path: Path) -> None:
    codec = codec_for(tmp_path, "hermes")
    codec = replace(codec, tokenizer=parrot.make_tokenizer(tmp_path, ["<think>", "</think>"]))
    form = bound(codec, FREE)
    red, blue = (call(codec, "paint", colour=colour) for colour in ("red", "blue"))
    for text in (f"<think>Is it {blue}?</think>{red}", f"Hm.</think>\n\n{red}", red, "<think>Hm", "Hello"):
        assert allows(codec, form, text), text
    for text in (f"<think>Hm.</think>{blue}", blue, f"Hm.</think>{blue}"):
        assert not allows(codec, form, text), text


def test_a_schema_that_no_grammar_keeps_leaves_its_tool_free_and_says_so(tmp_path: Path) -> None:
    codec = codec_for(tmp_path, "hermes")
    form = bound(codec, FREE, tool("mark", type="string", pattern="(?=a)b"), tool("list", uniqueItems=True))
    assert form.left_out[0] == "the arguments of the tool 'mark'"
    assert form.left_out[1].startswith('"uniqueItems" at /properties/a of the tool')
    assert allows(codec, form, call(codec, "mark", a=3))
    assert not allows(codec, form, call(codec, "paint", colour="blue"))


def tool(name: str, strict: bool = False, **schema: object) -> dict[str, Any]:
    function: dict[str, Any] = {"name": name, "parameters": {"type": "object", "properties": {"a": schema}}}
    return {"type": "function", "function": function | ({"strict": True} if strict else {})}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "uniqueItems": True, "items": {"type": "integer"}},
        {"type": "object", "propertyNames": {"maxLength": 3}},
        {"type": "string", "format": "color"},
        {"oneOf": [{"type": "integer", "minimum": 3}, {"type": "integer", "maximum": 5}]},
    ],
)
def test_one_tool_with_a_keyword_that_cannot_be_kept_leaves_all_callable(
    tmp_path: Path, schema: dict[str, Any]
) -> None:
    codec = codec_for(tmp_path, "hermes")
    form = ReplySyntax(codec, (PAINT, STOP, tool("mark", **schema)), "required").grammar("")
    assert form is not None
    assert form.left_out == (() if "oneOf" in schema else form.left_out[:1])
    assert all("of the tool 'mark'" in one for one in form.left_out)
    assert allows(codec, form, call(codec, "paint", colour="red"))
    assert not allows(codec, form, call(codec, "paint", colour="blue"))
    assert allows(codec, form, call(codec, "mark"))


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (tool("mark", strict=True, uniqueItems=True), "the tool 'mark': .*\"uniqueItems\" at /properties/a"),
        (tool("mark", type="integer", maximum=-1e30), "the tool 'mark': .*\"maximum\": -1e\\+30"),
        (tool("mark", type="string", pattern="(?=a)b"), "the tool 'mark': "),
        (tool("mark", **{"$ref": "#/properties/a"}), "the tool 'mark': .* leads back to itself"),
    ],
)
def test_a_tool_that_cannot_be_called_by_its_schema_is_named(
    tmp_path: Path, last: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        ReplySyntax(codec_for(tmp_path, "hermes"), (PAINT, STOP, last), "required").grammar("")


def test_the_schema_of_a_tool_that_may_be_free_is_not_asked(tmp_path: Path) -> None:
    codec = codec_for(tmp_path, "hermes")
    form = ReplySyntax(codec, (PAINT, tool("mark", type="string", pattern="(?=a)b"))).grammar("")
    assert allows(codec, form, call(codec, "mark", a=3))


UNTAGGED = (
    '{"name": "paint", "arguments": {"colour": "%s"}}',
    '```json\n{\n  "name": "paint",\n  "arguments": {\n    "colour": "%s"\n  }\n}\n```',
    '{"name": "paint","arguments":{"colour":"%s"}}\n',
)


@pytest.mark.parametrize("text", UNTAGGED)
def test_a_strict_call_without_its_tag_keeps_its_schema_too(tmp_path: Path, text: str) -> None:
    codec = codec_for(tmp_path, "hermes")
    syntax = ReplySyntax(codec, (PAINT, STOP))
    form = syntax.grammar("")
    assert allows(codec, form, text % "red")
    assert not allows(codec, form, text % "blue")
    assert text[0] != "{" or not allows(codec, form, "{" + text % "red" + "}")
    reader = syntax.reader()
    parts = [reader.push(text % "red"), reader.flush()]
    assert [delta.name for part in parts for delta in part.calls][:1] == ["paint"]


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Bob", "age": 3}',
        '```json\n{"answer": 42}\n```',
        "```python\nprint()\n```",
        '{"arguments": {"colour": "blue"}, "name": "paint"}',
        '{"function": "paint", "arguments": {"colour": "blue"}}',
    ],
)
def test_other_json_stays_text_where_functions_are_strict(tmp_path: Path, text: str) -> None:
    codec = codec_for(tmp_path, "hermes")
    syntax = ReplySyntax(codec, (PAINT, STOP))
    assert allows(codec, syntax.grammar(""), text)
    reader = syntax.reader()
    assert reader.push(text).content + reader.flush().content == text
    assert reader.calls == 0


BETWEEN_TAGS = {"qwen-coder", "glm"}


@pytest.mark.parametrize("name", sorted(BETWEEN_TAGS))
def test_calls_with_arguments_between_tags_keep_their_schema(tmp_path: Path, name: str) -> None:
    codec = codec_for(tmp_path, name)
    form = ReplySyntax(codec, (NOTED, STOP)).grammar("")

    def written(name_of: str, **arguments: object) -> str:
        given = [{"id": "c", "function": {"name": name_of, "arguments": arguments}}]
        return FORMS[name].written(given).strip()

    good = written("paint", colour="red", coats=2, note="as\nit {is}, </tool_call>")
    for text in (
        "",
        "Hello <.",
        good,
        f"I paint. {good}\n{good} Done.",
        written("stop", a=[1]),
        f"Hm.{good}",
    ):
        assert allows(codec, form, text), text
    for text in (
        written("paint", coats=2), written("paint", colour="blue"), written("paint", colour="red", coats="x"),
        written("paint", colour="red", more=1), written("other"), f"{good}{written('paint')}",
        '<tool_call>{"name": "paint", "arguments": {}}</tool_call>', good[:-1],
    ):  # fmt: skip
        assert not allows(codec, form, text), text
    required = ReplySyntax(codec, (NOTED, STOP), "required").grammar("")
    assert allows(codec, required, good)
    assert allows(codec, required, written("stop"))
    for text in ("", "Hello.", written("paint", colour="blue"), f"x{good}", f"{good}{good}"):
        assert not allows(codec, required, text), text
    message = read_whole(ReplySyntax(codec, (NOTED, STOP)).reader(), good)
    [one] = message.tool_calls
    assert one.values() == {"colour": "red", "coats": 2, "note": "as\nit {is}, </tool_call>"}


def test_a_schema_that_tags_cannot_keep_leaves_calls_free(tmp_path: Path) -> None:
    codec = codec_for(tmp_path, "qwen-coder")
    for schema in ({"type": "string", "pattern": "a+"}, {"type": "string", "enum": [1]}):
        assert ReplySyntax(codec, (tool("mark", strict=True, **schema),)).grammar("") is None


TAG_PARTS = [
    "<tool_call>", "\n", "<function=paint>", "<parameter=colour>", "blue", "red", "</parameter>",
    "</function>", "</tool_call>", "<parameter=note>", "<function=stop>",
    "<tool_call>\n<function=paint>\n<parameter=colour>\nred\n</parameter>\n</function>\n</tool_call>",
    "<function=paint>\n<parameter=colour>\nblue\n</parameter>\n</function>", "x",
    '{"name": "paint", "arguments": {"colour": "blue"}}',
]  # fmt: skip


@pytest.fixture(scope="module")
def coder(tmp_path_factory: pytest.TempPathFactory) -> Codec:
    return codec_for(tmp_path_factory.mktemp("codec"), "qwen-coder")


@settings(max_examples=300, deadline=None)
@given(parts=st.lists(st.sampled_from(TAG_PARTS), max_size=9))
def test_a_strict_function_between_tags_is_never_called_with_other_arguments(
    coder: Codec, parts: list[str]
) -> None:
    text = "".join(parts)
    syntax = ReplySyntax(coder, (NOTED, STOP))
    calls = [one for one in read_whole(syntax.reader(), text).tool_calls if one.name == "paint"]
    wrong = [one for one in calls if '"colour": "red"' not in one.arguments]
    assert not wrong or not allows(coder, syntax.grammar(""), text)


PARTS = [
    "<tool_call>", "</tool_call>", "\n", "```json\n", "```", "{", "}", " ", "x", "[", "]", ", ",
    '{"name": "paint", "arguments": {"colour": "blue"}}', '{"name": "paint", "arguments": {"colour": "red"}}',
    '{"arguments": {"colour": "blue"}, "name": "paint"}', '"name": "paint"', '"arguments": {}',
    '<tool_call>\n{"name": "paint", "arguments": {"colour": "red"}}\n</tool_call>', "<think>", "</think>",
]  # fmt: skip


@pytest.fixture(scope="module")
def hermes(tmp_path_factory: pytest.TempPathFactory) -> Codec:
    return codec_for(tmp_path_factory.mktemp("codec"), "hermes")


@settings(max_examples=250, deadline=None)
@example(parts=["<think>", "x", "</think>", "\n", '{"name": "paint", "arguments": {"colour": "blue"}}'])
@given(parts=st.lists(st.sampled_from(PARTS), max_size=6))
def test_a_strict_function_is_never_called_with_other_arguments(hermes: Codec, parts: list[str]) -> None:
    """Of all texts that the grammar allows, the reader reads only calls that keep the schema."""
    text = "".join(parts)
    syntax = ReplySyntax(hermes, (PAINT, STOP))
    message = read_whole(syntax.reader(), text)
    wrong = [call for call in message.tool_calls if call.name == "paint" and '"blue"' in call.arguments]
    wrong += [call for call in message.tool_calls if call.name == "paint" and '"red"' not in call.arguments]
    assert not wrong or not allows(hermes, syntax.grammar(""), text)


@pytest.mark.parametrize("name", sorted(set(FORMS) - set(JSON_FORMS) - BETWEEN_TAGS))
def test_a_form_without_a_grammar_cannot_be_required(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsupportedError, match="no grammar"):
        ReplySyntax(codec_for(tmp_path, name), (STOP,), "required").grammar("")
