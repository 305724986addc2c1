"""The recorder of terminals shows what a terminal shows, and every kept picture belongs to a scene."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

pytest.importorskip("pty", reason="only Unix has pseudo-terminals")
pyte = pytest.importorskip("pyte", reason="recorded terminals need pyte: pip install -e '.[docs]'")

from docs.record import terminal  # noqa: E402
from docs.record.__main__ import OUTPUT  # noqa: E402
from docs.record.picture import THEMES, svg  # noqa: E402
from docs.record.scenes import CTRL_C, SCENES, Press, Scene, chat  # noqa: E402
from docs.record.terminal import Line, Recording, Screen, record  # noqa: E402
from tests.project.test_docs import refusal  # noqa: E402


def lines_of(written: str, columns: int = 20, rows: int = 4) -> list[Line]:
    screen = Screen(columns, rows, answer=-1)
    pyte.Stream(screen).feed(written)
    return screen.written()


def text_of(lines: list[Line]) -> list[str]:
    return ["".join(line[column].data for column in sorted(line)).rstrip() for line in lines]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in place of the real one; its code is the argument."""
    monkeypatch.setattr(terminal, "program", lambda: [sys.executable, "-c"])


def test_faint_and_coloured_text_reach_the_picture() -> None:
    lines = lines_of("\x1b[2mfaint\x1b[0m \x1b[31mred\x1b[0m \x1b[38;2;1;2;3mrgb\x1b[0m plain")
    light = svg(lines, 20, "title", "light")
    assert "#cf222e" in light, "the red of the light theme"
    assert "#010203" in light
    assert lines[0][0].blink
    assert not lines[0][6].blink
    assert svg(lines, 20, "title", "dark") != light


def test_lines_that_scrolled_away_are_kept_and_empty_ones_at_the_end_are_not() -> None:
    assert text_of(lines_of("".join(f"line {n}\r\n" for n in range(9)))) == [f"line {n}" for n in range(9)]


def test_wide_characters_take_two_columns() -> None:
    lines = lines_of("日本 ok\r\n" + "x" * 20)
    assert text_of(lines)[0] == "日本 ok"
    assert lines[0][5].data == "o"
    assert "日本" in svg(lines, 20, "title", "dark")


def test_a_picture_has_the_width_of_the_terminal_whatever_its_lines() -> None:
    def width(picture: str) -> str:
        return picture.split('viewBox="0 0 ')[1].split()[0]

    short = svg(lines_of("a", 60), 60, "title", "dark")
    assert width(short) == width(svg(lines_of("a" * 60, 60), 60, "title", "dark"))
    assert width(short) != width(svg(lines_of("a", 80), 80, "title", "dark"))


def test_a_command_is_recorded_with_its_name_and_its_output() -> None:
    lines = text_of(record(Scene("version", "edgedec --version"), 60))
    assert lines[0] == "$ edgedec --version"
    assert lines[1].startswith("edgedec, version")


@pytest.mark.usefixtures("told")
def test_the_program_gets_keys_at_their_moments_and_the_size_of_the_terminal() -> None:
    code = (
        "import os, time\n"
        "try:\n  print(os.get_terminal_size())\n"
        "  time.sleep(60)\nexcept KeyboardInterrupt:\n  print('stopped')"
    )
    scene = Scene("x", f"edgedec {shlex.quote(code)}", (Press(CTRL_C, when="columns=50, lines=30"),))
    assert text_of(record(scene, 50))[-1].endswith("^Cstopped")  # Ctrl-C may drop a newline on its way


@pytest.mark.usefixtures("told")
def test_a_program_that_ends_before_its_moment_is_an_error() -> None:
    with pytest.raises(EOFError, match="status 3 before"):
        record(chat("x", "edgedec 'raise SystemExit(3)'", "Hello"), 50)


@pytest.mark.usefixtures("told")
def test_a_program_that_still_runs_is_ended_with_the_recording() -> None:
    recording = Recording("edgedec 'import time; print(1, flush=True); time.sleep(60)'", 50, 10, {})
    recording.wait("1")
    recording.close()
    with pytest.raises(ProcessLookupError):
        os.kill(recording.pid, 0)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_the_command_of_a_scene_is_taken(scene: Scene) -> None:
    assert refusal(shlex.split(scene.command)[1:]) is None


def test_every_scene_has_its_pictures_and_no_picture_is_left_over() -> None:
    kept = {file.name for file in Path(OUTPUT).glob("*.svg")}
    assert kept == {f"{scene.name}-{theme}.svg" for scene in SCENES for theme in THEMES}
