"""``--when-full slide`` and ``speckv`` on the command line: what they say of themselves."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgedec.cli.cut import Limits
from edgedec.cli.services import Services
from edgedec.models import Store
from tests.cli.support import Home, assert_one_line, ran, run
from tests.fixtures.tiny_models import tiny_bundle

NAMED = pytest.mark.parametrize(("policy", "name"), [("slide", "sinks+window"), ("speckv", "speckv")])


def options(bundle: Path) -> list[str]:
    return ["-m", str(bundle), "--context", "64", "--threads", "1", "--draft", "off", "--temperature", "1"]


def services(bundle: Path) -> Services:
    return Services(store=lambda: Store(bundle.parent / "home"), interactive=lambda: False)


@NAMED
def test_generate_goes_on_and_says_that_it_is_lossy(bundle: Path, policy: str, name: str) -> None:
    args = ["generate", *options(bundle), "--raw", "-p", "hello world", "--max-tokens", "100", "--json"]
    full = run(services(bundle), *args)
    slid = run(services(bundle), *args, "--when-full", policy)
    assert (full.exit_code, slid.exit_code) == (0, 0), slid.output
    exact, lossy = json.loads(full.stdout), json.loads(slid.stdout)
    count = len(exact["tokens"]) - (16 if policy == "speckv" else 0)  # slots that are kept free
    assert (exact["finish_reason"], lossy["finish_reason"]) == ("context", "length")
    assert lossy["tokens"][:count] == exact["tokens"][:count]
    assert len(lossy["tokens"]) == 100 > count
    assert (exact["stats"]["lossy"], exact["stats"]["evicted_tokens"]) == (None, 0)
    assert lossy["stats"]["lossy"] == name
    assert lossy["stats"]["evicted_tokens"] % 16 == 0 < lossy["stats"]["evicted_tokens"]
    assert full.stderr == ""
    assert len(slid.stderr.splitlines()) == 1
    assert slid.stderr.startswith(f"lossy ({name}): the context was full")


def test_where_it_slides_already_it_is_not_advised(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Limits] = []
    args = ["generate", *options(bundle), "--raw", "-p", "hello", "--max-tokens", "2"]
    with monkeypatch.context() as patch:
        patch.setattr(Limits, "of_one", lambda self, reply: seen.append(self))
        for more in ((), ("--when-full", "slide")):
            run(services(bundle), *args, *more)
    reply: Any = SimpleNamespace(finish_reason="context", tokens=[1, 2])
    stops, slides = (limits.of_one(reply) for limits in seen)
    assert stops.startswith("note: the context of 64 tokens is full")
    assert stops.endswith("--context, up to 512 or --when-full slide gives more")
    assert slides.startswith("note: the context of 512 tokens is full")
    assert slides.endswith("the model has no more")


def test_nothing_is_said_before_it_acts(bundle: Path) -> None:
    args = ["generate", *options(bundle), "--raw", "-p", "hello", "--max-tokens", "9", "--json"]
    result = run(services(bundle), *args, "--when-full", "slide")
    assert json.loads(result.stdout)["stats"]["lossy"] is None
    assert result.stderr == ""


@NAMED
def test_a_chat_says_it_once_and_stats_count(bundle: Path, policy: str, name: str) -> None:
    turns = "hello world\n" * 6 + "/stats\n"
    args = ["chat", *options(bundle), "--max-tokens", "20", "--when-full", policy]
    result = ran(services(bundle), *args, stdin=turns)
    said = [line for line in result.stderr.splitlines() if line.startswith("lossy")]
    assert len(said) == 1
    assert said[0].startswith(f"lossy ({name})")
    resident = next(line for line in result.stderr.splitlines() if line.startswith("context   "))
    assert 0 < int(resident.split()[1]) <= 65
    assert re.search(rf"; {re.escape(name)}: [1-9]\d* tokens have left the cache", resident)


@pytest.mark.parametrize("policy", ["slide", "speckv"])
def test_a_model_that_cannot_is_refused_before_the_first_turn(home: Home, policy: str) -> None:
    for command in (["chat"], ["generate", "-p", "Hi"]):
        result = run(home.services(home.parrot("Hello.")), *command, "--when-full", policy, stdin="Hi\n")
        assert_one_line(result, 5, "parrot", "leave out --when-full")


def test_what_speckv_needs_is_said_before_the_first_turn(bundle: Path, tmp_path: Path) -> None:
    gemma = tiny_bundle(tmp_path, "gemma3")
    result = run(services(bundle), "generate", "-p", "Hi", "--when-full", "speckv", *options(gemma))
    assert_one_line(result, 5, "window of their own", "leave out --when-full")
    args = ["-m", str(bundle), "--context", "12", "--draft", "off", "--when-full", "speckv", "-p", "Hi"]
    short = run(services(bundle), "generate", *args)
    assert_one_line(short, 2, "at least 16 tokens", "use --context 16 or more")
