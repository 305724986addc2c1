"""Shares memory among buffers that are never needed at the same time: one scan over the steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from edgedec.backends.gpu.program import BufferSize, KernelStep


def share_memory(
    buffers: Mapping[str, BufferSize],
    steps: Sequence[KernelStep],
    nbytes: Callable[[str], int],
    kept: frozenset[str],
) -> dict[str, BufferSize]:
    """Return ``buffers`` with a memory for each. Inputs ("@...") and ``kept`` share none.

    A buffer is needed from the first step that binds it to the last. Values that the head's steps read from
    steps before them are needed until the end: the head's may run again.
    """
    first, last = _lifetimes(steps)
    free: list[tuple[int, int]] = []
    taken: list[tuple[int, str, int]] = []
    sizes: list[int] = []
    found = dict(buffers)
    for name in sorted((one for one in first if one in buffers), key=lambda one: (first[one], -nbytes(one))):
        if name.startswith("@") or name in kept:
            continue
        for end, other, number in [one for one in taken if one[0] < first[name]]:
            taken.remove((end, other, number))
            free.append((sizes[number], number))
        number = _take(free, nbytes(name), sizes)
        taken.append((last[name], name, number))
        found[name] = replace(found[name], memory=number)
    return found


def _lifetimes(steps: Sequence[KernelStep]) -> tuple[dict[str, int], dict[str, int]]:
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    head = next((number for number, step in enumerate(steps) if step.when != "always"), len(steps))
    for number, step in enumerate(steps):
        for name in step.bind:
            first.setdefault(name, number)
            again = step.when != "always" and first[name] < head
            last[name] = len(steps) if again else max(last.get(name, 0), number)
    return first, last


def _take(free: list[tuple[int, int]], nbytes: int, sizes: list[int]) -> int:
    """The free memory that fits best: the smallest that is large enough, else the largest, which grows."""
    if not free:
        sizes.append(nbytes)
        return len(sizes) - 1
    enough = [one for one in free if one[0] >= nbytes]
    chosen = min(enough) if enough else max(free)
    free.remove(chosen)
    sizes[chosen[1]] = max(sizes[chosen[1]], nbytes)
    return chosen[1]
