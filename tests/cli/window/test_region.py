"""Rows that are drawn again leave nothing behind, whatever replaces them, also when the window changes."""

from __future__ import annotations

import random

import pyte
import pytest
from rich.color import ColorSystem
from rich.style import Style
from rich.text import Text
from wcwidth import wcswidth, wcwidth

from edgedec.cli.window.cells import cells
from edgedec.cli.window.region import Region
from edgedec.cli.window.wrap import chopped, wrapped


class Window:
    """A terminal in this process with a region in it."""

    def __init__(self, columns: int = 20, rows: int = 6, colours: ColorSystem | None = None) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=1000, ratio=1)
        self._stream = pyte.Stream(self.screen)
        self.written = ""
        self.region = Region(self._write, lambda: (self.screen.columns, self.screen.lines), colours)

    def _write(self, text: str) -> None:
        self.written += text
        self._stream.feed(text.replace("\n", "\r\n"))

    def draw(self, final: list[str], live: list[str]) -> None:
        self.region.draw([Text(line) for line in final], [Text(line) for line in live])

    def lines(self) -> list[str]:
        rows = [*self.screen.history.top, *(self.screen.buffer[row] for row in range(self.screen.lines))]
        found = ["".join(row[at].data for at in range(self.screen.columns)).rstrip() for row in rows]
        while found and not found[-1]:
            found.pop()
        return found


@pytest.mark.parametrize("seed", range(30))
def test_the_screen_is_the_final_lines_and_the_live_ones(seed: int) -> None:
    chance, window = random.Random(seed), Window()
    printed: list[str] = []
    for _ in range(60):
        words = ["".join(chance.choices("ab c你", k=chance.randint(0, 9))) for _ in range(5)]
        live = words[: chance.randint(0, 5)]
        final = [chance.choice([*live, "x", "", "long " * 9]) for _ in range(chance.randint(0, 3))]
        window.draw(final, live)
        for line in final:
            printed += [line[at : at + 20] for at in range(0, max(len(line), 1), 20)]
        expected = [line.rstrip() for line in [*printed, *live]]
        while expected and not expected[-1]:
            expected.pop()
        assert window.lines() == expected
    window.region.end()


FAMILY, HEART, KEY, FLAG, THUMB = "👨‍👩‍👧", "❤️", "1️⃣", "🇩🇪", "👍🏽"
COMBINED = (FAMILY, HEART, KEY, FLAG, THUMB, "e\u0301", "ａ")  # noqa: RUF001


@pytest.mark.parametrize("seed", range(20))
def test_rows_with_combined_emoji_stand_there_once_whether_a_terminal_combines_them_or_not(seed: int) -> None:
    chance, window = random.Random(seed), Window(columns=20, rows=8)
    text = ""
    for _ in range(12):
        text += chance.choice([*COMBINED, "word ", "x", " "])
        rows = [row for _, row in wrapped(Text(text), window.region.width)]
        for row in rows:
            assert cells(row.plain) >= max(
                wcswidth(row.plain), sum(max(wcwidth(one), 0) for one in row.plain)
            )
            assert cells(row.plain) <= window.region.width
        window.region.draw([], rows[-6:])
        # The emulator draws each part by itself, and joins those without a width to the one before.
        assert window.screen.cursor.y == len(rows[-6:]) - 1
    parts = "".join(row.plain for _, row in wrapped(Text(text), 19))
    assert parts.replace(" ", "") == text.replace(" ", ""), "no cluster is torn apart or lost"


@pytest.mark.parametrize("cluster", COMBINED)
def test_no_cluster_is_torn_apart(cluster: str) -> None:
    text = Text(cluster * 9)
    for rows in (chopped(text, 8), [row for _, row in wrapped(text, 8)]):
        assert "".join(row.plain for row in rows) == cluster * 9
        assert all(not row.plain.replace(cluster, "") for row in rows)


def test_text_that_is_added_is_all_that_is_written() -> None:
    window = Window()
    window.draw([], ["Hello"])
    before = len(window.written)
    window.draw([], ["Hello wor"])
    window.draw([], ["Hello world"])
    assert window.written[before:] == " world"


def test_live_lines_are_clipped_to_the_window() -> None:
    window = Window(rows=4)
    window.draw([], [f"row {at}" for at in range(9)])
    assert window.lines() == ["row 6", "row 7", "row 8"]
    window.draw(["done"], [])
    assert window.lines() == ["done"]


def test_a_wide_line_of_code_is_cut_while_it_comes_and_whole_when_it_ends() -> None:
    window = Window()
    window.draw([], ["x" * 30])
    assert window.lines() == ["x" * 19, "x" * 11]
    window.draw(["x" * 30], [])
    assert window.lines() == ["x" * 20, "x" * 10]
    assert "x" * 30 in window.written  # the terminal breaks it, so it is copied as one line


def test_rows_that_a_narrower_window_may_have_broken_are_left_alone() -> None:
    window = Window()
    window.draw(["above"], ["y" * 15])
    window.screen.resize(6, 10)
    assert window.region.resized()
    window.draw([], ["z"])
    assert window.lines()[0] == "above"
    assert window.lines()[-1] == "z"


def test_a_wider_window_changes_nothing() -> None:
    window = Window()
    window.draw(["above"], ["y" * 15])
    window.screen.resize(6, 40)
    assert not window.region.resized()
    window.draw([], ["y" * 15 + "z"])
    assert window.lines() == ["above", "y" * 15 + "z"]


def test_without_colours_only_bold_and_the_like_are_written() -> None:
    window = Window()
    window.region.draw([Text("a", Style(color="red", bold=True))], [])
    assert "\x1b[1ma\x1b[0m\n" in window.written
    coloured = Window(colours=ColorSystem.EIGHT_BIT)
    coloured.region.draw([Text("a", Style(color="color(28)"))], [])
    assert "\x1b[38;5;28ma\x1b[0m\n" in coloured.written
