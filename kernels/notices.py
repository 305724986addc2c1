"""Licences of the libraries that Zig's compiler links into the kernels of wheels and browsers.

``python kernels/notices.py`` prints them, as Zig's package has them, which has to be installed.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

NAME = "NOTICES.txt"
"""Name of the file beside the kernels, and in the folder of a page."""
_PARTS = (
    ("LLVM's C++ library", "lib/libcxx/LICENSE.TXT"),
    ("Zig's compiler runtime", "LICENSE"),
    ("The C library of browsers: wasi-libc", "lib/libc/wasi/LICENSE"),
    ("The C library of browsers: musl, part of wasi-libc", "lib/libc/wasi/libc-top-half/musl/COPYRIGHT"),
    ("The C library of Windows: mingw-w64", "lib/libc/mingw/COPYING"),
)
_HEAD = """EdgeDec is under the Apache License 2.0. Its compiled files contain parts of these libraries,
each under the licence that follows its name.
"""


def text() -> str:
    """Return all licences as one text. Raises ModuleNotFoundError where Zig's package is not installed."""
    found = find_spec("ziglang")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("ziglang, which has the licences of what it links, is not installed")
    folder = Path(found.origin).parent
    licences = [(title, (folder / name).read_text(encoding="utf-8").strip()) for title, name in _PARTS]
    return "\n".join([_HEAD, *(f"{'=' * 80}\n{title}\n\n{licence}\n" for title, licence in licences)])


if __name__ == "__main__":
    sys.stdout.write(text())
