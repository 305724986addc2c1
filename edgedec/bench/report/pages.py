"""HTML and Markdown of reports and comparisons. The HTML needs no script, no other file and no network."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from edgedec.bench.report.charts import svg
from edgedec.bench.report.views import View
from edgedec.disk.files import atomic_path

HTML, MARKDOWN = "report.html", "report.md"
Parts = Sequence[tuple[str, View]]


def html_of(title: str, lines: Sequence[str], parts: Parts) -> str:
    """Return a whole page. All texts are escaped."""
    return _rendered("page.html.j2", title, lines, parts, escaped=True)


def markdown_of(title: str, lines: Sequence[str], parts: Parts) -> str:
    """Return the same as Markdown, with charts left out: their figures are in the tables and the JSON."""
    return _rendered("page.md.j2", title, lines, parts, escaped=False)


def write_pages(folder: Path, title: str, lines: Sequence[str], parts: Parts) -> None:
    """Write ``report.html`` and ``report.md``. Raises StorageError."""
    for name, text in (
        (HTML, html_of(title, lines, parts)),
        (MARKDOWN, markdown_of(title, lines, parts)),
    ):
        with atomic_path(folder / name) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")


def _rendered(template: str, title: str, lines: Sequence[str], parts: Parts, *, escaped: bool) -> str:
    import jinja2
    from markupsafe import Markup

    source = files("edgedec.bench.report").joinpath(template).read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=escaped, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["cell"] = _cell
    environment.filters["svg"] = lambda chart: Markup(svg(chart))  # its texts are escaped there
    page = environment.from_string(source).render(title=title, lines=lines, parts=parts)
    return page.rstrip("\n") + "\n"


def _cell(text: str) -> str:
    """Return a text that stays within its cell of a Markdown table."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
