"""Models and prompts as people type them: without options, from pipes and files, and nearly right."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgedec.cli import text_input
from edgedec.cli.services import Services
from tests.cli.support import Home, assert_one_line, run

UNLIMITED: Any = SimpleNamespace(limits=None, most_bytes=lambda: None)


def prompt_tokens(home: Home, *args: str, stdin: str = "") -> int:
    result = run(home.services(home.parrot("Yes.")), "generate", *args, "--json", stdin=stdin)
    return int(json.loads(result.stdout)["stats"]["prompt_tokens"])


def test_a_prompt_needs_no_option(home: Home) -> None:
    services = home.services(home.parrot("Because."))
    result = run(services, "generate", "Why is the sky blue?")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Because.\n", "")
    assert prompt_tokens(home, "Why?") == prompt_tokens(home, "-p", "Why?")


def test_input_comes_before_a_prompt_with_a_blank_line_between(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.install()
    together = prompt_tokens(home, "-p", "A text.\n\nWhy?")
    assert prompt_tokens(home, "Why?", stdin="A text.\n") == together
    assert prompt_tokens(home, "Why?", stdin=" \n") == prompt_tokens(home, "-p", "Why?")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"A text.\n")))
    assert text_input.read_prompt("Why?", UNLIMITED, after_input=True) == "A text.\n\nWhy?"


def test_with_the_option_standard_input_is_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"the next line of a loop\n"))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert text_input.read_prompt("Why?", UNLIMITED) == "Why?"
    assert stdin.read() == "the next line of a loop\n"


@pytest.mark.parametrize(("kind", "read"), [("pipe", True), ("file", True), ("/dev/zero", False)])
def test_only_pipes_and_files_are_read_beside_a_prompt(
    kind: str, read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").write_text("A text.")
    place = str(tmp_path / "text") if kind in ("pipe", "file") else kind
    with (
        subprocess.Popen(["cat", tmp_path / "text"], stdout=subprocess.PIPE, text=True) as cat,
        open(place) as file,
    ):
        monkeypatch.setattr(sys, "stdin", cat.stdout if kind == "pipe" else file)
        text = text_input.read_prompt("Why?", UNLIMITED, after_input=True)
    assert text == ("A text.\n\nWhy?" if read else "Why?")


def test_without_a_prompt_a_terminal_gets_one_line_at_once(home: Home) -> None:
    terminal, program = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "edgedec.cli.main", "generate"],
        stdin=program,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "EDGEDEC_HOME": str(home.path)},
    )
    os.close(terminal)
    os.close(program)
    assert (done.returncode, done.stdout) == (2, "")
    line = (
        'error: no prompt (as in `edgedec generate "Why is the sky blue?"`, or pipe it to standard input)\n'
    )
    assert done.stderr == line


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("Why", "is it?"), ("one prompt is expected, not 2 arguments", "the model goes with -m")),
        (("smollm2-135m", "Why?"), ("smollm2-135m is a model, not a prompt", "generate -m smollm2-135m")),
        (("SmolLM2-135M",), ("is a model, not a prompt",)),
        (("Why?", "-p", "Why?"), ("two prompts are given",)),
        (("Why?", "--input", "x"), ("no such option: --input", "`edgedec batch --input`")),
        (("Why?", "--samples", "3"), ("no such option: --samples", "`edgedec batch --samples`")),
        (("",), ("the prompt is empty",)),
    ],
)
def test_prompts_that_contradict_each_other_are_refused(
    home: Home, args: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert_one_line(run(home.services(home.parrot("Yes.")), "generate", *args), 2, *words)


@pytest.mark.parametrize("command", ["chat", "run"])
def test_the_model_of_a_chat_needs_no_option(home: Home, command: str) -> None:
    bundle = home.install("gemma3-270m")
    for args in (("gemma3-270m",), ("-m", "gemma3-270m"), ("gemma3-270m", "-m", "gemma3-270m")):
        result = run(home.services(home.parrot("Hello.")), command, *args, stdin="Hi\n")
        assert (result.exit_code, result.stdout, result.stderr) == (0, "Hello.\n", "")
    assert [one["bundle"] for one in home.opened] == [bundle] * 3


@pytest.mark.parametrize("command", ["chat", "run", "plan"])
def test_two_different_models_are_refused(home: Home, command: str) -> None:
    result = run(home.services(), command, "smollm2-135m", "-m", "gemma3-270m")
    assert_one_line(result, 2, "two models are given, smollm2-135m and -m gemma3-270m (leave one out)")


@pytest.mark.parametrize("text", ["Why is the sky blue?", "word " * 20])
def test_a_prompt_in_the_place_of_a_model_is_answered_by_the_default_one(home: Home, text: str) -> None:
    bundle = home.install()
    result = run(home.services(home.parrot("Because.", "Never.")), "run", text)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Because.\n", "")
    assert [one["bundle"] for one in home.opened] == [bundle]


def test_a_prompt_in_the_place_of_a_model_goes_with_the_words_after_it(home: Home) -> None:
    bundle = home.install("gemma3-270m")
    kept = home.path / "talk"
    args = ("chat", "Say this:", "hello", "-m", "gemma3-270m", "--session", str(kept))
    result = run(home.services(home.parrot("Hello.")), *args)
    assert (result.exit_code, result.stdout) == (0, "Hello.\n")
    messages = json.loads(kept.read_bytes().splitlines()[1])["messages"]
    assert messages[0]["content"] == "Say this: hello"
    assert [one["bundle"] for one in home.opened] == [bundle]


def test_a_plan_takes_no_prompt(home: Home) -> None:
    assert_one_line(run(home.services(), "plan", "Why is it?"), 2, "no model is named 'Why is it?'")


@pytest.mark.parametrize(
    ("typed", "name"),
    [("llama3.2:1b", "llama3.2-1b"), ("Qwen3:0.6B", "qwen3-0.6b"), ("gemma3:270m", "gemma3-270m-it")],
)
@pytest.mark.parametrize("command", ["run", "show", "rm"])
def test_names_that_other_programs_write_are_known(home: Home, command: str, typed: str, name: str) -> None:
    bundle = home.install(name)
    if command == "run":
        result = run(home.services(home.parrot("Hello.")), "run", typed, "Hi")
        assert (result.exit_code, home.opened[0]["bundle"]) == (0, bundle)
    else:
        assert run(home.services(), command, typed).exit_code in (0, 4)  # the bundle has no real manifest


def test_another_size_gets_the_names_of_its_family(home: Home) -> None:
    result = run(home.services(), "run", "llama3.2:405b")
    assert_one_line(result, 3, "no model named llama3.2:405b", "did you mean llama3.2-1b, llama3.2-3b?")


@pytest.mark.parametrize("name", ["n" * 5000, "a/b:" + "q" * 5000, "a\0b"])
def test_names_that_no_path_can_have_are_one_line(home: Home, name: str) -> None:
    result = run(home.services(), "chat", name, env={"HF_HUB_OFFLINE": "1"})
    assert result.exit_code in (3, 6)
    assert len(result.stderr.splitlines()) == 1


def test_installed_models_come_first_among_those_that_are_near(home: Home) -> None:
    home.install("qwen3-1.7b")
    home.install("qwen2.5-coder-1.5b")
    words = "did you mean qwen2.5-coder-1.5b, qwen3-1.7b, qwen2.5-0.5b?"
    assert_one_line(run(home.services(), "chat", "qwen"), 3, words)


@pytest.mark.parametrize("interactive", [True, False])
def test_run_with_a_prompt_answers_once(home: Home, interactive: bool) -> None:
    services = home.services(home.parrot("Hello.", "Never."), interactive=lambda: interactive)
    result = run(services, "run", "smollm2-135m", "say", "hello", "--session", str(home.path / "talk"))
    assert (result.exit_code, result.stdout) == (0, "Hello.\n")
    kept = (home.path / "talk").read_bytes().splitlines()[1]
    assert [one["content"] for one in json.loads(kept)["messages"]] == ["say hello", "Hello."]


def test_run_puts_the_input_before_the_prompt(home: Home) -> None:
    talk = home.path / "talk"
    services = home.services(home.parrot("Fine."))
    run(services, "run", "smollm2-135m", "Is this good?", "--session", str(talk), stdin="A text.\nMore.\n")
    (first, *_) = json.loads(talk.read_bytes().splitlines()[1])["messages"]
    assert first["content"] == "A text.\nMore.\n\nIs this good?"


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("smollm2", "did you mean smollm2-1.7b, smollm2-135m, smollm2-360m?"),
        ("qwen3", "did you mean qwen3-0.6b, qwen3-1.7b, qwen3-30b-a3b?"),
        ("coder", "did you mean qwen2.5-coder-0.5b, qwen2.5-coder-1.5b, qwen2.5-coder-3b?"),
        ("smolm2-135m", "did you mean smollm2-135m"),
        ("mod", "did you mean model-1, model-2, model-3?"),
        ("zzz", "(`edgedec list --all` shows the names; owner/repo of the model hub, a file or a folder"),
    ],
)
def test_an_unknown_model_gets_the_nearest_three(home: Home, typed: str, words: str) -> None:
    for number in range(1, 5):
        home.install(f"model-{number}")
    assert_one_line(run(home.services(), "chat", typed), 3, f"no model named {typed}", words)


def test_export_of_a_name_on_the_hub_says_how(home: Home, tmp_path: Path) -> None:
    result = run(Services(), "export", "owner/repo", "-o", str(tmp_path / "out"))
    assert_one_line(result, 3, "no such file: owner/repo", "edgedec pull owner/repo")
