"""A chat that is kept in a file: restored at the start, saved after every turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgedec.cli import errors, screen
from edgedec.core.errors import EdgeDecError, UsageError
from edgedec.session.saved_session import document_of, restore_session, save_session
from edgedec.session.session_file import remove_leftovers

if TYPE_CHECKING:
    from edgedec.sampling import SamplingParams
    from edgedec.session.chat import Chat


class Kept:
    """The file of ``session``. One that cannot be written costs a line, and the conversation goes on."""

    def __init__(self, path: Path, session: Chat) -> None:
        self.path = path
        self._session = session
        assert session.codec.model_id is not None
        self._model = session.codec.model_id
        self._saved: dict[str, Any] | None = None
        """What the file says; None before there is one."""

    def restore(self, choose: Callable[[SamplingParams], SamplingParams]) -> None:
        """Continue what the file has, if there is one; ``choose`` is given how its replies were drawn.

        Raises what ``restore_session`` does, and UsageError if another system message was asked for.
        """
        remove_leftovers(self.path)
        if not self.path.exists():
            return
        session, asked = self._session, self._session.system
        saved = restore_session(self.path, session, self._model, screen.dim)
        if asked is not None and asked != session.system:
            hint = "leave out --system, or give another file"
            raise UsageError(f"the conversation in {self.path} has another system message", hint=hint)
        session.adjust(params=choose(saved.params))
        self._saved = document_of(session, self._model)

    def save(self) -> None:
        """Write the file if anything has changed. Raises StorageError, UsageError, OSError."""
        document = document_of(self._session, self._model)
        if document != self._saved:
            save_session(self.path, self._session, self._model)
            self._saved = document

    def try_to_save(self) -> None:
        """As ``save``, but what goes wrong is only said."""
        try:
            self.save()
        except (EdgeDecError, OSError) as error:
            message, hint, _ = errors.explain(error)
            errors.show(message, hint)

    @contextmanager
    def to_the_end(self) -> Iterator[None]:
        """Save once more when the chat ends, however it ends; the first thing that went wrong is raised."""
        try:
            yield
        except BaseException:
            self.try_to_save()
            raise
        self.save()
