"""Prompts that end inside a token: the bytes that are taken back, and the tokens that may spell them again.

A model has rarely read a text whose last token is the beginning of a longer one, so it goes on with something
else (the "prompt boundary problem"; "token healing" in guidance). Here the last tokens leave the prompt where
a token of the vocabulary is longer than their text, and the reply begins with that text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.text.tokenizer import Tokenizer

_MOST_TOKENS = 4
_MOST_BYTES = 64
"""Text beyond which no token is looked for: runs of spaces have long ones."""


@dataclass(frozen=True, slots=True)
class Healed:
    """The token ids that stay in a prompt, and the bytes that its reply begins with again."""

    ids: list[int]
    held: bytes = b""


def healed(tokenizer: Tokenizer, ids: Sequence[int], keep: int = 0) -> Healed:
    """Take back the last tokens of ``ids`` whose text a longer token of the vocabulary begins with.

    Most tokens are taken of which that is true; none of the first ``keep``, and none before a control token.
    """
    control = frozenset(tokenizer.control_ids().values())
    text, held, cut = b"", b"", len(ids)
    for at in range(len(ids) - 1, max(keep, len(ids) - _MOST_TOKENS) - 1, -1):
        piece = tokenizer.token_bytes(ids[at])
        if not piece or ids[at] in control or len(piece) + len(text) > _MOST_BYTES:
            break
        text = piece + text
        if any(len(tokenizer.spell(token)) > len(text) for token in tokenizer.beginning_with(text)):
            held, cut = text, at
    return Healed([*ids[:cut]], held)
