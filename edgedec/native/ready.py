"""The files that the native engine reads in place of a parser: made where they are missing or old."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from edgedec.bundle.manifest import CHAT_TEMPLATE
from edgedec.core.errors import EdgeDecError
from edgedec.text.table_encoder import write_table
from edgedec.text.template_program import FILE_NAME, sealed, write_program


def make_ready(bundle: Path) -> None:
    """Write the tokenizer's table and the chat template's program, if the bundle has not got them.

    Where they cannot be made or written, the engine says why when it opens the bundle.
    """
    write_table(bundle)
    with suppress(OSError, EdgeDecError):
        source = (bundle / CHAT_TEMPLATE).read_bytes()
        if not _is_of(bundle / FILE_NAME, source):
            write_program(bundle, source.decode())


def _is_of(program: Path, source: bytes) -> bool:
    """Whether a program is whole, and was made of the template ``source``."""
    try:
        content = program.read_bytes()
        return content == sealed(content, source.decode())
    except (OSError, UnicodeDecodeError):
        return False
