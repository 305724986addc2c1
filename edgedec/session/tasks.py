"""Work for several chats at once: tasks are handed to their threads, and outcomes back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgedec.core.quick_dataclass import dataclass
from edgedec.session.samples import answer_of, settled, with_seed

if TYPE_CHECKING:
    import re

    from edgedec.session.chat import Chat
    from edgedec.session.reply import Reply


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of text or sample ``number``.

    ``reply`` is None if it never began; ``error`` is the exception that ended it. One that ended without the
    form that it must have has both.
    """

    number: int
    reply: Reply | None
    error: Exception | None = None


class Task:
    """The reply of a chat to ``text``, drawn as sample ``sample``.

    Its prompt may begin as that of the first task, which the others wait for: ``first`` is set once that
    prompt is computed, or will not be. None: nobody waits.
    """

    def __init__(
        self,
        text: str,
        number: int,
        first: threading.Event | None,
        *,
        raw: bool,
        logprobs: int | None = None,
        sample: int = 0,
    ) -> None:
        self.number, self._first = number, first
        self._text, self._raw, self._logprobs, self._sample = text, raw, logprobs, sample

    def wait(self) -> None:
        """Wait until it may begin: the first task at once."""
        if self.number and self._first:
            self._first.wait()

    def begin(self, chat: Chat) -> Reply:
        """Begin the reply. This is called where the chat must reply at once."""
        params = chat.settings.params
        chat.adjust(params=with_seed(params, self._sample))
        try:
            if self._raw:
                return chat.complete(self._text, logprobs=self._logprobs)
            return chat.reply(self._text, logprobs=self._logprobs, final=True)
        finally:
            chat.adjust(params=params)

    def said(self, reply: Reply) -> None:
        """Hear of new text of the reply."""
        if reply.tokens:
            self.over()

    def over(self) -> None:
        """Hear that the task is over, however it ended, or that its prompt is computed."""
        if not self.number and self._first:
            self._first.set()


class TaskQueue:
    """Hands tasks from one thread to several, and answers back."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks
        self._next = 0
        self._workers = 0
        self._begun = False
        self._answers: dict[int, Answer] = {}
        self._changed = threading.Condition()

    @contextmanager
    def worker(self) -> Iterator[None]:
        """Count the thread that is inside."""
        with self._changed:
            self._workers += 1
            self._begun = True
        try:
            yield
        finally:
            with self._changed:
                self._workers -= 1
                self._changed.notify_all()

    def take(self) -> tuple[int, Task] | None:
        """Return the next task and its number; None when there is none left."""
        with self._changed:
            if self._next >= len(self._tasks):
                return None
            self._next += 1
            return self._next - 1, self._tasks[self._next - 1]

    def put(self, answer: Answer) -> None:
        """Hand an answer back."""
        with self._changed:
            self._answers[answer.number] = answer
            self._changed.notify_all()

    def stop(self) -> None:
        """Hand out no more tasks."""
        with self._changed:
            self._next = len(self._tasks)

    def done(self, number: int | None) -> Answer | None:
        """Wait for the answer to a task; None for any. None when no thread is left to give it."""

        def found() -> int | None:
            return next(iter(self._answers), None) if number is None else number

        with self._changed:
            self._changed.wait_for(lambda: found() in self._answers or (self._begun and not self._workers))
            at = found()
            return None if at is None else self._answers.pop(at, None)


class RunningVote:
    """A vote of ``count`` samples that ends as soon as it is settled. ``known``: whether its outcome is."""

    def __init__(self, count: int, pattern: re.Pattern[str] | None = None) -> None:
        self._count, self._pattern, self.known = count, pattern, False

    def heard(self, answers: Iterable[Answer], stop: Callable[[], None]) -> Iterator[Answer]:
        """Yield samples as they end, in any order; ``stop`` is called once, when no other is needed.

        A reply without the form that it must have has no vote.
        """
        said: dict[int, str | None] = {}
        for one in answers:
            if not self.known and one.reply and one.reply.finish_reason != "interrupted":
                said[one.number] = None if one.error else answer_of(one.reply.text, self._pattern)
                self.known = settled(said, self._count)
                if self.known:
                    stop()
            yield one
        self.known = self.known or len(said) == self._count
