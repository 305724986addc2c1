"""Server-sent events out of blocks of bytes (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

MOST_LINE_BYTES = 1 << 16


class NoEvents(Exception):  # noqa: N818 - the caller makes a SideLost of it
    """The bytes are no server-sent events; the message says why."""


def events(blocks: Iterable[bytes]) -> Iterator[str]:
    """Yield the data of each event as soon as it is whole. Comments and other fields are left out.

    Raises NoEvents for a line of more than 64 KiB and for bytes that are not UTF-8.
    """
    data: list[str] = []
    held_chars = 0
    for line in _lines(blocks):
        name, _, value = line.partition(":")
        if not line:
            if data:
                yield "\n".join(data)
            data, held_chars = [], 0
        elif name == "data":
            data.append(value.removeprefix(" "))
            held_chars += len(value)
            if held_chars > MOST_LINE_BYTES:
                raise NoEvents("an event without an end")
    if data:
        yield "\n".join(data)


def _lines(blocks: Iterable[bytes]) -> Iterator[str]:
    """Yield lines that end in CR LF, LF or CR, without their ends; the last one may have none."""
    rest = b""
    for block in blocks:
        rest = (rest + block).replace(b"\r\n", b"\n")
        held = b"\r" if rest.endswith(b"\r") else b""  # its LF may be in the next block
        *lines, rest = rest.removesuffix(held).replace(b"\r", b"\n").split(b"\n")
        rest += held
        for line in lines:
            yield _text(line)
        if len(rest) > MOST_LINE_BYTES:
            raise NoEvents("a line without an end")
    if rest:
        yield _text(rest.removesuffix(b"\r"))


def _text(line: bytes) -> str:
    if len(line) > MOST_LINE_BYTES:
        raise NoEvents("a line without an end")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NoEvents("bytes that are not UTF-8") from error
