"""Hints name a command that works from where EdgeDec was installed."""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgedec.disk import installing
from edgedec.disk.installing import NAME, pip_install, pip_reinstall
from edgedec.system import places
from edgedec.system.places import program_name, quoted, scripts_folder


@pytest.fixture(autouse=True)
def no_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without a pip of its own, in a folder of its own."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.chdir(tmp_path)


def came_from(monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any] | None) -> None:
    text = None if origin is None else json.dumps(origin)
    found = SimpleNamespace(read_text=lambda name: text, requires=metadata.requires(NAME))
    monkeypatch.setattr(metadata, "distribution", lambda name: found)


def test_on_windows_words_are_in_double_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "my wheels" / "edgedec_runtime-0.1.0-py3-none-win_amd64.whl"
    wheel.parent.mkdir()
    wheel.touch()
    monkeypatch.setattr(installing, "quoted", partial(places.quoted, system="win32"))
    monkeypatch.setattr(installing, "program_name", partial(places.program_name, system="win32"))
    monkeypatch.setattr(installing, "scripts_folder", partial(places.scripts_folder, system="win32"))
    came_from(monkeypatch, {"url": wheel.as_uri(), "archive_info": {}})
    assert pip_install("gpu") == f'pip install "{wheel}[gpu]"'
    pip = tmp_path / "venv" / "Scripts" / "pip.exe"
    pip.parent.mkdir(parents=True)
    pip.touch()
    wheel.unlink()
    assert re.match(r"venv[/\\]Scripts[/\\]pip\.exe install .*\"wgpu>=0\.32\"", pip_install("gpu"))


def test_in_a_clone_it_is_the_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = tmp_path / "my clone"
    clone.mkdir()
    came_from(monkeypatch, {"url": clone.as_uri(), "dir_info": {}})
    assert pip_install("server") == f"pip install {quoted(f'{clone}[server]')}"
    monkeypatch.chdir(clone)
    assert pip_install("server", "--upgrade") == f"pip install --upgrade {quoted('.[server]')}"
    assert pip_reinstall() == "pip install --force-reinstall --no-deps ."
    came_from(monkeypatch, {"url": clone.as_uri(), "dir_info": {"editable": True}})
    assert pip_install("server") == f"pip install -e {quoted('.[server]')}", "what is edited stays in use"
    assert pip_reinstall() == "pip install --force-reinstall --no-deps -e ."


def test_from_a_wheel_it_is_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "edgedec_runtime-0.1.0-py3-none-any.whl"
    wheel.touch()
    came_from(monkeypatch, {"url": wheel.as_uri(), "archive_info": {}})
    assert pip_install("gpu") == f"pip install {quoted(f'{wheel}[gpu]')}"


def test_where_the_source_has_gone_it_is_what_the_extra_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    came_from(monkeypatch, {"url": (tmp_path / "gone.whl").as_uri(), "archive_info": {}})
    command = pip_install("gpu")
    assert command.startswith("pip install ")
    assert "wgpu>=" in command
    assert NAME not in command
    assert "get its clone or wheel again" in pip_reinstall()


def test_from_a_repository_or_an_index_it_is_that(monkeypatch: pytest.MonkeyPatch) -> None:
    came_from(monkeypatch, {"url": "https://git.example/edgedec", "vcs_info": {"vcs": "git"}})
    assert pip_install("gpu") == f"pip install {quoted(f'{NAME}[gpu] @ git+https://git.example/edgedec')}"
    came_from(monkeypatch, None)
    assert pip_install("gpu") == f"pip install {quoted(f'{NAME}[gpu]')}"


def test_the_pip_is_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    came_from(monkeypatch, None)
    pip = scripts_folder() / program_name("pip")
    pip.parent.mkdir(parents=True)
    pip.write_text("#!/bin/sh\n")
    pip.chmod(0o755)
    assert pip_install("gpu") == f"{pip.relative_to(tmp_path)} install {quoted(f'{NAME}[gpu]')}"
    monkeypatch.setenv("PATH", str(pip.parent))
    assert pip_install("gpu") == f"pip install {quoted(f'{NAME}[gpu]')}"
