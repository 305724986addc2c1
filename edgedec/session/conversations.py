"""Several conversations at once over one loaded model: each says what it says alone, all are done sooner.

    model = load_model(bundle, context=2048)
    with Conversations(model, 4, Settings(max_tokens=100)) as several:
        for answer in several.answers(["What is a prime?", "Name three rivers.", ...]):
            print(answer.reply.text)

Every conversation runs in a thread of its own, as if it were alone; their passes meet in a ``Batcher``.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import Remedy, UnsupportedError, UsageError
from edgedec.decode.engine import LONGEST_PASS
from edgedec.decode.speculation import Notice, Speculation
from edgedec.memory.footprint import MemoryChoice, longest_pass
from edgedec.runtime.drafting import AUTO, OFF, Drafting, speculations_for
from edgedec.session.chat import Session
from edgedec.session.reply import Reply, Settings

if TYPE_CHECKING:
    from edgedec.backends.backend import PassRequest
    from edgedec.runtime.loaded_model import LoadedModel

MOST = 16
"""Conversations at once: beyond them passes cost as much per token as prompts do."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one text: ``reply``, finished or not begun (None), and the ``error`` that ended it."""

    number: int
    reply: Reply | None
    error: Exception | None = None


class Conversations:
    """``count`` sessions side by side, each with as much context as the model was loaded with.

    ``drafting``: who drafts (None: nobody); ``costs`` is then the folder in which costs of passes are kept.
    ``choice``: what a plan for a budget of memory chose (see ``session.budget.within``). Raises UsageError
    for a number that is not possible, a model that drafts, and drafts that are kept on disk; UnsupportedError
    for a model whose backend runs one at a time. To be closed, or used as a context manager.
    """

    def __init__(
        self,
        model: LoadedModel,
        count: int,
        settings: Settings | None = None,
        *,
        system: str | None = None,
        drafting: Drafting | None = None,
        costs: Path | None = None,
        choice: MemoryChoice | None = None,
        notice: Notice = lambda line: None,
    ) -> None:
        drafting = drafting or Drafting(OFF)
        check_several(model, count, drafting)
        if drafting.names != OFF and costs is None:
            raise ValueError("drafts need a folder for what passes cost")
        made = speculations_for(model, drafting, count, costs, notice=notice) if costs else None
        speculations: Sequence[Speculation | None] = made[0] if made else [None] * count
        self._company = made[1] if made else None
        piece = min(choice.prompt_pass if choice else LONGEST_PASS, model.forward.capacity)
        passes = MemoryChoice(0, prompt_pass=piece, drafted=drafting.tokens if made else 0)
        assert model.backend is not None, "check_several refuses others"
        self._batch = model.backend.sequences(
            count,
            CacheConfig(model.forward.capacity, model.kv, longest_pass(passes)),
            batch_tokens=longest_pass(passes, count),
            ledger=model.forward.ledger,
            observe=self._passed,
        )
        self.sessions = tuple(
            Session(
                forward, model.tokenizer, model.template, settings, system=system, speculation=speculation
            )
            for forward, speculation in zip(self._batch.forwards, speculations, strict=True)
        )
        """Use each from one thread, inside ``reply``."""
        self._interrupted = False

    @contextmanager
    def reply(self, number: int) -> Iterator[Session]:
        """Session ``number``, whose passes the others wait for from now on: it is to reply at once."""
        with self._batch.reply(number):
            yield self.sessions[number]

    def answers(self, texts: Sequence[str], *, raw: bool = False) -> Generator[Answer, None, None]:
        """Answer each text by itself, in any of the conversations; in the order of ``texts``, as they are
        done. ``raw``: continue it as it stands, without the chat template.

        A text that cannot be answered (it does not fit) has its error in its ``Answer``. After ``interrupt``,
        or when the iteration is abandoned, no more are begun.
        """
        work = _Work(texts)
        threads = [
            threading.Thread(target=self._answer, args=(number, work, raw), name=f"conversation {number}")
            for number in range(min(len(self.sessions), len(texts)))
        ]
        self._interrupted = False
        for thread in threads:
            thread.start()
        try:
            for number in range(len(texts)):
                if (answer := work.done(number)) is None:
                    return
                yield answer
        finally:
            work.stop()
            if any(thread.is_alive() for thread in threads):
                self.interrupt()
            for thread in threads:
                thread.join()

    def interrupt(self) -> None:
        """End all replies in progress after their current tokens. Safe to call from a signal handler."""
        self._interrupted = True
        for session in self.sessions:
            session.interrupt()

    def close(self) -> None:
        """No pass is run after this."""
        self._batch.close()

    def __enter__(self) -> Conversations:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _answer(self, number: int, work: _Work, raw: bool) -> None:
        with work.worker():
            while not self._interrupted and (task := work.take()) is not None:
                at, text = task
                work.put(self._one(number, at, text, raw))

    def _one(self, number: int, at: int, text: str, raw: bool) -> Answer:
        try:
            with self.reply(number) as session:
                session.last = None
                session.reset()
                for _ in session.complete(text) if raw else session.reply(text):
                    if self._interrupted:  # it may have been before this reply was there to hear of it
                        session.interrupt()
        except Exception as error:  # it is for the caller, whose thread this is not
            return Answer(at, None, error)
        return Answer(at, session.last)

    def _passed(self, requests: Sequence[PassRequest], seconds: float) -> None:
        """Passes that decode say what drafts cost; pieces of prompts, of which no rows are wanted, do not."""
        if self._company and all(
            len(request.rows.resolve(len(request.tokens))) == len(request.tokens) for request in requests
        ):
            self._company.passed({one.sequence: len(one.tokens) for one in requests}, seconds)


