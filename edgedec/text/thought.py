"""The form of the thinking part of a reply: its tags, and the words that close it after so many tokens."""

from __future__ import annotations

from edgedec.core.quick_dataclass import dataclass
from edgedec.text.channels import CHANNEL, FINAL, MESSAGE, START, has_channels
from edgedec.text.thinking import thinking_tags

_WORDS = "\n\nI have thought enough, and answer now.\n"
_ANALYSIS, _ANALYSIS_END = f"{CHANNEL}analysis{MESSAGE}", "<|end|>"


@dataclass(frozen=True, slots=True)
class ThoughtRule:
    """The tags around the thinking part, and the text that closes it after ``limit`` tokens; None: never."""

    begin: str
    end: str
    closing: str
    limit: int | None = None

    @classmethod
    def of(cls, template: str, limit: int | None = None) -> ThoughtRule:
        """Return the rule of replies to prompts of a chat template."""
        if has_channels(template):
            return cls(_ANALYSIS, _ANALYSIS_END, f"{_WORDS}{_ANALYSIS_END}{START}assistant{FINAL}", limit)
        begin, end = thinking_tags(template)
        return cls(begin, end, f"{_WORDS}{end}\n\n", limit)
