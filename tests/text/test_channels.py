"""Replies in channels, turned into the text that other models write."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedec.text.channels import MARKS, ChannelText, has_channels

ANALYSIS, FINAL = "<|channel|>analysis<|message|>", "<|channel|>final<|message|>"
NEXT = "<|end|><|start|>assistant"
_PARTS = re.compile("(" + "|".join(map(re.escape, MARKS)) + ")")


def shown(reply: str, size: int = 100) -> str:
    """A reply whose marks are tokens, and whose other text comes in pieces."""
    channels, found = ChannelText(), []
    for part in filter(None, _PARTS.split(reply)):
        if part in MARKS:
            found.append(channels.mark(part))
        else:
            found += [channels.text(part[at : at + size]) for at in range(0, len(part), size)]
    return "".join([*found, channels.flush()])


CALL = "<|channel|>commentary to=functions.add <|constrain|>json<|message|>"
HEADER = "to=functions.add<|channel|>commentary json<|message|>"
REPLIES = {
    "analysis and answer": (f"{ANALYSIS}Hm.{NEXT}{FINAL}Two.", "<think>Hm.</think>\n\nTwo."),
    "an answer alone": (f"{FINAL}Two.", "Two."),
    "analysis that was cut": (f"{ANALYSIS}Hm", "<think>Hm"),
    "analysis twice": (f"{ANALYSIS}a{NEXT}{ANALYSIS}b{NEXT}{FINAL}c", "<think>a\nb</think>\n\nc"),
    "no marks": ("Two. to=functions.", "Two. to=functions."),
    "JSON": ('{"a": 1}', '{"a": 1}'),
    "nothing": ("", ""),
    "a header that was cut": (f"{ANALYSIS}a{NEXT}<|channel|>fi", "<think>a"),
    "text between messages": (f"{FINAL}a<|end|>b", "a\n\nb"),
    "a recipient that was cut": (" to=fu", " to=fu"),
    "a call": (f"{ANALYSIS}a{NEXT}{CALL}{{}}", f"<think>a</think>\n\n{HEADER}{{}}"),
    "a recipient before its channel": (
        " to=functions.add<|channel|>commentary json<|message|>{}",
        f"{HEADER}{{}}",
    ),
    "a recipient in the role": (
        f"{ANALYSIS}a{NEXT} to=functions.add<|channel|>commentary<|message|>{{}}",
        f"<think>a</think>\n\n{HEADER}{{}}",
    ),
    "text beside a call": (
        f"<|channel|>commentary<|message|>I add.{NEXT}{CALL}{{}}",
        f"I add.\n\n{HEADER}{{}}",
    ),
    "a builtin tool in analysis": (
        "<|channel|>analysis to=python code<|message|>1 + 1",
        "to=python<|channel|>commentary json<|message|>1 + 1",
    ),
    "analysis behind an answer": (f"{FINAL}a{NEXT}{ANALYSIS}secret{NEXT}{FINAL}b", "a\n\nb"),
    "a message to the user": ("<|channel|>final to=user<|message|>a", "a"),
    "no end of a message": (f"{ANALYSIS}a<|start|>assistant{FINAL}b", "<think>a</think>\n\nb"),
    "an unknown channel": ("<|channel|>other<|message|>a", "a"),
    "channels without roles": (f"{ANALYSIS}a<|end|>{FINAL}b", "<think>a</think>\n\nb"),
    "a mark within a message": (f"{FINAL}a<|message|>b<|constrain|>c", "abc"),
}


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("name", REPLIES)
def test_replies(name: str, size: int) -> None:
    reply, expected = REPLIES[name]
    assert shown(reply, size) == expected


@given(st.text(alphabet="to=funcis. <|>", max_size=30), st.integers(1, 5))
def test_text_without_marks_stays_as_it_is(text: str, size: int) -> None:
    channels = ChannelText()
    pieces = [channels.text(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join([*pieces, channels.flush()]) == text


def test_templates_with_channels() -> None:
    assert has_channels("<|start|>assistant<|channel|>final<|message|>")
    assert not has_channels("<|channel>thought <channel|>")
    assert not has_channels("<|start|>user<|message|>")
