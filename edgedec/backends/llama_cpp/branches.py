"""Trees of tokens in llama.cpp's cache.

A cell of that cache holds one token's keys and values, its position, and the set of sequences it belongs to;
a token sees the cells of its own sequence at earlier positions. So every leaf of a tree is a sequence, and a
node belongs to those of the leaves below it. Siblings share a position and no sequence. Tokens resident
before the tree belong to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence


def sequences_of(parents: Sequence[int]) -> list[list[int]]:
    """For each token of a pass the sequences it belongs to, ascending; a chain is [[0], [0], ...].

    ``parents[i]`` is the index of token i's parent, below i, or -1. Leaves are numbered from 0 in the order
    of the pass.
    """
    inner = {parent for parent in parents if parent >= 0}
    members: list[list[int]] = [[] for _ in parents]
    leaves = (node for node in range(len(parents)) if node not in inner)
    for sequence, leaf in enumerate(leaves):
        node = leaf
        while node >= 0:
            members[node].append(sequence)
            node = parents[node]
    return members


def branches(members: Sequence[Sequence[int]]) -> int:
    """How many sequences a pass takes."""
    return 1 + max(sequence for sequences in members for sequence in sequences)
