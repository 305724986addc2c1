"""The place in a conversation, or in a text, from which a model elsewhere goes on."""

from __future__ import annotations

from collections.abc import Sequence

from edgedec.core.quick_dataclass import dataclass

Turns = Sequence[tuple[str, str]]
"""Role and content of each message."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A reply so far, and everything before it.

    ``text`` is all of it, as the local model's template renders it: control tokens are spelled out, and the
    one that begins every text is left out. ``turns`` are the messages before the reply; there are none for a
    text that is continued as it stands. ``reply`` is empty where the reply begins.
    """

    text: str
    turns: Turns = ()
    reply: str = ""
