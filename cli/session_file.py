"""A chat that is kept in a file: restored at the start, saved after every turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli import errors
from edgedec.core.errors import EdgeDecError, UsageError
from edgedec.session.saved_session import SavedSession, write_session
from edgedec.session.session_file import remove_leftovers

if TYPE_CHECKING:
    from edgedec.sampling.named import SamplingParams
    from edgedec.session.chat import Chat


class SessionFile:
    """The file of a chat. If it cannot be written, one line says so, and the chat goes on."""

    def __init__(self, path: Path, session: Chat) -> None:
        self.path = path
        self._shown: str | None = None
        """The error shown last; None once the file was written."""
        self.follow(session)

    def follow(self, session: Chat) -> None:
        """Keep this chat from now on, perhaps one with another model."""
        assert session.codec.model_id is not None
        self._session = session
        self._saved: SavedSession | None = None
        """The conversation in the file; None before there is one."""

    def restore(self, named: SamplingParams) -> None:
        """Continue the conversation in the file, if there is one.

        ``named`` counts more than the sampling values in the file. Raises the errors of ``Chat.restore``,
        and UsageError if the command line asks for another system message.
        """
        remove_leftovers(self.path)
        if not self.path.exists():
            return
        session, system = self._session, self._session.system
        session.restore(self.path)
        if system is not None and system != session.system:
            hint = "leave out --system, or give another file"
            raise UsageError(f"the conversation in {self.path} has another system message", hint=hint)
        session.adjust(params=named.over(session.settings.params))
        self._saved = session.saved()

    def save(self) -> None:
        """Write the file if anything has changed. Raises StorageError, UsageError, OSError."""
        now = self._session.saved()
        if now != self._saved:
            write_session(self.path, now, self._session.engine.home.portable)
            self._saved = now
            self._shown = None

    def try_to_save(self) -> int:
        """Write the file; show an error, unless it is the one shown last. Returns its exit status, or 0."""
        try:
            self.save()
        except (EdgeDecError, OSError) as error:
            message, hint, status = errors.explain(error)
            if message != self._shown:
                errors.show(message, hint)
                self._shown = message
            return status
        return 0

    @contextmanager
    def saved_at_the_end(self) -> Iterator[None]:
        """Save once more when the chat ends; if that fails, exit with the status of the error.

        An exception inside goes on; it counts more.
        """
        try:
            yield
        finally:
            status = self.try_to_save()
        if status:
            raise click.exceptions.Exit(status)
