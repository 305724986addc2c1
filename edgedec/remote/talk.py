"""``ServerTalk``: a conversation with a model of a server, which alone has the template and the tokens."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any

from edgedec.core.errors import UsageError
from edgedec.remote.side import RemoteSide
from edgedec.text.passage import Passage


class ServerTalk:
    """Messages, and replies to them.

    ``fields`` of each request say how replies are drawn; the server decides what they do not name. A turn
    whose reply fails before its first character leaves the conversation as it was.
    """

    def __init__(
        self,
        side: RemoteSide,
        fields: Mapping[str, Any],
        *,
        system: str | None = None,
        max_tokens: int | None = None,
    ) -> None:
        self._side, self._fields, self._max_tokens = side, fields, max_tokens
        self.messages: list[tuple[str, str]] = []
        """Role and content of each."""
        self._interrupted = False
        self.set_system(system)

    @property
    def system(self) -> str | None:
        """The system message."""
        return self.messages[0][1] if self.messages and self.messages[0][0] == "system" else None

    @property
    def unfinished(self) -> bool:
        """Whether ``more`` can go on with the last reply."""
        return bool(self.messages) and self.messages[-1][0] == "assistant" and not self._side.ended

    def set_system(self, text: str | None) -> None:
        """Set the system message, None or empty text for none. The turns stay."""
        turns = self.messages[1:] if self.system is not None else self.messages
        self.messages = [*([("system", text)] if text else []), *turns]

    def reset(self) -> None:
        """Forget every turn; the system message stays."""
        self.messages = self.messages[: self.system is not None]

    def reply(self, text: str) -> Generator[str]:
        """Answer a turn; yields pieces of text, empty ones while the server is waited for.

        Raises SideLost; what came before it stays in the conversation.
        """
        before = self.messages
        yield from self._answered([*before, ("user", text)], "", before)

    def more(self) -> Generator[str]:
        """Continue the last reply, which a limit cut or which was interrupted. Raises as ``reply``.

        Raises UsageError when there is no reply to continue.
        """
        if not self.unfinished:
            raise UsageError(
                "there is no reply to continue", hint="the last one ended by itself, or there is none"
            )
        yield from self._answered(self.messages[:-1], self.messages[-1][1], self.messages)

    def take_back(self) -> str:
        """Remove the last turn and return its text. Raises UsageError when there is none."""
        turns = [at for at, (role, _) in enumerate(self.messages) if role == "user"]
        if not turns:
            raise UsageError("there is no turn to take back", hint="say something first")
        text = self.messages[turns[-1]][1]
        self.messages = self.messages[: turns[-1]]
        return text

    def interrupt(self) -> None:
        """End the reply in progress. Safe to call from a signal handler."""
        self._interrupted = True

    def _answered(
        self, messages: list[tuple[str, str]], begun: str, before: list[tuple[str, str]]
    ) -> Generator[str]:
        written, self._interrupted = "", False
        passage = Passage("", messages, begun)
        try:
            with closing(self._side.answered(passage, self._max_tokens, self._fields)) as pieces:
                for piece in pieces:
                    written += piece
                    yield piece
                    if self._interrupted:
                        return
        finally:
            done = written or self._side.ended
            self.messages = [*messages, ("assistant", begun + written)] if done else before
