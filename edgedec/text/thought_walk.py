"""The thinking part of a reply, token by token: where it begins and ends.

The place that a reply has reached is a function of its tokens alone, so drafts, batches and the lengths of
passes cannot move the place where a thought is closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from edgedec.text.thought import ThoughtRule
    from edgedec.text.tokenizer import Tokenizer

_TAIL_TOKENS = 12
"""Tokens at the end of a prompt that may hold the tag with which a thought begins."""


class ThoughtPlace(NamedTuple):
    """The place that a reply has reached. ``held``: bytes that may belong to a tag."""

    inside: bool = False
    over: bool = False
    held: bytes = b""
    tokens: int = 0
    """Tokens of the thought, without its tags and the words that close it."""
    said: int = 0
    """Tokens of the closing words so far."""
    closed: bool = False
    """Whether the closing words ended it."""
    waits: bool = False
    """Whether they were the last that was said, so that the answer is yet to begin."""


class ThoughtWalk:
    """Follows a reply to ``prompt`` through its thinking part."""

    def __init__(self, rule: ThoughtRule, tokenizer: Tokenizer, prompt: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._control = {id: text.encode() for text, id in tokenizer.control_ids().items()}
        self._begin, self._end = rule.begin.encode(), rule.end.encode()
        self._limit = rule.limit
        self.closing: list[int] = []
        """Tokens of the words that close a thought; none without a limit."""
        if rule.limit is not None:
            self.closing = tokenizer.encode(rule.closing, add_bos=False, parse_special=True)
        tail = b"".join(map(self._piece, prompt[-_TAIL_TOKENS:])).rstrip()
        tags = [tokenizer.encode(tag, add_bos=False, parse_special=True) for tag in (rule.begin, rule.end)]
        self._tags = frozenset(tag[0] for tag in tags if len(tag) == 1)
        self.start = ThoughtPlace(inside=tail.endswith(self._begin))
        """The place before the first token."""

    def due(self, place: ThoughtPlace) -> bool:
        """Whether the thought is to be closed at this place."""
        return place.inside and self._limit is not None and place.tokens >= self._limit

    def barred(self, place: ThoughtPlace) -> frozenset[int]:
        """Return tokens that may not come next: behind a closed thought, the tags of another one."""
        return self._tags if place.waits else frozenset()

    def left(self, place: ThoughtPlace) -> int | None:
        """Return how many tokens a thought may still have; None for any number, or outside of one."""
        return self._limit - place.tokens if place.inside and self._limit is not None else None

    def after(self, place: ThoughtPlace, token: int) -> ThoughtPlace:
        """Return the place behind one more token."""
        if place.over:
            return place._replace(waits=False) if place.waits and self._piece(token).strip() else place
        if self.due(place) and token == self.closing[place.said]:
            said = place.said + 1
            over = said == len(self.closing)
            return place._replace(said=said, inside=not over, over=over, closed=over, waits=over)
        text = place.held + self._piece(token)
        if place.inside:
            return self._inside(place, text, 1)
        start = text.lstrip()
        if len(start) < len(self._begin) and self._begin.startswith(start):
            return place._replace(held=start)
        if not start.startswith(self._begin):
            return place._replace(over=True, held=b"")
        return self._inside(place._replace(inside=True), start[len(self._begin) :], 0)

    def along(self, place: ThoughtPlace, tokens: Iterable[int]) -> ThoughtPlace:
        """Return the place behind some tokens."""
        for token in tokens:
            place = self.after(place, token)
        return place

    def _inside(self, place: ThoughtPlace, text: bytes, count: int) -> ThoughtPlace:
        if self._end in text:
            return place._replace(inside=False, over=True, held=b"")
        tail = len(self._end) - 1
        return place._replace(held=text[-tail:] if tail else b"", tokens=place.tokens + count)

    def _piece(self, token: int) -> bytes:
        return self._control.get(token) or self._tokenizer.token_bytes(token)
