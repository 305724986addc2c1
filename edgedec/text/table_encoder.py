"""Text to ids by a mapped table, without the library that it was made with."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from edgedec.core.errors import BadFileError, EdgeDecError, StorageError, UnsupportedError
from edgedec.disk.files import atomic_path, sha256_of
from edgedec.text.bpe_table import FILE_NAME, BpeTable, available, damaged
from edgedec.text.encoder import LibraryEncoder
from edgedec.text.tokenizer_guard import check_steps

JSON = "tokenizer.json"
Encoder = LibraryEncoder | BpeTable
"""The vocabulary of one ``tokenizer.json``, and its way from text to ids. Several threads may use it."""
_AGAIN = "export or pull the model again"
_OTHER_SHAPES = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""Errors of facts that are none of a table."""


def write_table(bundle: Path) -> None:
    """Make the table of a bundle that is being written, so that no start has to.

    A tokenizer that cannot be opened is left as it is: the start says why.
    """
    with suppress(EdgeDecError):
        open_encoder(bundle)


def tokenizer_form(bundle: Path) -> str:
    """Return in words how the tokenizer of a bundle is held."""
    if not available():
        return "in the tokenizers library: these kernels were built before they read tables"
    if (bundle / FILE_NAME).is_file():
        return "a mapped table"
    return "in the tokenizers library: its kind has no table, or none was made yet"


def reason_for_no_table(bundle: Path) -> str | None:
    """Return why a bundle's tokenizer cannot be a table, with the name of the step; None if it can."""
    from edgedec.text.table_maker import table_of
    from edgedec.text.word_programs import NoTableError

    path = bundle / JSON
    try:
        table_of(path.read_bytes(), _library_encoder(path))
    except NoTableError as error:
        return str(error)
    return None


def open_encoder(bundle: Path, sha256: str | None = None) -> Encoder:
    """Return the encoder of the ``tokenizer.json`` in ``bundle``, by its table where it can have one.

    ``sha256``: the hash of that file, if it is known. A table that is missing, or of another file, is made;
    where it cannot be written the library is used. A bundle for devices has the table alone.
    Raises BadFileError when the file is missing or broken, UnsupportedError when its steps could multiply
    text.
    """
    path = bundle / JSON
    if not path.exists() and (bundle / FILE_NAME).is_file():
        return _only_table(bundle / FILE_NAME)
    try:
        source = bytes.fromhex(sha256 or sha256_of(path))
    except OSError as error:
        raise BadFileError(f"cannot read {path}: {error}", hint=_AGAIN) from error
    if not available():
        return _library_encoder(path)
    if (found := _by_table(bundle / FILE_NAME, source)) is not None:
        return found
    encoder = _library_encoder(path)
    if not _made(path, bundle / FILE_NAME, encoder):
        return encoder
    return _by_table(bundle / FILE_NAME, source) or encoder


def _by_table(path: Path, source: bytes) -> BpeTable | None:
    """Return the encoder of the table of ``source``; None where there is none, or a damaged one."""
    try:
        table = _opened(path)
        return table if table.source == source else None
    except (EdgeDecError, OSError, *_OTHER_SHAPES):
        return None


def _only_table(path: Path) -> BpeTable:
    """Return the encoder of a table without a ``tokenizer.json``. Raises BadFileError, UnsupportedError."""
    if not available():
        raise UnsupportedError(
            "the bundle's tokenizer is a table, which these kernels cannot read", hint="update EdgeDec"
        )
    try:
        return _opened(path)
    except OSError as error:
        raise BadFileError(f"cannot read {path}: {error.strerror}", hint=_AGAIN) from error
    except (BadFileError, *_OTHER_SHAPES) as error:
        raise BadFileError(damaged().message, hint=_AGAIN) from error


def _opened(path: Path) -> BpeTable:
    table = BpeTable(path)
    check_steps(table.facts)
    return table


def _library_encoder(path: Path) -> LibraryEncoder:
    from tokenizers import Tokenizer as Library  # slow import, needed only here

    try:
        encoder = LibraryEncoder(Library.from_buffer(path.read_bytes()))  # a str would take 50 MB more
    except Exception as error:  # the library raises bare Exception
        raise BadFileError(f"{path} is not a valid tokenizer: {error}", hint=_AGAIN) from error
    check_steps(encoder.facts)
    return encoder


def _made(path: Path, table: Path, encoder: LibraryEncoder) -> bool:
    """Write the table of a ``tokenizer.json``; False where its rules or the folder do not allow it."""
    from edgedec.text.table_maker import table_of
    from edgedec.text.word_programs import NoTableError

    try:
        content = table_of(path.read_bytes(), encoder)
        with atomic_path(table) as temporary:
            temporary.write_bytes(content)
    except (NoTableError, StorageError, OSError):
        return False
    return True
