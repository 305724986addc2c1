"""Whether a text continues another one, repeats it from its beginning, or quotes the key."""

from __future__ import annotations

from edgedec.remote.address import ServerAddress

_LEAST_CHARS, _ENOUGH_CHARS = 32, 96


class Repeats(Exception):  # noqa: N818 - the caller makes a SideLost of it
    """The text begins as the one that it should continue."""


class NoEcho:
    """Holds the first pieces of a reply back while they are the beginning of the prompt.

    A reply that has repeated 96 characters, or all of a prompt of 32 or more, does not continue it. A reply
    that differs from the prompt in its first character is not delayed at all.
    """

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt[:_ENOUGH_CHARS] if len(prompt) >= _LEAST_CHARS else ""
        self._held = ""
        self._differs = not self._prompt

    def passed(self, piece: str) -> str:
        """Return the text that can be given on now. Raises Repeats."""
        if self._differs:
            return piece
        self._held += piece
        if self._held.startswith(self._prompt):
            raise Repeats
        if self._prompt.startswith(self._held):
            return ""
        self._differs = True
        return self._held

    def rest(self) -> str:
        """Return the text that is still held back at the end of a reply."""
        return "" if self._differs else self._held


class NoKey:
    """Hides the server's key in a text that arrives in pieces. Holds back an end that may begin the key."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._held = ""

    def passed(self, piece: str) -> str:
        """Return the text that can be given on now."""
        text, key = self._address.without_key(self._held + piece), self._address.secret.lower()
        ends = range(min(len(text), len(key) - 1), 0, -1)
        held = next((n for n in ends if text[-n:].lower() == key[:n]), 0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def rest(self) -> str:
        """Return the text that is still held back at the end of a reply."""
        return self._held
