"""A matrix of vectors as a ``.npy`` file, written a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from edgedec.disk.files import atomic_path, storage_errors

_HEADER_BYTES = 128
"""NumPy's header of version 1.0, which has room for any number of rows."""


class MatrixFile:
    """Rows f32[n, size] of a file that ``matrix_file`` opened."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream, self._size, self.rows = stream, size, 0
        self.finish()

    def add(self, rows: NDArray[np.float32]) -> None:
        """Append rows. Raises OSError."""
        self._stream.write(np.ascontiguousarray(rows, "<f4").tobytes())
        self.rows += len(rows)

    def finish(self) -> None:
        """Write the header for the rows that are there. Raises OSError."""
        facts = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({self.rows}, {self._size}), }}"
        text = facts.ljust(_HEADER_BYTES - 11) + "\n"
        self._stream.seek(0)
        self._stream.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode())
        self._stream.seek(0, 2)


@contextmanager
def matrix_file(path: Path, size: int) -> Iterator[MatrixFile]:
    """Open a file that is there, whole, when the block has ended, and else as it was. Raises StorageError."""
    with atomic_path(path) as temporary, storage_errors(path.name), temporary.open("wb") as stream:
        made = MatrixFile(stream, size)
        yield made
        made.finish()
