"""The question whether a device gives a token the same bits in every kind of pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgedec.core.rows import FloatArray, Rows

if TYPE_CHECKING:
    from edgedec.backends.npu.forward import NpuForward

_FEWEST = 8


def same_bits(forward: NpuForward, lengths: Sequence[int]) -> bool:
    """Whether logits, keys and values of some tokens have the same bits in passes of all ``lengths``.

    The tokens run in one pass of the greatest length. Then they run again: the first alone, the others in
    other rows of a shorter pass, as a branch of a tree, and the last alone. Integers add up exactly in any
    order, so a device that computes in integers passes; one that adds up floats in an order of its own for
    each length does not. Empties the cache.
    """
    most = lengths[-2] if len(lengths) > 1 else min(_FEWEST, lengths[-1] - 1)
    vocab = forward.spec.vocab_size
    tokens = [(7 + 31 * at) % vocab for at in range(most + 1)]
    forward.rewind(0)
    whole = _logits(forward, tokens)
    kept = _copied(forward)
    forward.rewind(0)
    pieces = [_logits(forward, tokens[:1])]
    if most > 1:
        other = (tokens[1] + 1) % vocab
        tree = _logits(forward, [other, *tokens[1:most]], [-1, -1, *range(1, most - 1)])
        forward.keep_path(range(1, most))
        pieces.append(tree[1:])
    pieces.append(_logits(forward, tokens[most:]))
    alike = all(np.array_equal(a, b) for a, b in zip(_copied(forward), kept, strict=True))
    forward.rewind(0)
    return alike and np.array_equal(np.concatenate(pieces), whole)


def _logits(forward: NpuForward, tokens: Sequence[int], parents: Sequence[int] | None = None) -> FloatArray:
    found = forward.extend(tokens, parents=parents, rows=Rows(full=True)).logits
    assert found is not None
    return found


def _copied(forward: NpuForward) -> list[NDArray[Any]]:
    return [rows.copy() for rows in forward.resident_rows()]
