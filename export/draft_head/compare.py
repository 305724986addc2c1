"""Compares the table of embeddings that a drafter brings with that of its target."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edgedec.bundle.manifest import WEIGHTS
from edgedec.export.draft_head.installed import PackedRows
from edgedec.export.draft_head.target import embedding_table
from edgedec.export.draft_head.weights import RowReader

_COMPARED = 64
"""Rows by which two tables are compared."""
_ALIKE = 0.15
"""Rows are the same if they differ by less of their length: as much as 4 bits round away."""


def has_targets_table(own: RowReader, bundle: Path) -> bool:
    """Return whether some rows over the whole length of a table are those of the target in ``bundle``.

    They may differ by rounding. The target may have more rows. Raises UnsupportedError.
    """
    table = embedding_table(bundle)
    shape = (table.tiles, table.tile_bytes)
    packed = np.memmap(bundle / WEIGHTS, np.uint8, "r", table.offset, shape)
    theirs = PackedRows(table.format, packed, (table.rows, table.cols))
    if own.shape[1:] != theirs.shape[1:] or own.shape[0] > theirs.shape[0]:
        return False
    for row in np.linspace(0, own.shape[0] - 1, _COMPARED).astype(int).tolist():
        mine, other = own.read(row, row + 1), theirs.read(row, row + 1)
        if not np.linalg.norm(mine - other) <= _ALIKE * np.linalg.norm(other) + 1e-6:
            return False
    return True
