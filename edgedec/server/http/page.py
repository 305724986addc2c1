"""The page: its files as they are, and the Markdown of replies as HTML."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from starlette.requests import Request

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_INDEX = "index.html"
_KINDS = {".js": "text/javascript", ".svg": "image/svg+xml", ".css": "text/css", ".html": "text/html"}


@dataclass(frozen=True, slots=True)
class _File:
    data: bytes
    kind: str


def page_routes() -> list[Route]:
    """Return the routes of the page; a server without its files has none."""
    found = dict(_found(files("edgedec.server") / "page"))

    async def page(request: Request) -> Response:
        name = request.path_params.get("name", _INDEX)
        if name not in found:
            raise HTTPException(404)
        headers = {"content-security-policy": POLICY, "cache-control": "no-cache"}
        return Response(found[name].data, 200, headers, found[name].kind)

    return [Route("/", page), Route("/page/{name:path}", page)] if _INDEX in found else []


def _found(folder: Traversable, before: str = "") -> Iterator[tuple[str, _File]]:
    """Yield the files of a folder by their paths in it; nothing else is ever served."""
    for one in folder.iterdir() if folder.is_dir() else ():
        name = f"{before}{one.name}"
        if one.is_dir():
            yield from _found(one, f"{name}/")
        elif not name.endswith((".py", ".pyc")):
            suffix = f".{name.rpartition('.')[2]}"
            kind = _KINDS.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
            yield name, _File(one.read_bytes(), kind)


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
