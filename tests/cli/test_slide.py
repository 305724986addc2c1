"""``--when-full slide`` on the command line: what it says of itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgedec.cli.seams import Seams
from edgedec.models import Store
from tests.cli.support import Home, assert_one_line, run
from tests.session.tiny_models import tiny_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("slide"))


def options(bundle: Path) -> list[str]:
    return ["-m", str(bundle), "--context", "64", "--threads", "1", "--draft", "off", "--temperature", "1"]


def seams(bundle: Path) -> Seams:
    return Seams(store=lambda: Store(bundle.parent / "home"), interactive=lambda: False)


def test_generate_goes_on_and_says_that_it_is_lossy(bundle: Path) -> None:
    args = ["generate", *options(bundle), "--raw", "-p", "hello world", "--max-tokens", "100", "--json"]
    full = run(seams(bundle), *args)
    slid = run(seams(bundle), *args, "--when-full", "slide")
    assert (full.exit_code, slid.exit_code) == (0, 0), slid.output
    exact, lossy = json.loads(full.stdout), json.loads(slid.stdout)
    count = len(exact["tokens"])
    assert (exact["finish_reason"], lossy["finish_reason"]) == ("context", "length")
    assert lossy["tokens"][:count] == exact["tokens"]
    assert len(lossy["tokens"]) == 100 > count
    assert (exact["stats"]["lossy"], exact["stats"]["evicted_tokens"]) == (None, 0)
    assert lossy["stats"]["lossy"] == "sinks+window"
    assert lossy["stats"]["evicted_tokens"] % 16 == 0 < lossy["stats"]["evicted_tokens"]
    assert full.stderr == ""
    assert len(slid.stderr.splitlines()) == 1
    assert slid.stderr.startswith("lossy (sinks+window): the context was full")


def test_nothing_is_said_before_it_acts(bundle: Path) -> None:
    args = ["generate", *options(bundle), "--raw", "-p", "hello", "--max-tokens", "9", "--json"]
    result = run(seams(bundle), *args, "--when-full", "slide")
    assert json.loads(result.stdout)["stats"]["lossy"] is None
    assert result.stderr == ""


def test_a_chat_says_it_once_and_stats_count(bundle: Path) -> None:
    turns = "hello world\n" * 6 + "/stats\n"
    args = ["chat", *options(bundle), "--max-tokens", "20", "--when-full", "slide"]
    result = run(seams(bundle), *args, stdin=turns)
    assert result.exit_code == 0, result.output
    said = [line for line in result.stderr.splitlines() if line.startswith("lossy")]
    assert len(said) == 2
    assert said[0].startswith("lossy (sinks+window)")
    assert said[1].startswith("lossy     sinks+window: ")
    resident = next(line for line in result.stderr.splitlines() if line.startswith("context   "))
    assert 0 < int(resident.split()[1]) <= 65


def test_a_model_that_cannot_is_refused_before_the_first_turn(home: Home) -> None:
    home.install()
    for command in (["chat"], ["generate", "-p", "Hi"]):
        result = run(home.seams(home.parrot("Hello.")), *command, "--when-full", "slide", stdin="Hi\n")
        assert_one_line(result, 5, "parrot", "leave out --when-full slide")
