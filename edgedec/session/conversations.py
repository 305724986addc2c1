"""Several conversations over one model: each has the replies that it would have alone, and all are done
sooner.

Every conversation runs in a thread of its own, as if it were alone; their passes meet in one batch.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from edgedec.core.errors import EdgeDecError, GrammarError, UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.session.chat import Chat
from edgedec.session.host import Host
from edgedec.session.prompt import Message, conversation_of
from edgedec.session.reply import Settings
from edgedec.session.shared_prefix import SharedPrefixes
from edgedec.session.tasks import Answer, Task, TaskQueue

if TYPE_CHECKING:
    from edgedec.assemble.runner import Runner
    from edgedec.metrics.measures import Energy


@dataclass(frozen=True, slots=True)
class BatchTotals:
    """Figures of several replies together, those in progress included."""

    completion_tokens: int
    energy: Energy

    def as_json(self) -> dict[str, object]:
        """Return them as JSON fields."""
        return {"completion_tokens": self.completion_tokens, "energy": self.energy.as_json()}


class Conversations:
    """Chats side by side, each with as much context as a single one would have.

    Close it, or use it as a context manager.

    >>> greedy = edgedec.SamplingParams.greedy()
    >>> with edgedec.open("smollm2-135m", conversations=2, context=512, sampling=greedy) as two:
    ...     with two.conversations(max_tokens=20) as several:
    ...         answers = list(several.answers(["What is 2+2?", "Hello!"]))
    >>> answers[0].reply.text
    'The answer to this classic math problem is 4.'
    """

    def __init__(
        self, runner: Runner, settings: Settings | None = None, *, system: str | None = None
    ) -> None:
        self._runner = runner
        codec, messages = runner.model.codec, conversation_of((), system)
        self._prefixes = SharedPrefixes(runner.engines)
        self.chats = tuple(
            Chat(
                engine,
                codec.clone(),
                settings,
                messages=messages,
                host=Host(fetch=partial(self._prefixes.copy_to, number)),
            )
            for number, engine in enumerate(runner.engines)
        )
        """Use each from one thread, inside ``reply``."""
        self._interrupted = False
        self._turn = threading.Lock()
        self._tokens = 0
        self._idle_w: float | None = None
        self._start = runner.mark()

    @property
    def context(self) -> int:
        """Tokens that each conversation has room for."""
        return self.chats[0].engine.capacity

    @contextmanager
    def reply(self, number: int) -> Iterator[Chat]:
        """Give chat ``number``, which must reply at once: the passes of the others wait for it."""
        with self._runner.reply(number):
            yield self.chats[number]

    def answers(self, texts: Sequence[str], *, raw: bool = False) -> Generator[Answer, None, None]:
        """Answer each text by itself; yields in the order of ``texts``, each as soon as it is done.

        ``raw`` continues a text as it stands, without the chat template. A text that does not fit has the
        error in its ``Answer``. After ``interrupt``, or when the iteration is abandoned, no more are begun.
        """
        first = threading.Event() if self._awaited(texts[:2], raw=raw) else None
        yield from self._run([Task(text, at, first, raw=raw) for at, text in enumerate(texts)])

    def samples(
        self, text: str, count: int, *, raw: bool = False, logprobs: int | None = None, as_done: bool = False
    ) -> Generator[Answer, None, None]:
        """Answer one text ``count`` times; sample i is the reply alone with seed + i.

        The prompt is computed once. Samples beyond the number of chats run in turns. Yields in the order of
        samples, each as soon as it is done; with ``as_done`` in the order in which they end. ``raw`` and
        interruptions are as in ``answers``, ``logprobs`` as in ``Chat.reply``. Raises UsageError for less
        than one sample.

        >>> warm = edgedec.SamplingParams(temperature=1.0, seed=5)
        >>> with edgedec.open("smollm2-135m", conversations=2, context=512, sampling=warm) as model:
        ...     with model.conversations(max_tokens=8) as several:
        ...         found = [one.reply.params.seed for one in several.samples("Name a colour.", 3)]
        >>> found
        [5, 6, 7]
        """
        if count < 1:
            raise UsageError(f"{count} samples are not possible", hint="ask for 1 or more")
        params = self.chats[0].settings.params
        self._runner.make_room_for(params, logprobs=bool(logprobs))
        first = threading.Event()
        tasks = [Task(text, at, first, raw=raw, logprobs=logprobs, sample=at) for at in range(count)]
        return self._run(tasks, as_done=as_done)

    def _awaited(self, texts: Sequence[str], *, raw: bool) -> bool:
        """Whether all texts but the first wait for its prompt, of which they copy the beginning."""
        if len(texts) < 2 or not self._prefixes.copies:
            return False
        chat = self.chats[0]
        try:
            one, other = (
                chat.prompts.of_text(text)
                if raw
                else chat.prompts.build([*conversation_of((), chat.system), Message("user", text)]).ids
                for text in texts
            )
        except EdgeDecError:  # the answer to the text will have it
            return False
        return self._prefixes.awaited(one, other)

    def _run(self, tasks: Sequence[Task], *, as_done: bool = False) -> Generator[Answer, None, None]:
        work = TaskQueue(tasks)
        threads = [
            threading.Thread(target=self._answer, args=(number, work), name=f"conversation {number}")
            for number in range(min(len(self.chats), len(tasks)))
        ]
        self._interrupted = False
        for thread in threads:
            thread.start()
        try:
            for number in range(len(tasks)):
                if (answer := work.done(None if as_done else number)) is None:
                    return
                yield answer
        finally:
            work.stop()
            if any(thread.is_alive() for thread in threads):
                self.interrupt()
            for thread in threads:
                thread.join()

    def measure(self) -> None:
        """Count tokens and joules from now on, for ``together``.

        Takes a second where there is an energy meter whose idle power is not known.
        """
        self._idle_w = self._runner.measures.idle_w()
        with self._turn:
            self._tokens = 0
        self._start = self._runner.mark()

    def together(self) -> BatchTotals:
        """Return the tokens and joules of all replies since ``measure``, up to now.

        Passes are shared, so the joules of a single reply are not known.
        """
        with self._turn:
            running = [chat.last for chat in self.chats if chat.last is not None]
            tokens = self._tokens + sum(len(reply.tokens) for reply in running)
        end = self._runner.mark()
        return BatchTotals(tokens, self._runner.measures.batch_energy(self._start, end, tokens, self._idle_w))

    def interrupt(self) -> None:
        """End all replies in progress after their current tokens. Safe to call from a signal handler."""
        self._interrupted = True
        for chat in self.chats:
            chat.interrupt()

    def close(self) -> None:
        """Run no more passes."""
        self._runner.close()

    def __enter__(self) -> Conversations:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, number: int, work: TaskQueue) -> None:
        with work.worker():
            while not self._interrupted and (taken := work.take()) is not None:
                at, task = taken
                work.put(self._one(number, at, task))

    def _one(self, number: int, at: int, task: Task) -> Answer:
        reply = None
        try:
            task.wait()
            with self._runner.reply(number, streams=False):
                chat = self.chats[number]
                chat.reset()
                try:
                    reply = task.begin(chat)
                    for _ in reply:
                        task.said(reply)
                        if self._interrupted:  # before this reply was there to hear of it
                            reply.interrupt()
                finally:
                    self._count(chat)
        except Exception as error:  # the caller gets it, on another thread
            return Answer(at, reply if isinstance(error, GrammarError) else None, error)
        finally:
            task.over()
        return Answer(at, reply)

    def _count(self, chat: Chat) -> None:
        """Add the tokens of a reply that ended."""
        with self._turn:
            self._tokens += len(chat.last.tokens) if chat.last else 0
            chat.last = None
