"""A long prompt made short: the parts of it that are nearest to its question, in their order.

After SpecPC and RAPID (2025), in which a small model chooses the part of a prompt that the large one reads.
Here the scores come from an encoder of texts, and whole lines and sentences are kept. This changes replies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from edgedec.core.quick_dataclass import dataclass

Rank = Callable[[str, Sequence[str]], Sequence[float]]
"""Scores texts by how near each is to a question, the first argument."""

LEAST_CHARS = 8_000
"""Characters of the shortest prompt that is made shorter: about 2,000 tokens, which are read quickly."""
MARK = "[...]"
"""The sign for a place where something was left out."""
_PART_CHARS = 120
"""Characters up to which lines and sentences are scored together. Longer parts hide a fact among others."""
_LINE_CHARS = 240
"""Characters of a line that is cut at the ends of its sentences, and of a sentence that is cut at spaces."""
_ASKED_CHARS, _LEAST_ASKED_CHARS = 1_000, 12
_BESIDE = 0.9
"""The share of a part's score that its neighbours have: they say whom "he" means."""
_BLANK = re.compile(r"\n[^\S\n]*\n\s*")
_SENTENCE = re.compile("(?<=[.!?])[^\\S\\n]+|(?<=[\u3002\uff01\uff1f])")
_WORDS = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class AskedPrompt:
    """A prompt in three: its beginning and its question, which stay whole, and the text between them."""

    head: str
    body: str
    question: str

    @property
    def queries(self) -> list[str]:
        """The texts that say what is looked for; a beginning only where it asks for something."""
        head = self.head.strip()
        return [self.question.strip(), *([head] if head.endswith(("?", ":")) else [])]


def asked_in(text: str, question: str | None = None) -> AskedPrompt:
    """Split a prompt. ``question``: the end of it that asks; None: its last paragraph, or the end of that.

    A short first paragraph is the beginning, unless ``question`` is known.
    """
    if question is not None and len(question) <= _ASKED_CHARS and text.endswith(question):
        return AskedPrompt("", text[: len(text) - len(question)], question)
    breaks = [found.end() for found in _BLANK.finditer(text.rstrip())]
    start = next((at for at in reversed(breaks) if len(text[at:].strip()) >= _LEAST_ASKED_CHARS), 0)
    if len(text) - start > _ASKED_CHARS:
        start = len(text) - len(parts_of(text[-_ASKED_CHARS:])[-1])
    head = breaks[0] if breaks and breaks[0] < min(start, _ASKED_CHARS) else 0
    return AskedPrompt(text[:head], text[head:start], text[start:])


def shortened(text: str, share: float, rank: Rank, question: str | None = None) -> str:
    """Return a prompt with about ``share`` of its characters; ``question`` as in ``asked_in``.

    One of fewer than ``LEAST_CHARS``, or all of whose characters may stay, is returned as it is.
    """
    if len(text) < LEAST_CHARS or share >= 1:
        return text
    asked = asked_in(text, question)
    parts = parts_of(asked.body)
    scores = [max(found) for found in zip(*(rank(one, parts) for one in asked.queries), strict=True)]
    room = int(share * len(text)) - len(asked.head) - len(asked.question)
    kept = chosen(scores, [len(part) for part in parts], room)
    return asked.head + joined(parts, kept) + asked.question


def parts_of(text: str) -> list[str]:
    """Cut a text into whole lines, and long lines into sentences; short ones that follow stay together."""
    parts: list[str] = []
    for piece in _pieces(text):
        blank = parts and not (piece.strip() and parts[-1].strip())
        if blank or (parts and len(parts[-1]) + len(piece) <= _PART_CHARS):
            parts[-1] += piece
        else:
            parts.append(piece)
    return parts


def chosen(scores: Sequence[float], sizes: Sequence[int], room: int) -> list[int]:
    """Return the indices, ascending, of the best parts whose sizes fit together; at least the best one.

    A part counts by its own score, or by a neighbour's where that is much better. The first of equals wins.
    """
    around = [max(scores[max(at - 1, 0) : at + 2]) for at in range(len(scores))]
    worth = [max(own, best * _BESIDE) for own, best in zip(scores, around, strict=True)]
    kept: list[int] = []
    for at in sorted(range(len(worth)), key=lambda at: (-worth[at], at)):
        if not kept or sizes[at] <= room:
            kept.append(at)
            room -= sizes[at]
    return sorted(kept)


def joined(parts: Sequence[str], kept: Sequence[int]) -> str:
    """Join the kept parts, with a mark for each stretch that was left out."""
    text, expected = "", 0
    for at in kept:
        if at > expected:
            text += _gap(text)
        text += parts[at]
        expected = at + 1
    return text + _gap(text) + "\n" if expected < len(parts) else text


def _gap(text: str) -> str:
    return f"{MARK}\n" if not text or text.endswith("\n") else f"{'' if text[-1].isspace() else ' '}{MARK}\n"


def _pieces(text: str) -> Iterator[str]:
    for line in text.splitlines(keepends=True):
        if len(line) <= _LINE_CHARS:
            yield line
            continue
        ends = [found.end() for found in _SENTENCE.finditer(line)]
        for start, end in zip([0, *ends], [*ends, len(line)], strict=True):
            yield from _cut(line[start:end])


def _cut(sentence: str) -> Iterator[str]:
    """Cut a sentence that is longer than a part may be between words, and a word anywhere."""
    piece = ""
    for word in _WORDS.findall(sentence):
        for at in range(0, len(word), _LINE_CHARS):
            some = word[at : at + _LINE_CHARS]
            if piece and len(piece) + len(some) > _LINE_CHARS:
                yield piece
                piece = ""
            piece += some
    if piece:
        yield piece
