"""Reads the small files of a model directory, which are not trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgedec.core.errors import BadFileError, NotFoundError

_MOST_BYTES = 1 << 28
_AGAIN = "download the model again"


def read_bytes(path: Path) -> bytes | None:
    """Return the content of a file, or None if there is no such file. Raises BadFileError."""
    if path.exists() and not path.is_file():  # opening a pipe would block
        raise BadFileError(f"{path.name} is not a file", hint=_AGAIN)
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise BadFileError(f"{path.name} can not be read: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise BadFileError(f"{path.name} is larger than {_MOST_BYTES} bytes", hint=_AGAIN)
    return data


def read_text(path: Path) -> str | None:
    """Return the text of a UTF-8 file, or None if there is no such file. Raises BadFileError.

    A byte order mark, which some editors write, is left out.
    """
    data = read_bytes(path)
    try:
        return None if data is None else data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFileError(f"{path.name} is not UTF-8", hint=_AGAIN) from error


def read_object(path: Path, *, required: bool = False) -> dict[str, Any]:
    """Return a JSON object, or {} for an optional file that does not exist.

    Raises NotFoundError or BadFileError.
    """
    text = read_text(path)
    if text is None:
        if required:
            raise NotFoundError(
                f"{path.parent} has no {path.name}", hint="name a Hugging Face model directory"
            )
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"{path.name} is not JSON", hint=_AGAIN) from error
    if not isinstance(value, dict):
        raise BadFileError(f"{path.name} is not a JSON object", hint=_AGAIN)
    return value
