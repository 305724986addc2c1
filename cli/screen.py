"""Model output on its way to the user."""

from __future__ import annotations

import re
import sys

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def show(piece: str) -> None:
    """Write a piece of a reply at once.

    A terminal obeys control characters, and a model can be talked into writing any: on a terminal they are
    left out, all but newline and tab. A pipe gets the text as it is.
    """
    sys.stdout.write(_CONTROL.sub("", piece) if sys.stdout.isatty() else piece)
    sys.stdout.flush()
