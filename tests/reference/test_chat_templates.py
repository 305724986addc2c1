"""Chat templates render as transformers renders them.

Needs transformers (extra ``bench``): ``python -m pytest -m slow -s tests/reference``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgedec.core.errors import EdgeDecError
from edgedec.text.template import ChatTemplate
from edgedec.text.template_inputs import TemplateInputs, complete_tool
from edgedec.text.thinking import thinking_option
from tests.text.tool_calls.forms import NOW, WEATHER

pytestmark = pytest.mark.slow

CALL = {"town": "Rome", "days": 2, "more": {"x": 1.5, "a": True}, "list": ["a", "b"]}
CALLS = [{"id": "abc", "type": "function", "function": {"name": "weather", "arguments": CALL}}]
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "one turn": [{"role": "user", "content": " Hi <b> ü "}],
    "a system message": [{"role": "system", "content": "Be brief. "}, {"role": "user", "content": "Hi"}],
    "a thought": [
        {"role": "user", "content": "a"},
        {
            "role": "assistant",
            "content": "<think>\nso\n</think>\n\nb <begin>x<end> c",
            "reasoning_content": None,
        },
        {"role": "user", "content": "c"},
    ],
    "a call": [
        {"role": "user", "content": "w?"},
        {"role": "assistant", "content": "", "tool_calls": CALLS, "reasoning_content": "look"},
        {"role": "tool", "content": "Rain", "name": "weather", "tool_call_id": "abc"},
    ],
}
FOLDER = Path(__file__).parents[1] / "text" / "templates"
OWN_FOLDER = Path(__file__).parent / "templates"
OWN = ("channels", "thinks")
"""Templates with tools and a switch for thinking, with the constructs that Gemma 4 and Qwen3.5 use."""
SEEING = ("sees", "alternates")
"""Templates with tools and pictures, with the constructs that Qwen3-VL and Ministral 3 use."""
PLAIN = ("chatml", "llama3", "qwen2.5-coder", "smollm2")


@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("on", [None, True, False])
@pytest.mark.parametrize("name", OWN)
def test_tools_and_thinking_are_rendered_as_with_transformers(
    name: str, on: bool | None, conversation: str
) -> None:
    source, messages = _source(name), CONVERSATIONS[conversation]
    options = {} if on is None else thinking_option(source, on)
    ours = ChatTemplate(source, bos="<s>", eos="</s>").render(
        messages, TemplateInputs([WEATHER, NOW], options)
    )
    assert ours == _theirs(
        source, messages, tools=[complete_tool(tool) for tool in (WEATHER, NOW)], **options
    )


@pytest.mark.parametrize("conversation", [name for name in CONVERSATIONS if name != "a call"])
@pytest.mark.parametrize("name", PLAIN)
def test_plain_turns_are_rendered_as_with_transformers(name: str, conversation: str) -> None:
    source, messages = _source(name), CONVERSATIONS[conversation]
    assert ChatTemplate(source, bos="<s>", eos="</s>").render(messages) == _theirs(source, messages)


@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("name", SEEING)
def test_tools_of_models_that_see_are_rendered_as_with_transformers(name: str, conversation: str) -> None:
    source, messages = _source(name), CONVERSATIONS[conversation]
    for tools in ([], [WEATHER, NOW]):
        ours = ChatTemplate(source, bos="<s>", eos="</s>").render(messages, TemplateInputs(tools))
        given = [complete_tool(tool) for tool in tools] or None
        assert ours == _theirs(source, messages, tools=given)


@pytest.mark.parametrize(
    "messages", [[{"role": "user", "content": "a"}] * 2, [{"role": "developer", "content": "a"}]]
)
def test_a_conversation_that_a_template_refuses_is_one_line(messages: list[dict[str, Any]]) -> None:
    with pytest.raises(EdgeDecError, match=r"Roles must alternate\.|There is no role developer\.") as caught:
        ChatTemplate(_source("alternates"), bos="<s>", eos="</s>").render(messages)
    assert "\n" not in str(caught.value)


def _source(name: str) -> str:
    folder = OWN_FOLDER if name in OWN + SEEING else FOLDER
    return (folder / f"{name}.jinja").read_text(encoding="utf-8")


def _theirs(source: str, messages: list[dict[str, Any]], **inputs: Any) -> str:
    from transformers.utils.chat_template_utils import render_jinja_template

    given = {"chat_template": source, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
    ((text,), _) = render_jinja_template([messages], **given, **inputs)
    return str(text)
