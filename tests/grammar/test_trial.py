"""Grammars that crash their compiler, or take it all time and memory, cost a process and a line."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import pytest

from edgedec.core.errors import BackendError, UsageError
from edgedec.grammar import trial_worker
from edgedec.grammar.matcher import MOST_STATES
from edgedec.grammar.spec import GrammarSpec
from edgedec.grammar.trial import TrialCompiler
from tests.grammar.support import constraint
from tests.patience import PATIENCE_S

SEGFAULT = '{"type": "integer", "minimum": -1e30, "maximum": -1e20}'
"""In llguidance 1.9.1, where nobody looks at the bounds before."""


def of(compiler: TrialCompiler, schema: str) -> str:
    from llguidance import LLMatcher

    return compiler.of(LLMatcher.grammar_from_json_schema(schema), MOST_STATES, 1000, {}).fault


@pytest.fixture
def compiler() -> TrialCompiler:
    return TrialCompiler()


def test_a_crash_is_an_answer_and_the_next_grammar_is_tried(compiler: TrialCompiler) -> None:
    assert of(compiler, '{"type": "string"}') == ""
    assert of(compiler, SEGFAULT) == "it crashes the compiler"
    assert of(compiler, '{"type": "boolean"}') == ""


def test_a_crash_inside_a_grammar_of_control_tokens_is_found(compiler: TrialCompiler) -> None:
    text = f"start: <[903]> <|call|> %json {SEGFAULT}"
    assert compiler.of(text, MOST_STATES, 1000, {"<|call|>": 77}).fault == "it crashes the compiler"


def test_a_grammar_that_crashes_costs_its_caller_a_line() -> None:
    with pytest.raises(UsageError, match="it crashes the compiler"):
        constraint(GrammarSpec.of(grammar=f"start: %json {SEGFAULT}"))
    constraint(GrammarSpec.of(regex="a"))


def test_a_grammar_that_takes_minutes_or_all_memory_is_stopped(compiler: TrialCompiler) -> None:
    wide = {f"k{at}": {"type": "integer"} for at in range(8_000)}
    began = time.perf_counter()
    fault = of(compiler, json.dumps({"type": "object", "properties": wide}))
    assert fault in ("it takes too long to compile", "it takes too much memory to compile")
    assert time.perf_counter() - began < PATIENCE_S


def test_a_failure_of_the_compiler_is_one_line() -> None:
    """In llguidance 1.9.1 two constants of one text."""
    twice = {"anyOf": [{"const": -1024.0}, {"type": "integer", "minimum": -1024, "maximum": -1024}]}
    with pytest.raises(UsageError, match=r"^this JSON schema cannot be used: the compiler fails at it"):
        constraint(GrammarSpec.of(schema=twice))
    constraint(GrammarSpec.of(schema={"type": ["number", "integer"], "const": -1024.0}))


def test_a_grammar_is_tried_once(compiler: TrialCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    assert of(compiler, '{"type": "string"}') == ""
    assert of(compiler, SEGFAULT)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert of(compiler, '{"type": "string"}') == ""
    assert of(compiler, SEGFAULT) == "it crashes the compiler"
    with pytest.raises(BackendError, match="cannot start a process that tries grammars"):
        of(compiler, '{"type": "null"}')


def test_a_process_that_was_idle_is_started_anew(compiler: TrialCompiler) -> None:
    assert of(compiler, '{"type": "string"}') == ""
    assert compiler._process is not None
    process = compiler._process.process
    os.kill(process.pid, signal.SIGALRM)  # as its own timer does
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert of(compiler, '{"type": "boolean"}') == ""


def test_the_worker_waits_seconds_and_no_longer() -> None:
    assert 1 <= trial_worker.IDLE_S <= 60
    assert json.loads(SEGFAULT)["maximum"] < -(2**63)
