"""The one progress protocol: ``progress(stage, done, total)``, drawn by whoever wants to (the CLI does)."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with the stage ("download", "join", "verify", ...), bytes done and in total (0 = unknown)."""

Notice = Callable[[str], None]
"""Called with one line that the user should see (licence, waiting for another process, fallback taken)."""


def silent(stage: str, done: int, total: int) -> None:
    """A Progress that shows nothing."""
