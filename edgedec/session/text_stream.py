"""From a reply's tokens to the text that is shown: whole characters, and no stop string.

A continued reply goes on in the middle: perhaps of a character, perhaps of a stop string, the first part of
which was shown because the reply ended there for a while. A reply in channels is shown as others are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from edgedec.text.channels import ChannelText
from edgedec.text.stop_strings import StopStrings
from edgedec.text.tokenizer import StreamDecoder, Tokenizer


class TextStream:
    """Turns tokens into text piece by piece.

    ``tokens`` are those of the part that is continued, ``shown`` is the text that it was shown as. Control
    tokens in ``spelled`` are text too; with ``channels`` they are the marks of a reply in channels. Raises
    UsageError for an empty stop string.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        stops: Sequence[str],
        tokens: Sequence[int] = (),
        shown: str = "",
        spelled: Collection[int] = (),
        *,
        channels: bool = False,
    ) -> None:
        self._spelled = spelled
        self._channels = ChannelText() if channels else None
        self._decoder = StreamDecoder(tokenizer, spelled)
        self._stops = StopStrings(stops)
        self._plain = not (stops or channels)
        """Whether text is shown as it is decoded."""
        before = "".join([self._decoded(token) for token in tokens])
        self.whole = self._stops.push(before)
        """Text of the reply from its beginning, as if it had never been cut."""
        if self._stops.hit:  # a stop string that was no stop string then
            self._stops, self.whole = StopStrings(stops), before
        self._shown_ahead = shown[len(self.whole) :] if shown.startswith(self.whole) else ""

    def go_on(self, overlap: int) -> None:
        """Begin behind a text that has the first ``overlap`` bytes of the next token already."""
        self._decoder.go_on(overlap)

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found; no text follows."""
        return self._stops.hit

    @property
    def stop(self) -> str:
        """The stop string that was found; "" for none."""
        return self._stops.found

    def push(self, token: int) -> str:
        """Return the text that a token completes and that was not shown yet."""
        if self._plain and not self._shown_ahead:
            text = self._decoder.push(token)
            self.whole += text
            return text
        return self._new(self._stops.push(self._decoded(token)))

    def flush(self, *, characters: bool) -> str:
        """Return the text held back. With ``characters`` also U+FFFD for a character that is incomplete."""
        text = self._decoder.flush() if characters else ""
        if self._channels:
            text = (self._channels.text(text) if text else "") + self._channels.flush()
        return self._new(self._stops.push(text) + self._stops.flush())

    def _decoded(self, token: int) -> str:
        text = self._decoder.push(token)
        if not self._channels or not text:
            return text
        return self._channels.mark(text) if token in self._spelled else self._channels.text(text)

    def _new(self, text: str) -> str:
        self.whole += text
        while self._shown_ahead and text:
            if self._shown_ahead[0] != text[0]:
                self._shown_ahead = ""
                break
            self._shown_ahead, text = self._shown_ahead[1:], text[1:]
        return text
