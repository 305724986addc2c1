"""Tell the thinking part of a reply from its answer, while the reply is streamed.

Models that think first write ``<think>...</think>`` at the beginning of a reply. The prompts of some of them
end in ``<think>``; their replies begin inside of it. Other families have other tags: see ``thinking_tags``.
"""

from __future__ import annotations

import re

from edgedec.core.errors import UsageError

BEGIN, END = "<think>", "</think>"
THINKING_TAGS = (
    ("<|channel>thought", "<channel|>"),  # Gemma 4
    ("[THINK]", "[/THINK]"),  # Magistral
    (BEGIN, END),
)
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
"""Words for how much a reply thinks, from the least to the most."""
_OFF = ("none", "minimal")
_EFFORT_TOKENS = {"none": 0, "minimal": 0, "low": 1_024, "medium": 8_192}
"""Most tokens of a thought by the word for it; more effort has no bound."""
_KNOWN_EFFORTS = {"none": "low", "minimal": "low", "xhigh": "high"}
"""Words of templates that read one, for those that they do not know."""
_VARIABLES = ("enable_thinking", "thinking")
"""Names that templates give their switch; the last is that of Granite and DeepSeek."""
_ASKED = r"\{[%%{][^%%}]*?\b(?:el)?if\b[^%%}]*?(?<![.\w'\"])%s\b"


def thinking_tags(template: str) -> tuple[str, str]:
    """Return the tags around the thinking part that a chat template names; the usual ones for none."""
    return next((tags for tags in THINKING_TAGS if tags[1] in template), (BEGIN, END))


def thinks(template: str) -> bool:
    """Return whether a chat template knows of a thinking part."""
    return any(end in template for _, end in THINKING_TAGS) or "<|channel|>analysis" in template


def thinking_option(template: str, on: bool) -> dict[str, bool]:
    """Return the variable that tells a chat template whether replies think first, with the value ``on``.

    Raises UsageError for a template that reads no such variable.
    """
    for name in _VARIABLES:
        if re.search(_ASKED % name, template):
            return {name: on}
    raise UsageError(
        f"the model's chat template cannot turn thinking {'on' if on else 'off'}",
        hint="leave it as it is, or use a model with a switch for it, such as qwen3-0.6b",
    )


def effort_option(template: str, effort: str) -> dict[str, str | bool]:
    """Return the variable that tells a chat template how much to think; none for one that reads no such.

    A template with a switch alone thinks at each of ``EFFORTS`` but the two least.

    >>> effort_option("{% if enable_thinking %}", "none"), effort_option("", "none")
    ({'enable_thinking': False}, {})
    """
    if re.search(r"\breasoning_effort\b", template):
        return {"reasoning_effort": _KNOWN_EFFORTS.get(effort, effort)}
    try:
        return dict(thinking_option(template, effort not in _OFF))
    except UsageError:
        return {}


def effort_limit(template: str, effort: str | None) -> int | None:
    """Return the most tokens of a thought for a word of effort; None where nothing need bound it.

    A template that reads the word has a model that knows it; one with a switch turns thoughts off itself.
    """
    if effort is None or re.search(r"\breasoning_effort\b", template):
        return None
    return None if effort in _OFF and effort_option(template, effort) else _EFFORT_TOKENS.get(effort)


class ThinkingSplitter:
    """Divides streamed text into thinking and answer, without the tags.

    A tag counts once, and only at the beginning of the reply: later ones are text. ``thinking`` is True while
    the reply is inside, ``thought`` from then on; with ``begun`` it begins there. Newlines between thinking
    and answer are dropped.

    >>> splitter = ThinkingSplitter()
    >>> splitter.push("<thi"), splitter.push("nk>So, "), splitter.push("2.</think>Two")
    (('', ''), ('So, ', ''), ('2.', 'Two'))
    """

    def __init__(self, *, begun: bool = False, tags: tuple[str, str] = (BEGIN, END)) -> None:
        self._begin, self._end = tags
        self.thinking = self.thought = begun
        self._undecided = not begun
        self._held = ""
        self._drops_newlines = False

    @property
    def over(self) -> bool:
        """Whether all text to come belongs to the answer."""
        return not self.thinking and not self._undecided

    def push(self, text: str) -> tuple[str, str]:
        """Add a piece; return the thinking and the answer that are certain now."""
        if self.over:
            return "", self._answer(text)
        self._held += text
        if self._undecided:
            start = self._held.lstrip()
            if self._begin.startswith(start[: len(self._begin)]) and len(start) < len(self._begin):
                return "", ""
            self._undecided = False
            if not start.startswith(self._begin):
                return "", self._release(len(self._held))
            self.thinking = self.thought = True
            self._held = start[len(self._begin) :]
        return self._inside()

    def flush(self) -> tuple[str, str]:
        """End the stream; return the thinking and the answer that were held back."""
        rest = self._release(len(self._held))
        return (rest, "") if self.thinking else ("", rest)

    def _inside(self) -> tuple[str, str]:
        at = self._held.find(self._end)
        if at >= 0:
            thought = self._release(at)
            self.thinking, self._drops_newlines = False, True
            return thought, self._answer(self._release(len(self._held))[len(self._end) :])
        sizes = range(len(self._end) - 1, 0, -1)
        tail = next((size for size in sizes if self._held.endswith(self._end[:size])), 0)
        return self._release(len(self._held) - tail), ""

    def _answer(self, text: str) -> str:
        if self._drops_newlines:
            text = text.lstrip("\n")
            self._drops_newlines = not text
        return text

    def _release(self, length: int) -> str:
        released, self._held = self._held[:length], self._held[length:]
        return released
