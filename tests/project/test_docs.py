"""Links of the documents resolve, and their command lines are ones that the program takes."""

from __future__ import annotations

import itertools
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from edgedec.cli.app import app
from tests.conftest import ROOT
from tests.project.sources import documents, relative

LINK = re.compile(r"(?:\]\(|(?:src|srcset)=\")([^)\s\"]+)[)\"]")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`]+)`")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
PROGRAM = re.compile(r"(?:\w+=\S+ )*(?:\S*/)?edgedec ")
"""How a command line begins: perhaps variables, perhaps a folder, then the program's name."""
SHELL = re.compile(r"^(?:&&|\|\||[|;<>&()]+)$")


def anchors(document: Path) -> set[str]:
    """Anchors of its headings, as GitHub makes them."""
    headings = HEADING.findall(FENCED.sub("", document.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(document: Path) -> Iterator[str]:
    text = FENCED.sub("", document.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        inside = target.exists() and target.is_relative_to(ROOT)
        if not inside or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            yield link


def command_lines(text: str) -> Iterator[list[str]]:
    """Arguments of every ``edgedec`` command in shell blocks and in code spans."""
    spans = [span.replace("\n", " ") for span in INLINE.findall(FENCED.sub("", text))]
    blocks = [line for kind, body in FENCED.findall(text) if kind in ("sh", "") for line in body.splitlines()]
    shown = [line.removeprefix("$ ") for line in blocks]
    for line in spans + shown:
        if "[OPTIONS]" in line or not re.search(r"\bedgedec\b", line):
            continue  # usage, and other programs
        if line in spans and not PROGRAM.match(line):
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        command: list[str] = []
        for word in [*lexer, ";"]:
            if SHELL.match(word):
                if found := arguments(command):
                    yield found
                command = []
            else:
                command.append(word)


def arguments(command: list[str]) -> list[str]:
    """The words after the program; none where the command is another program's."""
    words = list(itertools.dropwhile(lambda word: re.match(r"\w+=", word), command))  # variables of its own
    return words[1:] if words and words[0].rsplit("/", 1)[-1] == "edgedec" else []


def refusal(words: list[str]) -> str | None:
    """Why the program would not take these arguments; values are checked where they are one of a few."""
    command: click.Command = app
    context = click.Context(app, info_name="edgedec")
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        if found is None:
            return f"no command {rest[0]}"
        command, context = found, click.Context(found, info_name=rest[0], parent=context)
        rest = rest[1:]
    try:
        values, _, _ = command.make_parser(context).parse_args(rest)
    except click.ClickException as error:
        return error.format_message()
    for parameter in command.params:
        if isinstance(parameter.type, click.Choice) and parameter.name in values:
            given = values[parameter.name]
            several = given if isinstance(given, list | tuple) else [given]
            known = [one for one in several if isinstance(one, str) and one.islower()]
            if refused := [one for one in known if one not in parameter.type.choices]:
                return f"{parameter.opts[0]} does not take {refused[0]}"
    return None


@pytest.mark.parametrize("document", documents(), ids=relative)
def test_links_resolve(document: Path) -> None:
    assert list(broken(document)) == []


@pytest.mark.parametrize("document", documents(), ids=relative)
def test_rows_stand_in_tables(document: Path) -> None:
    """Rows that two changes add at one place can end up behind a paragraph."""
    lines = FENCED.sub("", document.read_text(encoding="utf-8")).splitlines()
    runs = itertools.groupby(lines, lambda line: line.startswith("|"))
    blocks = [list(block) for row, block in runs if row]
    lost = [block[0] for block in blocks if len(block) < 2 or not re.match(r"\|[-:| ]+\|$", block[1])]
    assert lost == []


@pytest.mark.parametrize("document", documents(), ids=relative)
def test_command_lines_are_taken(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    refused = {" ".join(words): why for words in command_lines(text) if (why := refusal(words)) is not None}
    assert refused == {}


def test_command_lines_are_found_and_wrong_ones_refused() -> None:
    block = "```sh\nA=1 .venv/bin/edgedec generate -p - < f | edgedec nothing\n```\n"
    text = f"Use `edgedec chat --no-such` or\n{block}"
    found = list(command_lines(text))
    assert found == [["chat", "--no-such"], ["generate", "-p", "-"], ["nothing"]]
    assert [refusal(words) is None for words in found] == [False, True, False]


def test_pictures_load_nothing_from_elsewhere() -> None:
    for picture in (ROOT / "docs").rglob("*.svg"):
        text = picture.read_text(encoding="utf-8")
        assert not re.search(r"(?:href|src)=|url\(['\"]?http|@import", text), picture.name


def test_the_rooms_of_the_architecture_exist() -> None:
    """In its picture, and in its map, which has every layer that the linter checks."""
    picture = (ROOT / "docs/architecture.svg").read_text(encoding="utf-8")
    named = {name for text in re.findall(r'class="room[^>]*>([^<(]*)<', picture) for name in text.split(", ")}
    paths = {name for name in named if not name.startswith(("Chat.", "edgedec export"))}
    missing = {name for name in paths if not any(found_at(name))}
    assert paths
    assert missing == set()
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rooms = re.findall(r"^\| \d* *\| `([^`]+)` \|", page, re.MULTILINE)
    assert [room for room in rooms if not (ROOT / room).exists()] == []
    with (ROOT / "pyproject.toml").open("rb") as file:
        layers = tomllib.load(file)["tool"]["importlinter"]["contracts"][0]["layers"]
    checked = {name.strip(" ()") for layer in layers for name in layer.split("|")}
    assert checked - {room.rstrip("/").rsplit("/")[-1].removesuffix(".py") for room in rooms} == set()


def found_at(name: str) -> Iterator[Path]:
    """Files and folders of that name, in the package or beside it."""
    for start in (ROOT, ROOT / "edgedec"):
        yield from start.glob(name)
        yield from start.glob(f"{name}.py")
