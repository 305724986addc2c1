"""Sizes of an assistant of Gemma 4, as the manifest of its bundle states them."""

from __future__ import annotations

from collections.abc import Mapping

from edgedec.bundle.table_facts import TableFacts, check_sizes, sizes_of
from edgedec.core.quick_dataclass import dataclass

GRAPH = "assistant.onnx"
"""Its graph, with the weights beside it."""
_WHAT = "the assistant"


@dataclass(frozen=True, slots=True)
class AssistantFacts:
    """Numbers only: sizes in elements; ``table_*`` say where the target's embedding lies in its weights.bin.

    Raises BadFileError for an impossible number.
    """

    target_hidden: int
    hidden: int
    """Width of its own layers."""
    heads: int
    head_dim: int
    """The greatest of its layers."""
    ffn: int
    ids: int
    """Ids that it knows: all of the target's."""
    scored: int
    """Ids that a step scores."""
    head_k: int
    """Entries of each row that it returns."""
    head_bytes: int
    """Bytes of the table of its head."""
    table_offset: int
    table_tiles: int
    table_tile_bytes: int

    def __post_init__(self) -> None:
        check_sizes(self, _WHAT, zero=("table_offset",))

    @classmethod
    def of(cls, facts: Mapping[str, object]) -> AssistantFacts:
        """Take them from the facts of a manifest. Raises BadFileError for a missing or impossible one."""
        return sizes_of(cls, facts, _WHAT)

    @property
    def table(self) -> TableFacts:
        """The target's embedding."""
        return TableFacts(self.table_offset, self.table_tiles, self.table_tile_bytes)
