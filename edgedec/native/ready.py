"""The files that the native engine reads in place of a parser: made where they are missing or old."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from edgedec.bundle.manifest import CHAT_TEMPLATE
from edgedec.core.errors import EdgeDecError
from edgedec.text.table_encoder import write_table
from edgedec.text.template_program import keep_program


def make_ready(bundle: Path) -> None:
    """Write the tokenizer's table and the chat template's program, if the bundle has not got them.

    Where they cannot be made or written, the engine says why when it opens the bundle.
    """
    write_table(bundle)
    with suppress(OSError, UnicodeDecodeError, EdgeDecError):
        keep_program(bundle, (bundle / CHAT_TEMPLATE).read_bytes().decode())
