"""The draft tree, which drafters propose and verifiers walk: tokens that may follow those committed."""

from __future__ import annotations

from collections.abc import Sequence

from edgedec.core.quick_dataclass import dataclass

ROOT = -1
"""The parent of first tokens: the last committed token."""


@dataclass(frozen=True, slots=True)
class DraftTree:
    """N drafted tokens; ``parents[i]`` is the index of node i's parent, smaller than i, or ``ROOT``.

    ``probs[i]`` is the drafter's estimate, in (0, 1], that the target continues the parent with this token;
    ``sources[i]`` names who drafted it. Siblings may repeat a token (independent drafts do).
    Raises ValueError when lengths differ or a parent does not precede its child.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    probs: tuple[float, ...] = ()
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.tokens) == len(self.parents) == len(self.probs) == len(self.sources):
            raise ValueError("a draft tree needs one parent, probability and source per token")
        for node, parent in enumerate(self.parents):
            if not ROOT <= parent < node:
                raise ValueError(f"parents {self.parents} do not precede their children")

    def __len__(self) -> int:
        return len(self.tokens)

    def first(self, count: int) -> DraftTree:
        """The tree of the first ``count`` nodes."""
        if count >= len(self):
            return self
        return DraftTree(self.tokens[:count], self.parents[:count], self.probs[:count], self.sources[:count])

    def trunk(self) -> DraftTree:
        """The chain of first children."""
        nodes: list[int] = []
        while children := self.children(nodes[-1] if nodes else ROOT):
            nodes.append(children[0])
        if len(nodes) == len(self):
            return self
        return DraftTree(
            tuple(self.tokens[node] for node in nodes),
            tuple(range(ROOT, len(nodes) - 1)),
            tuple(self.probs[node] for node in nodes),
            tuple(self.sources[node] for node in nodes),
        )

    def depths(self) -> list[int]:
        """For each node the number of tokens from the root down to it: 1 for first tokens."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        return depths

    def children(self, node: int) -> list[int]:
        """Indices of the children of ``node`` (or ``ROOT``), in the order of the draft."""
        return [child for child, parent in enumerate(self.parents) if parent == node]

    def child(self, node: int, token: int) -> int | None:
        """The first child of ``node`` that is ``token``."""
        for index, parent in enumerate(self.parents):
            if parent == node and self.tokens[index] == token:
                return index
        return None

    def path(self, node: int) -> tuple[int, ...]:
        """Nodes from the first token down to ``node``; none for ``ROOT``."""
        nodes: list[int] = []
        while node != ROOT:
            nodes.append(node)
            node = self.parents[node]
        return tuple(reversed(nodes))


EMPTY = DraftTree()


def chain(tokens: Sequence[int], probs: Sequence[float], source: str) -> DraftTree:
    """A tree without branches."""
    count = len(tokens)
    return DraftTree(tuple(tokens), tuple(range(ROOT, count - 1)), tuple(probs), (source,) * count)
