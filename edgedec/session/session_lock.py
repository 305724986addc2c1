"""One process at a time keeps a conversation in a file: a second one would overwrite turns of the first."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgedec.core.errors import UsageError
from edgedec.disk.locks import claimed
from edgedec.session.session_file import real_path

_NOTE = re.compile(r"process \d+, since [\d: -]+")
_ours: set[Path] = set()
"""Files that this process keeps."""


@contextmanager
def kept_alone(path: Path) -> Iterator[None]:
    """Keep the conversation in the file ``path``, which nobody else keeps or writes meanwhile.

    Within it this process may enter again. Raises UsageError that says which process has it, StorageError.
    """
    real = real_path(path)
    if real in _ours:
        yield
        return
    note = f"process {os.getpid()}, since {time.strftime('%Y-%m-%d %H:%M')}"
    lock = real.with_name(f"{real.name}.lock")
    with claimed(lock, note, elsewhere="give another file") as holder:
        if holder is not None:
            by = f" ({holder})" if _NOTE.fullmatch(holder) else ""
            raise UsageError(
                f"another chat keeps its conversation in {path}{by}",
                hint="end that one, or give another file",
            )
        _ours.add(real)
        try:
            yield
        finally:
            _ours.discard(real)
