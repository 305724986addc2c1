"""Every way to draft beside plain decoding, and other runtimes, on the same conversations.

For each turn of a question all sides answer the same token ids, one after the other; who begins moves on by
one each time. The turn after it continues the tokens of plain decoding. A side reads every prompt from an
empty cache, timed apart from decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

from edgedec.bench.journal import Answer, Journal
from edgedec.bench.questions import Question
from edgedec.bench.turns import settle, turns
from edgedec.bench.worker import Side, Worker
from edgedec.core.errors import BackendError

Progress = Callable[[str, int, int], None]
PLAIN = "edgedec"
"""The side whose tokens are the truth for the others of ours, and whose answers conversations go on from."""
OFF = "off"
_WARM_UP_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Contestant:
    """One line of the result: a process, which may serve several, and how it is asked to draft there."""

    name: str
    process: Side
    mode: str = OFF
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Of its requests, beside those that every side gets."""

    @property
    def ours(self) -> bool:
        return self.name == PLAIN or self.name.startswith(f"{PLAIN}+")


class Script(Protocol):
    """Makes the prompts of one conversation."""

    def prompt(self, turn: str) -> list[int]:
        """The token ids of the conversation up to this turn of the user."""
        ...

    def heard(self, tokens: Sequence[int]) -> None:
        """The reply to the latest prompt, its end token included."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """``stop``: tokens that end a reply. ``cold``: drafters forget between questions."""

    questions: tuple[Question, ...]
    script: Callable[[], Script]
    max_tokens: int
    stop: tuple[int, ...]
    cold: bool = False

    @property
    def turns(self) -> int:
        return sum(len(question.turns) for question in self.questions)


def measure(
    contestants: Sequence[Contestant],
    plan: Plan,
    journal: Journal,
    *,
    progress: Progress,
    settle: Callable[[], None] = settle,
) -> None:
    """Put into ``journal`` what is not there yet; one of ``contestants`` is plain decoding of ours.

    Processes are started only for sides that have something left to answer. Raises what ``Worker`` does,
    and StorageError.
    """
    total = plan.turns * len(contestants)
    done = 0
    with ExitStack() as stack:
        hosts = _Hosts(stack, journal, progress)
        number = 0
        for question in plan.questions:
            script = plan.script()
            for turn, text in enumerate(question.turns):
                prompt = script.prompt(text)
                for side in turns(contestants, number):
                    progress("measuring", done, total)
                    done += 1
                    if (question.key, turn, side.name) not in journal.answers:
                        worker = hosts.worker(side, prompt)
                        settle()
                        fresh = {"fresh": turn == 0} if plan.cold and side.ours else {}
                        journal.add(_ask(worker, side, plan, journal, question.key, turn, prompt, fresh))
                script.heard(journal.answers[question.key, turn, PLAIN].tokens)
                number += 1
    progress("measuring", total, total)


def _ask(
    worker: Worker, side: Contestant, plan: Plan, journal: Journal, question: str, turn: int,
    prompt: list[int], more: Mapping[str, Any],
) -> Answer:  # fmt: skip
    took = worker.request(
        "reply", tokens=prompt, max_tokens=plan.max_tokens, stop=list(plan.stop), mode=side.mode,
        **side.arguments, **more,
    )  # fmt: skip
    if not took["tokens"]:
        raise BackendError(f"{side.name} gave no token")
    peak = int(worker.request("memory")["peak_rss_bytes"])
    return Answer(
        question, turn, side.name, journal.run, prompt_tokens=len(prompt), peak_rss_bytes=peak, **took
    )


class _Hosts:
    """The processes, each started when it is needed first."""

    def __init__(self, stack: ExitStack, journal: Journal, progress: Progress) -> None:
        self._stack, self._journal, self._progress = stack, journal, progress
        self._workers: dict[str, Worker] = {}

    def worker(self, side: Contestant, prompt: list[int]) -> Worker:
        name = side.process.name
        if name not in self._workers:
            self._progress(f"loading {name}", 0, 1)
            worker = self._stack.enter_context(Worker(side.process))
            self._journal.add_opened(name, worker.open())
            # drafters must not have seen the question: only plain decoding is warmed up
            worker.request(
                "reply", tokens=prompt[:8], max_tokens=_WARM_UP_TOKENS, stop=[], mode=OFF, **side.arguments
            )
            self._workers[name] = worker
            self._progress(f"loading {name}", 1, 1)
        return self._workers[name]
