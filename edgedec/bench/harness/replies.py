"""Sides that answer the same prompts in rotation.

For each turn of a question all sides answer the same token ids, one after the other; another side begins each
time. The next turn continues the tokens of plain decoding. Sides with a memory level get the prompts that a
chat with their context would make: without the oldest turns, where those no longer fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from edgedec.bench.harness.chat_prompts import ENDLESS_TOKENS
from edgedec.bench.harness.energy import EnergyProbe
from edgedec.bench.harness.journal import Journal, Key, SideAnswer
from edgedec.bench.harness.memory_levels import Level
from edgedec.bench.harness.pairing import rotated
from edgedec.bench.harness.pairing import settle as wait_until_idle
from edgedec.bench.harness.questions import Question
from edgedec.bench.harness.runtimes import EDGEDEC
from edgedec.bench.harness.worker import Side, Worker
from edgedec.core.errors import BackendError
from edgedec.core.progress import Progress

PLAIN = EDGEDEC
"""The side whose tokens the others must give, and that conversations continue from."""
OFF = "off"
_WARM_UP_TOKENS = 4


@dataclass(frozen=True, slots=True)
class ReplySide:
    """One way to reply: a process, which may serve several sides, and a way to draft there.

    ``arguments`` are added to each of its requests. ``level`` is the memory level of its process.
    """

    name: str
    process: Side
    mode: str = OFF
    arguments: Mapping[str, Any] = field(default_factory=dict)
    level: Level | None = None

    @property
    def ours(self) -> bool:
        return self.name == PLAIN or self.name.startswith(f"{PLAIN}+")


class Script(Protocol):
    """Makes the prompts of one conversation; see ``chat_prompts``."""

    dropped: int

    def prompt(self, turn: str, capacity: int = ..., reply: int = ...) -> list[int]: ...

    def add_reply(self, tokens: Sequence[int]) -> None: ...


@dataclass(frozen=True, slots=True)
class ReplyStudy:
    """Questions, and how all sides answer them. ``stop`` tokens end a reply."""

    questions: tuple[Question, ...]
    script: Callable[[], Script]
    max_tokens: int
    stop: tuple[int, ...]
    settle: Callable[[], None] = wait_until_idle
    energy: EnergyProbe | None = None

    @property
    def turns(self) -> int:
        return sum(len(question.turns) for question in self.questions)


def collect_replies(
    sides: Sequence[ReplySide], study: ReplyStudy, journal: Journal, progress: Progress
) -> None:
    """Add the answers that ``journal`` lacks. One of ``sides`` is ``PLAIN``.

    Processes are started only for sides with something left to answer. Raises the errors of ``Worker``, and
    StorageError.
    """
    total, done = study.turns * len(sides), 0
    with ExitStack() as stack:
        run = _ReplyRun(study, journal, _Hosts(stack, journal, progress))
        for question in study.questions:
            script = study.script()
            own = {side.name: study.script() for side in sides if side.level}
            for turn, text in enumerate(question.turns):
                asked = _Asked(question.key, turn, text, script.prompt(text))
                for side in rotated(sides, done // len(sides)):
                    progress("measuring", done, total)
                    run.answer(side, asked, own.get(side.name))
                    done += 1
                reply = journal.answers[question.key, turn, PLAIN].tokens
                for one in (script, *own.values()):
                    one.add_reply(reply)
    progress("measuring", total, total)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One turn of a question: the user's text, and the prompt that it makes."""

    question: str
    turn: int
    text: str
    prompt: list[int]

    def key(self, side: ReplySide) -> Key:
        return self.question, self.turn, side.name


@dataclass(frozen=True, slots=True)
class _ReplyRun:
    study: ReplyStudy
    journal: Journal
    hosts: _Hosts

    def answer(self, side: ReplySide, asked: _Asked, script: Script | None) -> None:
        """Add a side's answer unless it is there. ``script``: the prompts of a side with a memory level."""
        key = asked.key(side)
        worker = None if key in self.journal.answers else self.hosts.worker(side, asked.prompt)
        capacity, refused = ENDLESS_TOKENS, ""
        if script is not None:
            facts = self.journal.opened[side.process.name]
            capacity, refused = facts.get("capacity", 0), facts.get("refused", "")
            if not refused:
                asked = replace(asked, prompt=script.prompt(asked.text, capacity, self.study.max_tokens))
                if (count := len(asked.prompt)) >= capacity:
                    refused = f"a prompt of {count} tokens does not fit a context of {capacity}"
        if worker is None:
            return
        if refused:
            self.journal.add(SideAnswer(*key, self.journal.run, [], 0.0, 0.0, refused=refused))
            return
        self.study.settle()
        answer = self._reply(worker, side, asked)
        cut = len(asked.prompt) + len(answer.tokens) >= capacity
        self.journal.add(replace(answer, dropped=script.dropped if script else 0, cut=cut))

    def _reply(self, worker: Worker, side: ReplySide, asked: _Asked) -> SideAnswer:
        with ExitStack() as stack:
            watch = stack.enter_context(self.study.energy.watch()) if self.study.energy else None
            took = worker.request(
                "reply", tokens=asked.prompt, max_tokens=self.study.max_tokens, stop=list(self.study.stop),
                mode=side.mode, **side.arguments,
            )  # fmt: skip
        if not took["tokens"]:
            raise BackendError(f"{side.name} gave no token")
        facts = {**worker.request("memory"), **took, "prompt_tokens": len(asked.prompt)}
        if watch and self.study.energy and (joules := watch.last(took["decode_s"])) is not None:
            facts |= {"joules": joules, "meter": self.study.energy.meter}
        question, turn, name = asked.key(side)
        return SideAnswer(question, turn, name, self.journal.run, **facts)


class _Hosts:
    """The processes, each started when it is needed first."""

    def __init__(self, stack: ExitStack, journal: Journal, progress: Progress) -> None:
        self._stack, self._journal, self._progress = stack, journal, progress
        self._workers: dict[str, Worker] = {}

    def worker(self, side: ReplySide, prompt: list[int]) -> Worker:
        name = side.process.name
        if name not in self._workers:
            self._progress(f"loading {name}", 0, 1)
            worker = self._stack.enter_context(Worker(side.process))
            facts = worker.open()
            self._journal.add_opened(name, facts)
            if "refused" in facts:
                worker.kill()  # it would only take memory
            else:
                # Drafters must not have seen the question: only plain decoding is warmed up.
                worker.request(
                    "reply", tokens=prompt[:8], max_tokens=_WARM_UP_TOKENS, stop=[], mode=OFF,
                    **side.arguments,
                )  # fmt: skip
            self._workers[name] = worker
            self._progress(f"loading {name}", 1, 1)
        return self._workers[name]
