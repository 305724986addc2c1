"""Every way to draft beside plain decoding, and other runtimes, on the same conversations.

For each turn of a question all sides answer the same token ids, one after the other; who begins moves on by
one each time. The turn after it continues the tokens of plain decoding. A side reads every prompt from an
empty cache, timed apart from decoding. Sides within a budget of memory get the prompts that a chat with their
context would make: without the oldest turns, where those no longer fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from edgedec.bench.journal import Answer, Journal, Key
from edgedec.bench.levels import Level
from edgedec.bench.questions import Question
from edgedec.bench.turns import settle, turns
from edgedec.bench.worker import Side, Worker
from edgedec.core.errors import BackendError

Progress = Callable[[str, int, int], None]
PLAIN = "edgedec"
"""The side whose tokens are the truth for the others of ours, and whose answers conversations go on from."""
OFF = "off"
_WARM_UP_TOKENS = 4
_ENDLESS = 1 << 40
"""Tokens of a context that no prompt fills."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One line of the result: a process, which may serve several, and how it is asked to draft there."""

    name: str
    process: Side
    mode: str = OFF
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Of its requests, beside those that every side gets."""
    draft: str = ""
    level: Level | None = None
    """Of memory that its process may take, and what it is asked to draft there; None: as much as there is."""

    @property
    def ours(self) -> bool:
        return self.name == PLAIN or self.name.startswith(f"{PLAIN}+")


class Script(Protocol):
    """Makes the prompts of one conversation."""

    dropped: int
    """Turns that are gone for lack of context."""

    def prompt(self, turn: str, capacity: int = ..., reply: int = ...) -> list[int]:
        """The token ids of the conversation up to this turn of the user; with room for ``reply`` tokens in a
        context of ``capacity``, see ``session.fit``.
        """
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
        for question in plan.questions:
            script = plan.script()
            own = {side.name: plan.script() for side in contestants if side.level}
            for turn, text in enumerate(question.turns):
                asked = _Asked(question.key, turn, text, script.prompt(text))
                for side in turns(contestants, done // len(contestants)):
                    progress("measuring", done, total)
                    _answer(hosts, side, plan, journal, asked, own.get(side.name), settle)
                    done += 1
                heard = journal.answers[question.key, turn, PLAIN].tokens
                for listening in (script, *own.values()):
                    listening.heard(heard)
    progress("measuring", total, total)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One turn of a question: what the user says, and the prompt that it makes."""

    question: str
    turn: int
    text: str
    prompt: list[int]

    def key(self, side: Contestant) -> Key:
        return self.question, self.turn, side.name


def _answer(
    hosts: _Hosts, side: Contestant, plan: Plan, journal: Journal, asked: _Asked, script: Script | None,
    settle: Callable[[], None],
) -> None:  # fmt: skip
    """Put a side's answer into ``journal`` unless it is there. ``script``: of a side within a budget."""
    worker = hosts.worker(side, asked.prompt) if asked.key(side) not in journal.answers else None
    capacity, refused = _ENDLESS, ""
    if script is not None:
        facts = journal.opened[side.process.name]
        capacity, refused = facts.get("capacity", 0), facts.get("refused", "")
        if not refused:
            asked = replace(asked, prompt=script.prompt(asked.text, capacity, plan.max_tokens))
            if (count := len(asked.prompt)) >= capacity:
                refused = f"a prompt of {count} tokens does not fit a context of {capacity}"
    if worker is None:
        return
    if refused:
        journal.add(Answer(*asked.key(side), journal.run, [], 0.0, 0.0, first=0, refused=refused))
        return
    settle()
    answer = _ask(worker, side, plan, journal, asked)
    cut = len(asked.prompt) + len(answer.tokens) >= capacity
    journal.add(replace(answer, dropped=script.dropped if script else 0, cut=cut))


def _ask(worker: Worker, side: Contestant, plan: Plan, journal: Journal, asked: _Asked) -> Answer:
    fresh = {"fresh": asked.turn == 0} if plan.cold and side.ours else {}
    took = worker.request(
        "reply", tokens=asked.prompt, max_tokens=plan.max_tokens, stop=list(plan.stop), mode=side.mode,
        **side.arguments, **fresh,
    )  # fmt: skip
    if not took["tokens"]:
        raise BackendError(f"{side.name} gave no token")
    memory = worker.request("memory")
    question, turn, name = asked.key(side)
    return Answer(question, turn, name, journal.run, prompt_tokens=len(asked.prompt), **memory, **took)


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
            facts = worker.open()
            self._journal.add_opened(name, facts)
            if "refused" in facts:
                worker.kill()  # it would only take memory
            else:
                # drafters must not have seen the question: only plain decoding is warmed up
                worker.request(
                    "reply", tokens=prompt[:8], max_tokens=_WARM_UP_TOKENS, stop=[], mode=OFF,
                    **side.arguments,
                )  # fmt: skip
            self._workers[name] = worker
            self._progress(f"loading {name}", 1, 1)
        return self._workers[name]
