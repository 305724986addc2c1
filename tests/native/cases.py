"""Random requests to a small model, and the answers of engines to compare."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from edgedec.api import Model
from edgedec.assemble.config import RunConfig
from edgedec.assemble.runner import Runner
from edgedec.core.errors import ContextFullError, EdgeDecError, GrammarError
from edgedec.sampling import DrawParams
from edgedec.session.reply import Reply
from tests.fixtures.replies import feed_all
from tests.fixtures.tiny_models import prepared_run
from tests.sampling.drawing import random_params

ROLES = ("user", "assistant")
_WORDS = (
    " the",
    " a",
    " is",
    " of",
    " to",
    "hello",
    " world",
    "ing",
    "\n\n",
    "    ",
    "x = ",
    "é",
    "…",
    "日本",
    "👍🏽",
    "<|im_end|>",
)


@dataclass(frozen=True)
class Case:
    """A request. ``text`` is continued as it stands; without it ``messages`` are replied to.

    ``cancel``: the reply is interrupted by the first piece of text that comes with so many tokens or more.
    ``schema``, the text of a JSON schema, or ``choices``: the form of the reply.
    """

    params: DrawParams
    text: str = ""
    messages: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    max_tokens: int | None = None
    cancel: int | None = None
    schema: str = ""
    choices: tuple[str, ...] = ()

    def roles(self) -> list[tuple[str, str]]:
        """Role and content of each message."""
        return [(ROLES[at % 2], content) for at, content in enumerate(self.messages)]


@dataclass(frozen=True)
class Outcome:
    """The answer to a request: an error's code, message and hint, or a reply."""

    error: tuple[int, str, str] | None = None
    tokens: tuple[int, ...] = ()
    text: str = ""
    finish: str = ""
    prompt_tokens: int = 0
    reused: int = 0
    drafted: int = field(default=0, compare=False)
    """Tokens of the reply that had been drafted; how many depends on measured times."""


class Runs(Protocol):
    """One of the engines, with a model."""

    def run(self, case: Case) -> Outcome:
        """Answer a request; the KV cache stays for the next one."""
        ...


class PythonRuns:
    """The Python runtime with a bundle. It feeds whatever is drafted, whether that pays or not."""

    def __init__(self, bundle: Path, draft: str = "off", context: int = 256) -> None:
        config = RunConfig(threads=1, draft=draft, context=context)
        self._model = Model(prepared_run(bundle, config))
        assert isinstance(self._model.runner, Runner)
        feed_all([self._model.runner.engine])

    def close(self) -> None:
        self._model.close()

    def run(self, case: Case) -> Outcome:
        model = self._model
        asked: dict[str, Any] = {
            "sampling": case.params, "max_tokens": case.max_tokens, "stop": case.stops, **_form(case),
        }  # fmt: skip
        try:
            if case.text:
                reply = model.complete(case.text, **asked)
            else:
                messages = [{"role": role, "content": content} for role, content in case.roles()]
                reply = model.chat(messages=messages, **asked).reply()
            try:
                _read(reply, case.cancel)
            except GrammarError:  # the other hosts return the part that is there
                if reply.finish_reason not in ("length", "context"):
                    raise
        except EdgeDecError as error:
            return Outcome((error.exit_code, error.message, error.hint or ""))
        drafted = sum(source is not None for source in reply.sources)
        prompt, tokens = len(reply.prompt), tuple(reply.tokens)
        return Outcome(None, tokens, reply.text, str(reply.finish_reason), prompt, reply.reused, drafted)


def _read(reply: Reply, cancel: int | None) -> None:
    """Read a reply, which the first piece of text behind ``cancel`` tokens interrupts."""
    # The other hosts tell text of an answer once it is certain that no tag of thinking begins there.
    reader = reply.start.reader() if reply.start.reader else None
    for piece in reply:
        told = reader.push(piece).content if reader else piece
        if told and cancel is not None and len(reply.tokens) >= cancel:
            reply.interrupt()


def _form(case: Case) -> dict[str, Any]:
    """The form of a reply as Python's calls take it."""
    if case.choices:
        return {"regex": "|".join(map(re.escape, case.choices))}
    return {"schema": json.loads(case.schema)} if case.schema else {}


def random_case(rng: np.random.Generator, vocabulary: int) -> Case:
    """A request of any kind; about half are greedy, so that replies repeat and drafts are right."""
    params = random_params(rng, vocabulary) if rng.random() < 0.5 else DrawParams()
    stops = (
        tuple(_text(rng, 1, 3)[:3] or "e" for _ in range(int(rng.integers(1, 3))))
        if rng.random() < 0.3
        else ()
    )
    max_tokens = None if rng.random() < 0.1 else int(rng.integers(1, 40))
    cancel = int(rng.integers(0, 20)) if rng.random() < 0.15 else None
    if rng.random() < 0.6:
        return Case(params, _text(rng, 1, 40) or "a", (), stops, max_tokens, cancel)
    messages = tuple(_text(rng, 1, 12) or "b" for _ in range(int(rng.choice([1, 3, 5]))))
    return Case(params, "", messages, stops, max_tokens, cancel)


def cases(seed: int, count: int, vocabulary: int) -> list[Case]:
    """So many requests, some of which go on where an earlier one was."""
    rng = np.random.default_rng(seed)
    found: list[Case] = []
    while len(found) < count:
        case = random_case(rng, vocabulary)
        if found and case.text and found[-1].text and rng.random() < 0.3:
            case = Case(case.params, found[-1].text + case.text, (), case.stops, case.max_tokens, case.cancel)
        found.append(case)
    return found


def differences(these: Runs, those: Runs, every: Sequence[Case]) -> list[str]:
    """Describe the answers of two engines that differ; both answer all cases one after the other."""
    found = []
    for at, case in enumerate(every):
        first, second = these.run(case), those.run(case)
        if _comparable(first) != _comparable(second):
            found.append(f"case {at}, {case.params.summary()}: {case}\n  {first}\n  {second}")
    return found


def _comparable(outcome: Outcome) -> Outcome:
    """The outcome; of a prompt that does not fit without its length, which an engine need not count."""
    code, _, hint = outcome.error or (0, "", "")
    return replace(outcome, error=(code, "", hint)) if code == ContextFullError.exit_code else outcome


def _text(rng: np.random.Generator, least: int, most: int) -> str:
    """Words, some letters, and pieces that come again."""
    words = [str(rng.choice(_WORDS)) for _ in range(int(rng.integers(least, most + 1)))]
    if rng.random() < 0.5:
        words += words[: int(rng.integers(1, 8))]
    if rng.random() < 0.5:
        words.append("".join(chr(int(rng.integers(0x20, 0x7F))) for _ in range(int(rng.integers(1, 12)))))
    return "".join(words)
