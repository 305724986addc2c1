"""An editing prompt for the turns of a chat on a terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from edgedec.cli import screen
from edgedec.cli.interrupts import terminated
from edgedec.core.files import storage_errors
from edgedec.core.home import HISTORY_LOCK, TYPED
from edgedec.core.locks import Share

PROMPT = "> "


def typed_turns(home: Path | None) -> Iterator[str]:
    """Yield turns typed at a prompt with line editing and multi-line paste; Alt-Enter begins a line.

    Ctrl-C drops the typed text. At an empty prompt Ctrl-D ends, and so does Ctrl-C when it is pressed twice.
    The arrow keys bring back earlier turns: those of this chat, and where ``home`` is given those of chats
    before, which are kept in a file there. Raises StorageError if that cannot be written.
    """
    if home is None:
        yield from _turns(_Editor(None))
        return
    share = Share(home / HISTORY_LOCK)
    try:
        yield from _turns(_Editor(_private_file(home / TYPED)))
    finally:
        share.release()


def _turns(ask: Callable[[], str]) -> Iterator[str]:
    warned = False
    while True:
        try:
            text = ask()
        except EOFError:
            return
        except KeyboardInterrupt:
            if warned or terminated():
                return
            warned = True
            screen.dim("(Ctrl-C once more, or Ctrl-D, quits)")
            continue
        warned = False
        if text.strip():
            yield text


class _Editor:
    def __init__(self, history: Path | None) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.filters import Condition, is_searching
        from prompt_toolkit.history import FileHistory, InMemoryHistory
        from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

        keys = KeyBindings()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        typed = Condition(lambda: bool(self._session.default_buffer.text))

        @keys.add("c-c", filter=typed & ~is_searching)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.reset()

        typed_before = FileHistory(str(history)) if history else InMemoryHistory()
        self._session: PromptSession[str] = PromptSession(PROMPT, history=typed_before, key_bindings=keys)

    def __call__(self) -> str:
        return self._session.prompt()


def _private_file(path: Path) -> Path:
    """Return ``path``, created for its owner alone. Raises StorageError."""
    with storage_errors(str(path)):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    return path
