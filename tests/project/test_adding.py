"""A new command takes one file and one line. Drafters and backends show the same beside their rooms:
``tests/draft/test_a_new_drafter.py``, ``tests/backends/test_open.py``.
"""

from __future__ import annotations

import sys
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

from edgedec.cli.app import COMMANDS, app


def file_of(name: str, command: click.Command) -> ModuleType:
    """The one file of a command."""
    module = ModuleType(name)
    module.command = command  # type: ignore[attr-defined]
    return module


def test_a_command_is_a_file_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command("greet", short_help="Greet a model.")
    def greet() -> None:
        """Greet a model."""
        click.echo("hello")

    monkeypatch.setitem(sys.modules, "edgedec.cli.greet", file_of("edgedec.cli.greet", greet))
    monkeypatch.setitem(COMMANDS, "greet", "Greet a model.")
    assert "Greet a model." in CliRunner().invoke(app, ["--help"]).output
    assert CliRunner().invoke(app, ["greet"]).output == "hello\n"
