"""``python -m docs.measure``: tables of the page from results of commands, as many as fit the time."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest

from docs.measure.__main__ import PAGE, measure
from docs.measure.page import excess_words, with_table
from docs.measure.runs import Command, CommandError, Place, Runs, linked_home
from docs.measure.tables import GEMMA, MODELS, QWEN, SMOLLM, TABLES, Given, Results, Table
from edgedec.bench.harness.other_load import OtherLoad
from edgedec.cli.app import app

PLACE = Place("abc1234", "Some CPU", "avx2", 2)
OLD = """# Measured

<!-- table one -->
old one
<!-- end -->

<!-- table two -->
old two
<!-- end -->

End.
"""


@dataclass
class Fake:
    """Commands that take as long as ``minutes`` says, by a clock of their own, and print a number."""

    minutes: dict[str, float] = field(default_factory=dict)
    trouble: dict[str, BaseException] = field(default_factory=dict)
    now: float = 0.0
    ran: list[str] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)

    def run(self, command: list[str], seconds: float) -> str:
        name = command[1]
        self.ran.append(name)
        self.limits.append(seconds)
        self.now += 60 * self.minutes.get(name, 1.0)
        if name in self.trouble:
            raise self.trouble[name]
        return json.dumps({"figure": len(self.ran), "saved": "--save" in command, "last": command[-1]})


def table(name: str, *commands: str, minutes: float = 1.0, lacks: str = "", saves: bool = False) -> Table:
    def rows(results: Results) -> list[list[str]]:
        return [[model, str(found["figure"])] for model, found in results.items()]

    return Table(
        name, name.title(), "Some figures.",
        lambda given: {one: Command((one, "-m", one), minutes, saves) for one in commands},
        ("model", "figure"), rows, lambda given: lacks,
    )  # fmt: skip


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(OLD, encoding="utf-8")
    return path


def runs(tmp_path: Path, fake: Fake, minutes: float = 60.0, place: Place = PLACE) -> Runs:
    quiet = partial(OtherLoad, lambda: None)
    clock = {"clock": lambda: fake.now, "today": lambda: "2026-11-23"}
    return Runs(tmp_path / "kept", place, minutes, fake.run, **clock, others=quiet)  # type: ignore[arg-type]


def measured(page: Path, found: Runs, *tables: Table) -> dict[str, str]:
    return measure(tables, Given(), found, page, lambda line: None)


def test_a_table_is_written_with_its_conditions_and_commands(page: Path, tmp_path: Path) -> None:
    fake = Fake()
    assert measured(page, runs(tmp_path, fake), table("one", "a", "b")) == {}
    text = page.read_text(encoding="utf-8")
    assert "old one" not in text
    assert "old two" in text
    block = text[text.index("<!-- table one -->") : text.index("<!-- end -->")]
    assert "Commit `abc1234`, 2026-11-23, Some CPU (avx2 kernels), 2 cores. Some figures." in block
    assert "|model|figure|\n|---|---|\n|a|1|\n|b|2|" in block
    assert "`edgedec bench a -m MODEL`" in block
    assert text.endswith("End.\n")


def test_other_programs_that_took_the_cores_are_said(page: Path, tmp_path: Path) -> None:
    fake = Fake()
    found = runs(tmp_path, fake)

    class Busy(OtherLoad):
        def share(self, cores: int) -> float:
            return 0.3

    found.others = Busy
    measured(page, found, table("one", "a"))
    said = "2 cores. Other programs took up to 30% of the cores. Some figures."
    assert said in page.read_text(encoding="utf-8")


def test_no_command_begins_that_would_not_end_in_time(page: Path, tmp_path: Path) -> None:
    fake = Fake({"a": 2.0})
    tables = (table("one", "a"), table("two", "b", minutes=5.0), table("three", "c", minutes=1.0))
    left = measured(page, runs(tmp_path, fake, minutes=6.0), *tables)
    assert fake.ran == ["a", "c"]  # the first took twice as long as expected, so b would take ten minutes
    assert left == {"two": "no time for `edgedec bench b -m b`"}
    assert "old two" in page.read_text(encoding="utf-8")


def test_a_table_is_whole_or_stays_as_it_was_and_the_rest_goes_on(page: Path, tmp_path: Path) -> None:
    fake = Fake(trouble={"b": CommandError("no such model")})
    left = measured(page, runs(tmp_path, fake), table("one", "a", "b"), table("two", "c"))
    assert left == {"one": "`edgedec bench b -m b`: no such model"}
    text = page.read_text(encoding="utf-8")
    assert "old one" in text
    assert "old two" not in text


def test_after_a_stop_it_goes_on_where_it_was(page: Path, tmp_path: Path) -> None:
    fake = Fake(trouble={"c": KeyboardInterrupt()})
    tables = (table("one", "a", "b"), table("two", "c", saves=True))
    with pytest.raises(KeyboardInterrupt):
        measured(page, runs(tmp_path, fake), *tables)
    assert "old one" not in page.read_text(encoding="utf-8")  # it was whole
    fake.trouble.clear()
    fake.ran.clear()
    assert measured(page, runs(tmp_path, fake), *tables) == {}
    assert fake.ran == ["c"]
    fake.ran.clear()
    other = replace(PLACE, commit="def5678")
    measured(page, runs(tmp_path, fake, place=other), *tables)
    assert fake.ran == ["a", "b", "c"]
    assert "def5678" in page.read_text(encoding="utf-8")


def test_damaged_results_are_measured_again(page: Path, tmp_path: Path) -> None:
    fake = Fake()
    measured(page, runs(tmp_path, fake), table("one", "a"))
    (kept,) = (tmp_path / "kept").glob("*.json")
    kept.write_text('{"date": 1', encoding="utf-8")
    measured(page, runs(tmp_path, fake), table("one", "a"))
    assert fake.ran == ["a", "a"]


def test_one_command_serves_two_tables(page: Path, tmp_path: Path) -> None:
    fake = Fake()
    measured(page, runs(tmp_path, fake), table("one", "a"), table("two", "a"))
    assert fake.ran == ["a"]


def test_commands_have_a_home_with_the_models_and_without_old_pass_costs(tmp_path: Path) -> None:
    for name in ("models", "costs"):
        (tmp_path / "home" / name).mkdir(parents=True)
    (tmp_path / "home" / "models" / "m").write_text("weights", encoding="utf-8")
    for _ in range(2):
        own = linked_home(tmp_path / "home", tmp_path / "kept")
        assert (own / "models" / "m").read_text(encoding="utf-8") == "weights"
        assert not (own / "costs").exists()


def test_a_table_that_lacks_something_says_what(page: Path, tmp_path: Path) -> None:
    fake = Fake()
    assert measured(page, runs(tmp_path, fake), table("one", "a", lacks="llama.cpp is not installed")) == {
        "one": "llama.cpp is not installed"
    }
    assert not fake.ran


def test_a_table_that_the_page_lacks_is_added_and_one_without_an_end_is_refused(page: Path) -> None:
    assert with_table(OLD, "new", "New", "cells").endswith(
        "End.\n\n## New\n\n<!-- table new -->\ncells\n<!-- end -->\n"
    )
    broken = OLD.replace("old one\n<!-- end -->", "old one")
    with pytest.raises(ValueError, match="the table one has no"):
        with_table(broken, "one", "One", "cells")


def test_words_are_counted_without_marks() -> None:
    assert excess_words("<!-- table one -->\n" + "word " * 2503) == 3
    assert excess_words(OLD) == 0


def test_the_page_has_each_table_at_most_once() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for one in TABLES:
        assert text.count(f"<!-- table {one.name} -->") <= 1
    assert len({one.name for one in TABLES}) == len(TABLES)


def given(folder: Path) -> Given:
    """All that tables can need."""
    questions = folder / "questions.jsonl"
    questions.write_text('{"question_id": 1, "category": "qa", "turns": ["Who?"]}\n', encoding="utf-8")
    return Given(questions, dict.fromkeys(MODELS, folder / "tiny.gguf"), llama=True)


@pytest.mark.parametrize("one", TABLES, ids=lambda one: one.name)
def test_every_command_has_options_that_exist(one: Table, tmp_path: Path) -> None:
    full = given(tmp_path)
    assert one.lacks(full) == ""
    commands = one.commands(full)
    assert commands
    bench = app.get_command(click.Context(app), "bench")
    assert isinstance(bench, click.Group)
    for command in commands.values():
        study = bench.get_command(click.Context(bench), command.arguments[0])
        assert study is not None
        more = ["--save", "f"] if command.saves else []
        study.make_context("study", [*command.arguments[1:], *more, "--json"])


def test_without_files_or_llama_cpp_tables_say_so() -> None:
    reasons = {one.name: one.lacks(Given(llama=False)) for one in TABLES}
    assert reasons["beside"] == "llama.cpp is not installed"
    assert reasons["faithful"].startswith("no GGUF file was named")
    assert {name for name, reason in reasons.items() if reason} == {"beside", "faithful"}


@pytest.mark.slow
def test_every_table_is_made_of_results_of_a_tiny_model(tmp_path: Path) -> None:
    from edgedec.cli.services import Services
    from edgedec.export import export_gguf
    from edgedec.models import Store
    from tests.cli.support import run
    from tests.fixtures.tiny_gguf import TinyShape, write_tiny

    export_gguf(write_tiny(tmp_path / "tiny.gguf", shape=TinyShape(context=2048)), tmp_path / "bundle")
    services = Services(store=lambda: Store(tmp_path / "home"), bandwidth=lambda size, threads: 10.0)

    def tiny(command: list[str], seconds: float) -> str:
        words: list[Any] = [str(tmp_path / "bundle") if word in MODELS else word for word in command]
        result = run(services, *words)
        assert result.exit_code == 0, result.output
        return result.stdout

    page = tmp_path / "page.md"
    page.write_text("# Measured\n", encoding="utf-8")
    found = Runs(tmp_path / "kept", PLACE, 999.0, tiny)
    full = replace(given(tmp_path), llama=False)
    left = measure(TABLES, full, found, page, lambda line: None)
    assert left == {"beside": "llama.cpp is not installed"}
    text = page.read_text(encoding="utf-8")
    for one in TABLES:
        assert (f"<!-- table {one.name} -->" in text) == (one.name not in left)
    for line in (line for line in text.splitlines() if line.startswith("|")):
        assert line.count("|") > 2
    assert {SMOLLM, GEMMA, QWEN} == set(MODELS)
