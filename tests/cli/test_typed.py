"""Ways to call the program: ``ls``, ``help COMMAND``, ``python -m edgedec``, and the shell's completion."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

import edgedec
from edgedec.cli.app import ALIASES, COMMANDS, NOWHERE, OTHERS
from tests.cli.support import Home, assert_one_line, ran, run


def test_ls_is_list(home: Home) -> None:
    home.install("gemma3-270m")
    listed = ran(home.services(), "ls")
    assert listed.stdout == run(home.services(), "list").stdout
    assert "gemma3-270m" in listed.stdout


@pytest.mark.parametrize("words", [(), ("chat",), ("run",), ("draft", "train"), ("ls",)])
def test_help_shows_the_help_of_a_command(words: tuple[str, ...]) -> None:
    asked = run(None, "help", *words)
    assert (asked.exit_code, asked.stdout) == (0, run(None, *words, "--help").stdout)


def test_help_of_an_unknown_command_is_one_line() -> None:
    assert_one_line(run(None, "help", "chta"), 2, "no command named 'chta'", "did you mean chat")


def test_a_prompt_alone_is_told_from_a_command() -> None:
    assert_one_line(run(None, "Why is the sky blue?"), 2, 'as in `edgedec generate "Why is the sky blue?"`')


def test_every_name_that_is_offered_is_a_command() -> None:
    for words in {*OTHERS.values(), *ALIASES.values()}:
        assert run(None, "help", *words.split()).exit_code == 0, words
    assert not {*OTHERS, *NOWHERE} & {*COMMANDS, *ALIASES}


def test_python_runs_the_package() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "edgedec", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"edgedec, version {edgedec.__version__}\n"


COMPLETED = [
    (["edgedec", "ch"], {"chat", "check"}),
    (["edgedec", "draft", "tra"], {"train"}),
    (["edgedec", "chat", "--mem"], {"--memory"}),
    (["edgedec", "run", "llama3.2"], {"llama3.2-1b", "llama3.2-3b"}),
    (["edgedec", "plan", "-m", "phi4"], {"phi4-mini"}),
    (["edgedec", "clean", "hist"], {"history"}),
    (["edgedec", "generate", "--kv", "in"], {"int8"}),
]


def asked(home: Home, **variables: str) -> str:
    """What a shell gets from the program that completes for it."""
    environment = {**os.environ, "EDGEDEC_HOME": str(home.path), **variables}
    program = "import sys; sys.argv[0] = 'edgedec'\nfrom edgedec.cli.main import main; main()"
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


@pytest.mark.parametrize(("words", "found"), COMPLETED)
def test_bash_and_fish_complete_commands_options_and_models(
    home: Home, words: list[str], found: set[str]
) -> None:
    typed = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    lines = asked(home, _EDGEDEC_COMPLETE="bash_complete", **typed).splitlines()
    assert {line.partition(",")[2] for line in lines} == found
    typed["COMP_CWORD"] = words[-1]
    lines = asked(home, _EDGEDEC_COMPLETE="fish_complete", **typed).split("\n")
    assert found <= {text.strip() for line in lines for text in line.replace("\t", ",").split(",")}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_printed_and_parses(home: Home, shell: str) -> None:
    script = asked(home, _EDGEDEC_COMPLETE=f"{shell}_source")
    assert f"_EDGEDEC_COMPLETE={shell}_complete" in script
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=script, text=True, check=True)