def check_several(model: LoadedModel, count: int, drafting: Drafting) -> None:
    """Raises UsageError or UnsupportedError unless ``model`` can have ``count`` conversations at once, with
    these drafts.
    """
    if not 1 <= count <= MOST:
        raise UsageError(
            f"a batch of {count} conversations is not possible",
            hint=f"use 1 to {MOST}",
            remedy=Remedy("conversations", MOST),
        )
    if model.forward.caps.sequences == 1:
        raise UnsupportedError(
            f"{model.manifest.name} runs in {model.isa}, one conversation at a time",
            hint="export the model for EdgeDec's kernels, or have one at a time",
            remedy=(Remedy("export"), Remedy("conversations")),
        )
    check_drafts(drafting)


def check_drafts(drafting: Drafting) -> None:
    """Raises UsageError unless several conversations at once can have these drafts."""
    if drafting.models:
        raise UsageError(
            "a draft model cannot draft for a batch of conversations",
            hint=f"use the drafters {AUTO} or {OFF}, or one conversation at a time",
            remedy=(Remedy("draft", AUTO), Remedy("draft", OFF), Remedy("conversations")),
        )
    if drafting.history:
        raise UsageError(
            "drafts are kept between runs for one conversation at a time only",
            hint="do not keep them",
            remedy=Remedy("history"),
        )


class _Work:
    """Texts on their way from one thread to several, and answers back."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._next = 0
        self._workers = 0
        self._begun = False
        self._answers: dict[int, Answer] = {}
        self._changed = threading.Condition()

    @contextmanager
    def worker(self) -> Iterator[None]:
        with self._changed:
            self._workers += 1
            self._begun = True
        try:
            yield
        finally:
            with self._changed:
                self._workers -= 1
                self._changed.notify_all()

    def take(self) -> tuple[int, str] | None:
        with self._changed:
            if self._next >= len(self._texts):
                return None
            self._next += 1
            return self._next - 1, self._texts[self._next - 1]

    def put(self, answer: Answer) -> None:
        with self._changed:
            self._answers[answer.number] = answer
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._next = len(self._texts)

    def done(self, number: int) -> Answer | None:
        """Waits for the answer to text ``number``; None when nobody is left to give it."""
        with self._changed:
            self._changed.wait_for(lambda: number in self._answers or (self._begun and not self._workers))
            return self._answers.pop(number, None)
