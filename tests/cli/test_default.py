"""The model of commands that name none: shown, chosen, and set in the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.disk.home import DEFAULT
from edgedec.models.catalogue import DEFAULT_MODEL
from edgedec.models.home_files import others
from tests.cli.support import Home, assert_one_line, ran, run

OTHER = "qwen3-1.7b"


@pytest.fixture
def bare(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home whose user said nothing."""
    monkeypatch.delenv("EDGEDEC_MODEL")
    return home


def chosen(home: Home, **env: str) -> str:
    result = run(home.services(), "default", env=env)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.removesuffix("\n")


def test_it_is_the_packages_until_one_is_chosen(bare: Home) -> None:
    assert chosen(bare) == DEFAULT_MODEL
    assert run(bare.services(), "default", OTHER).stdout == f"{OTHER}\n"
    assert chosen(bare) == OTHER
    assert others(bare.path) == []
    assert run(bare.services(), "default", "Qwen3:1.7B").stdout == f"{OTHER}\n"


def test_the_environment_comes_first_and_says_so(bare: Home) -> None:
    env = {"EDGEDEC_MODEL": "smollm2-135m"}
    result = run(bare.services(), "default", OTHER, env=env)
    assert result.stderr == "note: EDGEDEC_MODEL is set, and comes first: smollm2-135m\n"
    assert chosen(bare, **env) == "smollm2-135m"
    assert chosen(bare, EDGEDEC_MODEL=" ") == OTHER


@pytest.mark.parametrize("command", [("chat", "say hello"), ("generate", "-p", "Hi")])
@pytest.mark.parametrize("by", ["choice", "environment"])
def test_commands_take_it(bare: Home, command: tuple[str, ...], by: str) -> None:
    bare.install("mine")
    services = bare.services(bare.parrot("Hello."))
    env = {"EDGEDEC_MODEL": "mine"} if by == "environment" else {}
    if by == "choice":
        ran(services, "default", "mine")
    result = run(services, *command, env=env)
    assert result.stdout == "Hello.\n", result.output
    assert [one["bundle"].name for one in bare.opened] == ["mine"]


def test_a_name_that_no_model_has_is_refused_with_near_ones(bare: Home) -> None:
    assert_one_line(run(bare.services(), "default", "qwen3-1.7"), 3, "no model named qwen3-1.7", OTHER)
    assert chosen(bare) == DEFAULT_MODEL
    wrong = run(bare.services(), "generate", "-p", "Hi", env={"EDGEDEC_MODEL": "qwen3-1.7"})
    assert_one_line(wrong, 3, "EDGEDEC_MODEL: no model named qwen3-1.7", OTHER)


def test_a_path_is_kept_in_full(bare: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some.gguf").write_bytes(b"GGUF")
    monkeypatch.chdir(tmp_path)
    assert run(bare.services(), "default", "./some.gguf").stdout == f"{tmp_path / 'some.gguf'}\n"
    assert chosen(bare) == str(tmp_path / "some.gguf")
    assert_one_line(run(bare.services(), "default", "./other.gguf"), 3, "no such file")


def test_a_damaged_choice_costs_a_line(bare: Home) -> None:
    (bare.path / DEFAULT).write_bytes(b"\xff\xfe")
    assert_one_line(run(bare.services(), "default"), 4, str(bare.path / DEFAULT), "choose a default again")
    ran(bare.services(), "default", OTHER)
    assert chosen(bare) == OTHER
