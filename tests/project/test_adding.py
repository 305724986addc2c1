"""A new command, or a new study of the bench, takes one file and one line.

Drafters and backends show the same in ``tests/draft/test_a_new_drafter.py``, ``tests/backends/test_open.py``.
"""

from __future__ import annotations

import sys
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

from edgedec.cli.app import COMMANDS, app
from edgedec.cli.bench import STUDIES


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


def test_a_study_of_the_bench_is_a_file_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command("coin", short_help="Toss a coin.")
    def coin() -> None:
        """Toss a coin."""
        click.echo("heads")

    monkeypatch.setitem(sys.modules, "edgedec.cli.bench.coin", file_of("edgedec.cli.bench.coin", coin))
    monkeypatch.setitem(STUDIES, "coin", "Toss a coin.")
    assert "Toss a coin." in CliRunner().invoke(app, ["bench", "--help"]).output
    assert CliRunner().invoke(app, ["bench", "coin"]).output == "heads\n"
