"""Stop strings in a stream: text is released once it can no longer be part of one."""

from __future__ import annotations

from collections.abc import Iterable

from edgedec.core.errors import Remedy, UsageError


class StopStrings:
    """Cuts a stream of text at the first stop string, and never lets a part of it through.

    Text that might begin a stop string is held back until the next piece decides. The stop string that is
    complete first wins; the longest wins if several end together. So the result does not depend on how the
    text is cut into pieces. Raises UsageError for an empty stop string.

    >>> stops = StopStrings(["END"])
    >>> stops.push("a E"), stops.push("N"), stops.push("x E"), stops.push("ND b"), stops.hit
    ('a ', '', 'ENx ', '', True)
    """

    def __init__(self, stops: Iterable[str] = ()) -> None:
        self._stops = tuple(dict.fromkeys(stops))
        if "" in self._stops:
            raise UsageError(
                "a stop string must not be empty", hint="give none to have none", remedy=Remedy("stop")
            )
        self._held = ""
        self.found = ""
        """The stop string that was found; all text after it is dropped."""

    @property
    def hit(self) -> bool:
        """Whether a stop string was found."""
        return bool(self.found)

    def push(self, text: str) -> str:
        """Add a piece; return the text that is safe to show now."""
        if not self._stops:
            return text
        if self.hit:
            return ""
        self._held += text
        found = [(at + len(stop), at) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if found:
            end, start = min(found)
            self.found = self._held[start:end]
            return self._release(start, forget=True)
        return self._release(len(self._held) - self._undecided())

    def flush(self) -> str:
        """End the stream; return the text that was held back, which turned out to be plain text."""
        return self._release(len(self._held))

    def _undecided(self) -> int:
        """Measure the longest end of the held text that begins a stop string, in characters."""
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        for length in range(min(longest, len(self._held)), 0, -1):
            tail = self._held[-length:]
            if any(stop.startswith(tail) for stop in self._stops):
                return length
        return 0

    def _release(self, length: int, *, forget: bool = False) -> str:
        released, self._held = self._held[:length], "" if forget else self._held[length:]
        return released
