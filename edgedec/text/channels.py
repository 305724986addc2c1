"""Replies in channels, the form of gpt-oss that is called "harmony", as the text that other models write.

Such a reply is a row of messages: analysis is its thinking part, final is the answer, and commentary is text
beside calls of tools, or a call:

    <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...<|return|>

The marks are control tokens; the prompt ends in ``<|start|>assistant``. Analysis is written between the usual
tags of thinking, and calls keep a header, which ``tool_calls.harmony`` reads.
"""

from __future__ import annotations

import re

from edgedec.text.thinking import BEGIN, END

START, CHANNEL, CONSTRAIN, MESSAGE = "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"
_OVER = "<|end|>"
MARKS = (START, CHANNEL, CONSTRAIN, MESSAGE, _OVER)
"""Control tokens of the form that end no reply."""
FINAL = f"{CHANNEL}final{MESSAGE}"
"""Header of an answer."""
_NAME = re.compile(re.escape(CHANNEL) + r"\s*(\w+)")
_TO = re.compile(r"\bto=([^\s<]+)")
_NOBODY = ("user", "assistant", "all")
"""Recipients that are no tools."""
_APART = "\n\n"


def has_channels(template: str) -> bool:
    """Return whether a chat template writes its messages in channels."""
    return CHANNEL in template and MESSAGE in template


def call_header(recipient: str) -> str:
    """Return the text before the arguments of a call, as the template writes it behind the role."""
    return f"to={recipient}{CHANNEL}commentary json{MESSAGE}"


class ChannelText:
    """Turns the tokens of a reply in channels into text, as they come.

    Text that stands outside of a message is the answer, so a reply without marks stays as it is. Analysis
    behind the beginning of an answer is left out: nobody is to see it.

    >>> reply = ChannelText()
    >>> reply.mark("<|channel|>") + reply.text("analysis") + reply.mark("<|message|>") + reply.text("Hm.")
    '<think>Hm.'
    >>> reply.mark("<|end|>") + reply.mark("<|channel|>") + reply.text("final") + reply.mark("<|message|>")
    '</think>\\n\\n'
    """

    def __init__(self) -> None:
        self._header: str | None = ""
        """Text of the header that is being read; None within a message."""
        self._thinking = self._answered = self._silent = False

    def mark(self, mark: str) -> str:
        """Add one of ``MARKS``; return the text that is certain now."""
        if mark == MESSAGE:
            header, self._header = self._header, None
            return "" if header is None else self._begin(header)
        if mark == CONSTRAIN:
            return ""
        if mark == CHANNEL:
            self._header = (self._header or "") + mark
            return ""
        self._header = mark if mark == START else ""
        return ""

    def text(self, piece: str) -> str:
        """Add text that is no mark; return what is certain now."""
        if self._header is None:
            return "" if self._silent else piece
        self._header += piece
        if self._header.startswith((START, CHANNEL)) or _may_be_recipient(self._header.lstrip()):
            return ""
        found, self._header = self._header, None
        return self._begin("") + found if found else ""

    def flush(self) -> str:
        """End the reply; return text that was held because it might have begun a header."""
        held, self._header = self._header, None
        if not held or held.startswith((START, CHANNEL)):
            return ""
        return self._begin("") + held

    def _begin(self, header: str) -> str:
        """Begin the message of a header; return what stands before its text."""
        name, to = _NAME.search(header), _TO.search(header)
        call = to is not None and to[1] not in _NOBODY
        if name and name[1] == "analysis" and not call:
            self._silent = self._answered
            again, self._thinking = self._thinking, not self._silent
            return "" if self._silent else "\n" if again else BEGIN
        before = f"{END}{_APART}" if self._thinking else _APART if self._answered else ""
        self._thinking, self._answered, self._silent = False, True, False
        return before + (call_header(to[1]) if to and call else "")


def _may_be_recipient(text: str) -> bool:
    """Whether a header that begins with ``text`` may name a recipient before its channel."""
    return text.startswith("to=") or "to=".startswith(text)
