"""The line under a reply: its seconds, its tokens a second, and why it ended if something cut it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from edgedec.cli import screen

if TYPE_CHECKING:
    from edgedec.session.reply import Reply

_WHY = {
    "interrupted": ("stopped", "stopped"),
    "length": ("cut at {tokens} tokens", "cut"),
    "context": ("cut, the context is full", "full"),
    "loop": ("cut, it repeats itself", "loop"),
}
"""Reasons in full and in short, by finish reason."""
_MORE = "; /more continues", ": /more"


def show(reply: Reply, *, more: bool) -> None:
    """Show the line on standard error, if that is a terminal. ``more`` says that a command may follow."""
    if sys.stderr.isatty():
        screen.dim(line(reply, screen.window(sys.stderr)[0], more=more))


def line(reply: Reply, columns: int, *, more: bool) -> str:
    """Return the line, shortened so that it is narrower than a window of ``columns``."""
    stats = reply.stats
    seconds = f"{stats.prefill_s + stats.decode_s:.1f} s"
    rate = stats.decode_tokens_per_s
    speed = f", {rate:.1f} tokens/s" if rate is not None else ""
    long, short = _WHY.get(reply.finish_reason or "", ("", ""))
    offers = _MORE if more and reply.finish_reason in ("length", "context", "loop") else ("", "")
    reasons = [
        f" | {one.format(tokens=stats.completion_tokens)}{offer}" if one else ""
        for one, offer in zip((long, short), offers, strict=True)
    ]
    forms = [
        f"[{seconds}{speed}{reasons[0]}]",
        f"[{seconds}{speed}{reasons[1]}]",
        f"[{seconds}{reasons[1]}]",
        f"[{seconds}]",
        seconds,
    ]
    return next((form for form in forms if len(form) < columns), seconds[: max(columns - 1, 0)])
