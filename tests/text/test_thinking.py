from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedec.core.errors import UsageError
from edgedec.text.template import ChatTemplate
from edgedec.text.thinking import EFFORTS, ThinkingSplitter, effort_option, thinking_option


def split(text: str, size: int, *, begun: bool = False) -> tuple[str, str]:
    splitter = ThinkingSplitter(begun=begun)
    parts = [splitter.push(text[at : at + size]) for at in range(0, len(text), size)] + [splitter.flush()]
    return "".join(one for one, _ in parts), "".join(one for _, one in parts)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize(
    ("text", "begun", "thought", "answer"),
    [
        ("<think>So.</think>\n\nTwo.", False, "So.", "Two."),
        ("\n<think>So.</think>Two.", False, "So.", "Two."),
        ("So.</think>Two.", True, "So.", "Two."),
        ("<think>never ends </thin", False, "never ends </thin", ""),
        ("Use <think> and </think>.", False, "", "Use <think> and </think>."),
        ("<think>a</think>b <think>c</think>", False, "a", "b <think>c</think>"),
        ("<thinking is hard", False, "", "<thinking is hard"),
        ("", False, "", ""),
        ("<think></think>Yes", False, "", "Yes"),
    ],
)
def test_thinking_and_answer_are_told_apart(
    text: str, begun: bool, thought: str, answer: str, size: int
) -> None:
    if size == 1 and text.endswith("\n\nTwo."):
        answer = "\n" + answer  # blank lines that come later are the answer's, and Markdown ignores them
    found = split(text, size, begun=begun)
    assert (found[0], found[1].lstrip("\n")) == (thought, answer.lstrip("\n"))


@given(st.text(alphabet="<>/thinkab \n", max_size=60), st.integers(1, 5))
def test_a_reply_without_a_thinking_part_stays_as_it_is(text: str, size: int) -> None:
    if not text.lstrip().startswith("<think>"):
        assert split(text, size) == ("", text)


def test_the_end_of_thinking_is_known_at_once() -> None:
    splitter = ThinkingSplitter(begun=True)
    assert splitter.push("a") == ("a", "")
    assert splitter.thinking
    splitter.push("</think>")
    assert splitter.over


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("{%- if enable_thinking is defined and enable_thinking is false %}x{% endif %}", "enable_thinking"),
        (
            "{% if not enable_thinking is defined %}{% set enable_thinking = true %}{% endif %}",
            "enable_thinking",
        ),
        ("{%- if thinking is defined and thinking -%}x{%- endif %}", "thinking"),
        ("{% if x %}{% elif thinking %}{% endif %}", "thinking"),
        ("{{- 'a' if enable_thinking is true else 'b' }}", "enable_thinking"),
        ("{% if m.thinking %}{% endif %}{% if enable_thinking %}{% endif %}", "enable_thinking"),
    ],
)
def test_the_switch_of_a_template_is_found(source: str, name: str) -> None:
    assert thinking_option(source, True) == {name: True}
    assert thinking_option(source, False) == {name: False}


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages }}",
        "thinking {{ m }}",
        "{% if m.thinking %}{% endif %}",
        "{% if 'thinking' in m %}{% endif %}",
    ],
)
def test_a_template_without_a_switch_says_so(source: str) -> None:
    with pytest.raises(UsageError, match="cannot turn thinking off"):
        thinking_option(source, False)


def test_a_template_renders_with_thinking_on_or_off() -> None:
    source = "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
    template = ChatTemplate(source, bos="", eos="")
    assert template.render([]) == ""
    assert template.thinking(False).render([]) == "<think></think>"
    assert template.thinking(False).thinking(True).render([]) == ""


def test_an_effort_is_the_variable_that_a_template_reads() -> None:
    switch, words = "{% if enable_thinking %}", "{{ reasoning_effort }}"
    assert [effort_option(switch, one)["enable_thinking"] for one in EFFORTS] == [False, False, *[True] * 4]
    found = [effort_option(words, one)["reasoning_effort"] for one in EFFORTS]
    assert found == ["low", "low", "low", "medium", "high", "high"]
    assert all(effort_option("{{ messages }}", one) == {} for one in EFFORTS)
