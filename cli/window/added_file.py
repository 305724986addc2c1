"""A text file that goes with the next turn."""

from __future__ import annotations

import re


class AddedFile:
    """Its name, its tokens, and ``block``: the text in a fence of its own."""

    def __init__(self, name: str, text: str, tokens: int) -> None:
        self.name = name
        self.tokens = tokens
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
        self.block = f"{name}:\n{fence}\n{text.rstrip()}\n{fence}\n\n"
