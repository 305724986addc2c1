"""A streamed text that a parser reads as if all of it were there: it waits, as a generator, for more.

A parser takes text from the scanner, and gives out content and calls. Text that begins like a call is held.
It becomes content if it turns out to be none: up to the first character that cannot be part of a call.
Once a call has its name and the beginning of its arguments, it stands, whatever follows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from edgedec.core.quick_dataclass import dataclass
from edgedec.text.tool_calls.json_end import JsonEnd

Wait = Generator[None, None, None]


class NoCallError(Exception):
    """The text is no call in this form."""


@dataclass(frozen=True, slots=True)
class CallDelta:
    """News of the call ``index``: its ``id`` and ``name``, once, or a further piece of its arguments."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


class Scanner:
    """Text that arrives in pieces; see the module. ``first`` is the number in the id of the first call.

    ``strict``: a call has its name first, as in the grammar that keeps it to its schema.
    """

    def __init__(self, first: int = 0, *, strict: bool = False) -> None:
        self.strict = strict
        self.thought = False
        """Whether a thinking part stands before the text."""
        self.text = ""
        """Text that is there and not yet taken."""
        self.ended = False
        self.content: list[str] = []
        self.deltas: list[CallDelta] = []
        self.calls = 0
        """Calls so far."""
        self._first = first
        self._taken: list[str] | None = None
        """Text taken since ``hold``; None when nothing is held."""

    def more(self) -> Generator[None, None, bool]:
        """Wait for more text; return False at the end of the reply."""
        if self.ended:
            return False
        before = len(self.text)
        while len(self.text) == before and not self.ended:
            yield
        return len(self.text) > before

    def take(self, count: int) -> str:
        """Take ``count`` characters that are there."""
        taken, self.text = self.text[:count], self.text[count:]
        if self._taken is not None:
            self._taken.append(taken)
        return taken

    def put_back(self, text: str) -> None:
        """Put the text that was taken last back in front."""
        self.text = text + self.text
        if self._taken:
            self._taken[-1] = self._taken[-1].removesuffix(text)

    def hold(self) -> None:
        """Keep the text that is taken from here on, until ``release`` or the next call."""
        self._taken = []

    def release(self) -> None:
        """Give the text that was held out as content: it was no call."""
        self.content.append("".join(self._taken or ()))
        self._taken = None

    def begin(self, name: str) -> None:
        """Give out a call; the text behind it is its own."""
        self._taken = None
        self.deltas.append(CallDelta(self.calls, call_id(self._first + self.calls), name))
        self.calls += 1

    def arguments(self, piece: str) -> None:
        """Give out a piece of the arguments of the latest call."""
        if piece:
            self.deltas.append(CallDelta(self.calls - 1, arguments=piece))

    def content_until(self, *marks: str) -> Generator[None, None, str | None]:
        """Give out text as content up to a mark, take it from there on, and return the mark; None at the end.

        White space before a mark is held with it: templates write it before a call.
        """
        while True:
            if found := _first_mark(self.text, marks):
                at, mark = found
                self.content.append(self.take(len(self.text[:at].rstrip())))
                self.hold()
                self.take(len(self.text) - len(self.text.lstrip()))
                self.take(len(mark))
                return mark
            kept = max(_partial(self.text, marks), 0)
            end = len(self.text) - kept
            spaces = end - len(self.text[:end].rstrip())
            self.content.append(self.take(end - spaces))
            if not (yield from self.more()):
                rest = self.take(len(self.text))
                self.content.append(rest.rstrip() if self.calls else rest)
                return None

    def space(self) -> Wait:
        """Take white space."""
        while True:
            self.take(len(self.text) - len(self.text.lstrip()))
            if self.text or not (yield from self.more()):
                return

    def next_is(self, *texts: str) -> Generator[None, None, str | None]:
        """Return which of ``texts`` comes next, and take it; None for none of them."""
        while True:
            if found := next((text for text in texts if self.text.startswith(text)), None):
                self.take(len(found))
                return found
            possible = any(text.startswith(self.text) for text in texts)
            if not possible or not (yield from self.more()):
                return None

    def expect(self, *texts: str) -> Generator[None, None, str]:
        """Take white space and the one of ``texts`` that comes next. Raises NoCallError for none of them."""
        yield from self.space()
        found = yield from self.next_is(*texts)
        if found is None:
            raise NoCallError
        return found

    def until(self, *marks: str, most: int | None = None) -> Generator[None, None, tuple[str, str]]:
        """Take text up to a mark, and the mark; return both. Raises NoCallError after ``most`` characters."""
        while True:
            if found := _first_mark(self.text, marks):
                at, mark = found
                if most is not None and at > most:
                    raise NoCallError
                text = self.take(at)
                self.take(len(mark))
                return text, mark
            if (most is not None and len(self.text) > most + max(map(len, marks))) or not (
                yield from self.more()
            ):
                raise NoCallError

    def pieces_until(self, mark: str, give: Callable[[str], None], keep: str = "") -> Wait:
        """Pass text up to ``mark`` on as it comes, but ``keep`` right before it; take both.

        Raises NoCallError at the end of the reply.
        """
        while True:
            marks = (keep + mark, mark) if keep else (mark,)
            if found := _first_mark(self.text, marks):
                give(self.take(found[0]))
                self.take(len(found[1]))
                return
            give(self.take(len(self.text) - _partial(self.text, marks)))
            if not (yield from self.more()):
                give(self.take(len(self.text)))
                raise NoCallError

    def value(self, give: Callable[[str], None]) -> Wait:
        """Pass a JSON value on as it comes. Raises NoCallError for text that is none or stops within."""
        yield from self.space()
        end = JsonEnd()
        while True:
            count = end.find(self.text)
            give(self.take(count))
            if end.failed:
                raise NoCallError
            if end.over:
                return
            if not (yield from self.more()):
                if end.scalar:  # a number has no end of its own
                    return
                raise NoCallError


def call_id(number: int) -> str:
    """Return the id of a call; nine letters and digits, as Mistral's templates demand."""
    return f"call{number:05d}"


def _first_mark(text: str, marks: tuple[str, ...]) -> tuple[int, str] | None:
    """Find the earliest mark, of those at one place the longest."""
    found = [(at, -len(mark), mark) for mark in marks if (at := text.find(mark)) >= 0]
    if not found:
        return None
    at, _, mark = min(found)
    return at, mark


def _partial(text: str, marks: tuple[str, ...]) -> int:
    """Count the characters at the end of ``text`` that may be the beginning of a mark."""
    longest = max(map(len, marks)) - 1
    sizes = range(min(longest, len(text)), 0, -1)
    return next((size for size in sizes if any(mark.startswith(text[-size:]) for mark in marks)), 0)
