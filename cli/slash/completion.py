"""Completes the commands of a chat, and the names that they take, when Tab is pressed."""

from __future__ import annotations

from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from edgedec.cli.slash import table
from edgedec.cli.slash.context import FILE


class CommandCompleter(Completer):
    """Completes lines that begin with a slash; other text is left alone."""

    def __init__(self) -> None:
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the ends that the text before the cursor may have."""
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        name, blank, argument = text[1:].partition(" ")
        if not blank:
            yield from _beginning(name, sorted([*table.COMMANDS, *table.ALIASES]))
        elif (command := table.find(name)) is None:
            return
        elif command.argument == FILE:
            yield from self._paths.get_completions(Document(argument), complete_event)
        else:
            *before, last = argument.split(" ")
            yield from _beginning(last, command.complete([*before, last]))


def _beginning(part: str, words: Iterable[str]) -> Iterable[Completion]:
    for word in words:
        if word.startswith(part):
            yield Completion(word, start_position=-len(part))
