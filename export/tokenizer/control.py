"""Finds the control tokens among added tokens: also those that their source does not mark as such."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from edgedec.core.errors import TemplateError
from edgedec.text.template import ChatTemplate
from edgedec.text.thinking import THINKING_TAGS
from edgedec.text.tool_calls.families import FAMILIES

LOOKS_LIKE_CONTROL = re.compile(r"<[|\uff5c][^\s<>]+[|\uff5c]>")
"""Such tokens are control tokens in each model that has them, as llama.cpp's converter holds too."""
_MARKER = re.compile(r"(?=.*[^\W_])[^\w\s]\S.*[^\w\s]", re.DOTALL)
"""A token that may stand around turns: a word between signs, and no white space, number or plain word."""
_TALK = ("system", "user", "assistant", "user")


def mark_control_tokens(
    added: Sequence[dict[str, Any]], template: str | None, bos: str = "", eos: str = ""
) -> None:
    """Set ``special`` for each of ``added`` that is a control token, whatever its source says.

    These are tokens that look like one, and those with which the chat template writes turns. Tags around
    thinking and calls of tools stay as they are: they are text of replies.
    """
    reply = {
        *(tag for tags in THINKING_TAGS for tag in tags),
        *(tag for one in FAMILIES for tag in one.control),
    }
    open_ = [token for token in added if not token.get("special") and token["content"] not in reply]
    for token in open_:
        token["special"] = LOOKS_LIKE_CONTROL.fullmatch(token["content"]) is not None
    left = [
        token
        for token in open_
        if not token["special"]
        and token["content"] in (template or "")
        and _MARKER.fullmatch(token["content"])
    ]
    if left and template:
        written = _written(ChatTemplate(template, bos=bos, eos=eos))
        for token in left:
            token["special"] = token["content"] in written


def _written(template: ChatTemplate) -> str:
    """Return a short conversation as the template writes it; '' where it writes none."""
    talk: list[Mapping[str, str]] = [{"role": role, "content": "x"} for role in _TALK]
    for messages in (talk, talk[1:]):  # some templates know no system message
        with suppress(TemplateError):
            return template.render(messages, add_generation_prompt=False)
    return ""
