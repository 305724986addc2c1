"""Streamed Markdown becomes the same lines however it is cut, and nothing of it is lost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from edgedec.cli.window.flow import Flow
from edgedec.cli.window.styles import COLOURS, Styles

CODE = ["import os", "", "def f(x):", '    """Long', '    text"""', "\treturn x  # " + "wide " * 30, "    "]
REPLY = "\n".join(
    [
        "# Title",
        "",
        "Some **bold words that go on over the end of the line until they end** and `code`, *so*.",
        "你好世界、这是一个很长的中文段落、没有空格、需要在窗口的边缘换行。好的。再来一句话、看看它怎样。",
        "Steps:",
        "1. First:",
        "   ```python",
        *(f"   {line}" for line in CODE),
        "   ```",
        "2. Second",
        "   - nested item that is long enough to be wrapped at the window of sixty columns",
        "",
        "> quoted",
        "",
        "| name | value |",
        "|------|------:|",
        "| a | 1 |",
        "| longer **cell** | 22 |",
        "",
        "---",
        r"Formula \( x_1 + y_2 \), 5 * 3 * 2, <b>html</b>, snake_case_name.",
        "```",
        "/* no language",
        "```",
    ]
)


def lines(text: str, width: int = 60, step: int = 10**6, *, colours: bool = True) -> list[Text]:
    flow = Flow(Styles(colours, unicode=True))
    found: list[Text] = []
    for at in range(0, len(text), step):
        flow.push(text[at : at + step])
        found += flow.take(width)[0]
    ready, live = flow.take(width, final=True)
    assert live == []
    return found + ready


def plain(text: str, width: int = 60, step: int = 10**6) -> list[str]:
    return [line.plain for line in lines(text, width, step)]


@pytest.mark.parametrize("step", [1, 2, 3, 5, 17])
@pytest.mark.parametrize("width", [20, 59, 79, 119])
def test_lines_do_not_depend_on_the_pieces(step: int, width: int) -> None:
    assert plain(REPLY, width, step) == plain(REPLY, width)


@pytest.mark.parametrize("width", [59, 79, 119])
def test_code_is_printed_exactly(width: int) -> None:
    shown = plain(REPLY, width, 3)
    at = shown.index("import os")
    assert shown[at : at + len(CODE)] == CODE


@pytest.mark.parametrize("width", [20, 59, 79, 119])
def test_words_are_wrapped_inside_of_the_window(width: int) -> None:
    for line in plain(REPLY, width):
        if line not in CODE:
            assert cell_len(line) <= width
            assert line == line.rstrip()
    assert plain("one two three", 7) == ["one two", "three"]


RULE = "─" * 40


@pytest.mark.parametrize("step", [1, 4, 100])
def test_code_stands_between_two_rules_with_a_blank_line_around_them(step: int) -> None:
    text = "Do:\n```sh\nls\n\ncd\n```\nThen:\n```\nx\n```\n"
    around = ["", RULE, "ls", "", "cd", RULE, ""]
    assert plain(text, 60, step) == ["Do:", *around, "Then:", "", RULE, "x", RULE]
    found = lines(text, 60, step)
    assert all(line.style == Styles(True, unicode=True).dim for line in found if line.plain == RULE)


def test_a_rule_below_code_that_was_cut_comes_once_more_when_the_code_has_ended() -> None:
    flow = Flow(Styles(colours=True, unicode=True))
    flow.push("```\na\n```\n")
    flow.skip(60)
    flow.push("Text")
    assert [line.plain for line in flow.take(60, final=True)[0]] == ["", "Text"]
    flow = Flow(Styles(colours=True, unicode=True))
    flow.push("```\na\n")
    flow.skip(60)
    flow.push("b\n```\n")
    assert [line.plain for line in flow.take(60, final=True)[0]] == ["b", RULE]


def test_a_full_stop_does_not_begin_a_line() -> None:
    assert plain("你好世界。好的", 8) == ["你好世", "界。好的"]


def test_a_word_that_is_wider_than_the_window_is_cut() -> None:
    assert plain("a " + "x" * 25, 10) == ["a", "x" * 10, "x" * 10, "x" * 5]


def test_markup_gives_styles_and_disappears() -> None:
    (line,) = lines("a **b** *c* `d` ~~e~~ [f](http://g/)")
    assert line.plain == "a b c d e f (http://g/)"
    (link,) = lines("<http://g/>")
    assert link.plain == "http://g/"
    assert all(getattr(span.style, "link", None) is None for span in line.spans)


def test_without_colours_code_keeps_its_backticks() -> None:
    assert [line.plain for line in lines("use `x`", colours=False)] == ["use `x`"]


def test_bold_is_bold_before_it_ends_and_no_markup_flashes_up() -> None:
    flow = Flow(Styles(colours=True, unicode=True))
    flow.push("A **bold wo")
    ((line,),) = [flow.take(60)[1]]
    assert line.plain == "A bold wo"
    for cut in ("#", "1.", "-", "``", "|"):
        flow = Flow(Styles(colours=True, unicode=True))
        flow.push(f"Text\n{cut}")
        assert [line.plain for line in flow.take(60)[1]] == ["Text"]


def test_a_paragraph_is_printed_while_it_grows() -> None:
    flow = Flow(Styles(colours=True, unicode=True))
    flow.push("word " * 100)
    ready, live = flow.take(60)
    assert (len(ready), len(live)) == (8, 1)


@pytest.mark.parametrize(
    "hostile",
    ["\x1b]8;;http://e/\x07x", "\x1b[2J", "&#27;[2J&#x9b;2J", "`\x1b[31m`", "```\n\x1b[2J\n```", "\x9b31m"],
)
def test_control_characters_are_harmless_inside_markdown(hostile: str) -> None:
    for line in plain(f"a {hostile} b", 60, 1):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", line)


def test_markup_of_the_library_is_text() -> None:
    assert plain("[bold red]x[/] [link=http://e]y[/link]") == ["[bold red]x[/] [link=http://e]y[/link]"]


MESS = st.text(alphabet="ab *_`~[]()#>-|1.\n\\你\t", max_size=80)


@given(MESS, st.integers(1, 7), st.sampled_from([8, 30, 80]))
def test_no_letter_is_lost_or_doubled(text: str, step: int, width: int) -> None:
    shown = "".join(plain(text, width, step))
    without_fences = re.sub(r"(?m)^([ \t>*\-1.]*)(```|~~~).*$", r"\1", text)
    for letter in "b你":
        if text == without_fences and "(" not in text and "|" not in text:
            assert shown.count(letter) == text.count(letter)


@pytest.mark.parametrize("colour", COLOURS.values(), ids=COLOURS)
def test_colours_can_be_read_on_black_and_on_white(colour: int) -> None:
    from rich.color import Color

    parts = [part / 255 for part in Color.from_ansi(colour).get_truecolor()]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    luminance = sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    assert 1.05 / (luminance + 0.05) > 3.5
    assert (luminance + 0.05) / 0.05 > 3.5


def test_a_long_reply_is_drawn_in_time() -> None:
    """Blocks that are complete are not parsed again."""
    import time

    flow, begun = Flow(Styles(colours=True, unicode=True)), time.process_time()
    for _ in range(200):
        flow.push("A paragraph of some words with **bold** ones.\n\n")
        flow.take(60)
    assert time.process_time() - begun < 4.0
