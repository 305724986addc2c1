"""The page: its files as they are, and the Markdown of replies as HTML."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from edgedec.server.http.files import know_kinds

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from starlette.requests import Request

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_INDEX = "index.html"


def page_routes() -> list[Route]:
    """Return the routes of the page; a server without its files has none."""
    folder = Path(str(files("edgedec.server") / "page"))
    if not (folder / _INDEX).is_file():
        return []
    know_kinds()
    static = StaticFiles(directory=folder)

    async def page(request: Request) -> Response:
        answer = await static.get_response(request.path_params.get("name", _INDEX), request.scope)
        answer.headers.update({"content-security-policy": POLICY, "cache-control": "no-cache"})
        return answer

    return [Route("/", page), Route("/page/{name:path}", page)]


def html_of(text: str) -> str:
    """Return Markdown as HTML. HTML within the text stays text."""
    return str(_renderer().render(text))


@cache
def _renderer() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt(
        "commonmark", {"html": False, "linkify": False, "highlight": _highlighted, "maxNesting": 20}
    ).enable(["table", "strikethrough"])


def _highlighted(code: str, language: str, attributes: str) -> str:
    """Return code as HTML with pygments' classes; "" where the language is not known."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return ""
    return str(highlight(code, lexer, HtmlFormatter(nowrap=True)))
