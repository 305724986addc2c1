"""The page for browsers: that of the server, with a model in the browser in place of the HTTP interface."""

from __future__ import annotations

import shutil
from importlib.resources import as_file, files
from pathlib import Path

INDEX = "index.html"
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'"
)
"""Sources that the page may load from: its own files, and WebAssembly."""
_POLICY_TAG = f'  <meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
_STYLE = '  <link rel="stylesheet" href="page/css/device.css">\n'
_SCRIPT = '  <script src="page/js/device.js" type="module"></script>\n'
_WORDS = '        <span id="device-words"></span>\n'
_BEFORE = {
    '  <meta name="viewport"': _POLICY_TAG,
    '  <script src="page/js/early.js"': _STYLE,
    "</head>": _SCRIPT,
    '    <symbol id="icon-keys"': "symbols.html",
    '      <button type="button" id="mark"': "button.html",
    '      <p id="notice"': "fetching.html",
    '        <span id="queue">': _WORDS,
    "  <noscript>": "dialog.html",
}
"""Places in the server's page, and what is put before each: text, or a file of ``page/``."""
_LEFT_OUT = " The server's interface is at <code>/v1</code>."


def write_page(directory: Path) -> None:
    """Write ``index.html``, ``page/`` and the modules of ``run/`` into ``directory``. Raises StorageError."""
    own = files("edgedec.export.web")
    with (
        as_file(files("edgedec.server") / "page") as shared,
        as_file(own / "page") as mine,
        as_file(own / "run") as run,
    ):
        shutil.copytree(
            shared, directory / "page", ignore=shutil.ignore_patterns("*.py", "__pycache__", INDEX)
        )
        shutil.copytree(mine, directory / "page", ignore=shutil.ignore_patterns("*.html"), dirs_exist_ok=True)
        shutil.copytree(run, directory / "run")
        text = composed((shared / INDEX).read_text(encoding="utf-8"), mine)
    (directory / INDEX).write_text(text, encoding="utf-8", newline="\n")


def composed(text: str, parts: Path) -> str:
    """Return the server's page with the parts for a model in the browser."""
    for place, added in _BEFORE.items():
        if text.count(place) != 1:
            raise ValueError(f"the server's page has {place!r} not once")
        part = (parts / added).read_text(encoding="utf-8") if added.endswith(".html") else added
        text = text.replace(place, part + place)
    return text.replace(_LEFT_OUT, "")
