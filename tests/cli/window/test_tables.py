"""Tables of replies: no word is broken that fits the window."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from edgedec.cli.window.flow import Flow
from edgedec.cli.window.styles import Styles

TABLE = """| River | Length in kilometres | Countries that it flows through | Sea |
|:--|--:|---|---|
| Danube | 2850 | Germany, Austria, Hungary, Serbia, Romania | Black Sea |
| Rhine | 1230 | Switzerland, Germany, Netherlands | North Sea |
"""


def shown(source: str, width: int) -> list[str]:
    flow = Flow(Styles(colours=False, unicode=True))
    flow.push(source)
    return [line.plain for line in flow.take(width, final=True)[0]]


@pytest.mark.parametrize("width", [20, 39, 50, 60, 79, 119])
def test_words_stay_whole_at_any_width(width: int) -> None:
    lines = shown(TABLE, width)
    assert max(map(cell_len, lines)) <= width
    words = " ".join(lines).split()
    for word in ("Netherlands", "Switzerland,", "Danube", "2850"):
        assert word in words
    assert any(word.startswith("kilometres") for word in words)


def test_columns_that_do_not_fit_are_stacked_by_row() -> None:
    assert shown(TABLE, 39) == [
        "River: Danube",
        "Length in kilometres: 2850",
        "Countries that it flows through:",
        "  Germany, Austria, Hungary, Serbia,",
        "  Romania",
        "Sea: Black Sea",
        "",
        "River: Rhine",
        "Length in kilometres: 1230",
        "Countries that it flows through:",
        "  Switzerland, Germany, Netherlands",
        "Sea: North Sea",
    ]


def test_short_columns_are_not_wrapped_for_a_long_one() -> None:
    header, rule, *rows = shown(TABLE, 79)
    assert header == "River    Length in kilometres   Countries that it flows through       Sea"
    assert set(rule) == {"─"}
    assert rows[0].endswith("Black Sea")
    assert all(row[:30].strip().endswith(("2850", "1230")) for row in rows if not row.startswith(" "))


def test_wide_characters_count_as_two() -> None:
    lines = shown("| 名前 | x |\n|---|---|\n| 你好世界 | long words here |\n", 18)
    assert max(map(cell_len, lines)) <= 18
    assert "".join(lines).replace(" ", "").count("你") == 1


def test_a_table_in_a_fence_of_markdown_is_a_table() -> None:
    for language in ("markdown", "md", "Markdown"):
        fenced = f"Here it is:\n\n```{language}\n# Rivers\n\n{TABLE}```\n\nThat is *all*."
        lines = shown(fenced, 119)
        assert lines[:3] == ["Here it is:", "", "Rivers"]
        assert shown(TABLE, 119)[0] in lines
        assert lines[-2:] == ["", "That is all."]
        assert not [line for line in lines if "|" in line or "`" in line]


def test_a_fence_of_markdown_streams_to_the_same_lines() -> None:
    inside = f"# Rivers\n\nSome **bold** text.\n\n- an item\n- another\n\n{TABLE}"
    fenced = f"One.\n\n```markdown\n{inside}\n```\n\nEnd."
    flow, lines = Flow(Styles(colours=False, unicode=True)), list[str]()
    for char in fenced:
        flow.push(char)
        lines += [line.plain for line in flow.take(60)[0]]
    lines += [line.plain for line in flow.take(60, final=True)[0]]
    assert lines == shown(fenced, 60)


def test_a_fence_inside_a_fence_of_markdown_is_code() -> None:
    lines = shown("```markdown\n# T\n\n```python\nx = 1\n```\nmore\n```\n", 60)
    assert lines[0] == "T"
    assert "x = 1" in lines
    assert "more" in lines
