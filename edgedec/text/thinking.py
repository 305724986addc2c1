"""Tell the thinking part of a reply from its answer, while the reply is streamed.

Models that think first write ``<think>...</think>`` at the beginning of a reply. The prompts of some of them
end in ``<think>``; their replies begin inside of it.
"""

from __future__ import annotations

BEGIN, END = "<think>", "</think>"


class ThinkingSplitter:
    """Divides streamed text into thinking and answer, without the tags.

    A tag counts once, and only at the beginning of the reply: later ones are text. ``thinking`` is True while
    the reply is inside; with ``begun`` it begins there.

    >>> splitter = ThinkingSplitter()
    >>> splitter.push("<thi"), splitter.push("nk>So, "), splitter.push("2.</think>Two")
    (('', ''), ('So, ', ''), ('2.', 'Two'))
    """

    def __init__(self, *, begun: bool = False) -> None:
        self.thinking = begun
        self._undecided = not begun
        self._held = ""

    @property
    def over(self) -> bool:
        """Whether all text to come belongs to the answer."""
        return not self.thinking and not self._undecided

    def push(self, text: str) -> tuple[str, str]:
        """Add a piece; return the thinking and the answer that are certain now."""
        if self.over:
            return "", text
        self._held += text
        if self._undecided:
            start = self._held.lstrip()
            if BEGIN.startswith(start[: len(BEGIN)]) and len(start) < len(BEGIN):
                return "", ""
            self._undecided = False
            if not start.startswith(BEGIN):
                return "", self._release(len(self._held))
            self.thinking, self._held = True, start[len(BEGIN) :]
        return self._inside()

    def flush(self) -> tuple[str, str]:
        """End the stream; return the thinking and the answer that were held back."""
        rest = self._release(len(self._held))
        return (rest, "") if self.thinking else ("", rest)

    def _inside(self) -> tuple[str, str]:
        at = self._held.find(END)
        if at >= 0:
            thought = self._release(at)
            self.thinking = False
            return thought, self._release(len(self._held))[len(END) :].lstrip("\n")
        tail = next((size for size in range(len(END) - 1, 0, -1) if self._held.endswith(END[:size])), 0)
        return self._release(len(self._held) - tail), ""

    def _release(self, length: int) -> str:
        released, self._held = self._held[:length], self._held[length:]
        return released
