"""An editing prompt for the turns of a chat on a terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from edgedec.cli import errors, screen
from edgedec.cli.interrupts import terminated
from edgedec.cli.remedies import hint_of
from edgedec.cli.slash.context import Quit
from edgedec.core.errors import EdgeDecError
from edgedec.disk.files import storage_errors
from edgedec.disk.home import HISTORY_LOCK, TYPED
from edgedec.disk.locks import Share
from edgedec.system.process import unseen

PROMPT = "> "
QUOTES = '"""'
NO_HISTORY = "nothing was typed yet; `edgedec chat --history` keeps what you type for the next chat"


def converse(turns: Iterator[str], turn: Callable[[str], None], stopped: Callable[[], None]) -> None:
    """Take turns until the user leaves. An error costs a line; ``stopped`` follows a second Ctrl-C."""
    with unseen(), suppress(Quit):
        for text in turns:
            try:
                turn(text)
            except EdgeDecError as error:
                errors.show(error.message, hint_of(error))
            except KeyboardInterrupt:
                stopped()
            if terminated():
                break


def typed_turns(home: Path | None, draft: Callable[[], str] = str) -> Iterator[str]:
    """Yield turns typed at a prompt with line editing and multi-line paste; Alt-Enter begins a line.

    Between two ``\"\"\"`` Enter begins a line too. Tab completes commands and their arguments. Each prompt
    begins with the text that ``draft`` returns.

    Ctrl-C drops the typed text. At an empty prompt Ctrl-D ends, and so does Ctrl-C when it is pressed twice.
    The arrow keys bring back earlier turns: those of this chat, and where ``home`` is given those of chats
    before, which are kept in a file there. Raises StorageError if that cannot be written.
    """
    if home is None:
        yield from _turns(_Editor(None, draft))
        return
    share = Share(home / HISTORY_LOCK)
    try:
        yield from _turns(_Editor(_private_file(home / TYPED), draft))
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
        if (text := unquoted(text)).strip():
            yield text


def unquoted(text: str) -> str:
    """Return the lines between two ``\"\"\"`` that enclose the whole text; any other text as it is."""
    bare = text.strip()
    whole = bare.startswith(QUOTES) and bare.endswith(QUOTES) and bare.count(QUOTES) == 2
    return bare[len(QUOTES) : -len(QUOTES)].strip("\n") if whole and len(bare) >= 2 * len(QUOTES) else text


def _open(text: str) -> bool:
    """Whether ``text`` begins a quotation that does not end."""
    return text.lstrip().startswith(QUOTES) and text.count(QUOTES) % 2 == 1


class _Editor:
    def __init__(self, history: Path | None, draft: Callable[[], str]) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.application import run_in_terminal
        from prompt_toolkit.filters import Condition, is_searching
        from prompt_toolkit.history import FileHistory, InMemoryHistory
        from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
        from prompt_toolkit.shortcuts import CompleteStyle

        from edgedec.cli.slash.completion import CommandCompleter

        keys = KeyBindings()
        quoting = Condition(lambda: _open(self._session.default_buffer.text))

        @keys.add("enter", filter=quoting & ~is_searching)
        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        typed = Condition(lambda: bool(self._session.default_buffer.text))

        @keys.add("c-c", filter=typed & ~is_searching)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.reset()

        nothing_typed = Condition(
            lambda: history is None and not (typed() or self._session.history.get_strings())
        )

        @keys.add("up", filter=nothing_typed & ~is_searching)
        def _(event: KeyPressEvent) -> None:
            run_in_terminal(lambda: screen.aside(NO_HISTORY, indent=0))

        typed_before = FileHistory(str(history)) if history else InMemoryHistory()
        self._draft = draft
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            history=typed_before,
            key_bindings=keys,
            completer=CommandCompleter(),
            complete_style=CompleteStyle.READLINE_LIKE,
            complete_while_typing=False,
        )

    def __call__(self) -> str:
        return self._session.prompt(default=self._draft())


def _private_file(path: Path) -> Path:
    """Return ``path``, created for its owner alone. Raises StorageError."""
    with storage_errors(str(path)):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    return path
