"""Sizes of the layer of a model that predicts further tokens (MTP), as its drafter's manifest states them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from edgedec.bundle.drafter_manifest import MTP
from edgedec.bundle.table_facts import TableFacts, check_sizes, layer_spec, sizes_of
from edgedec.core.errors import BadFileError
from edgedec.core.experts import Experts
from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass

GRAPH = "mtp.onnx"
"""Its graph, with the weights beside it."""
_WHAT = "the MTP drafter"
_OF_EXPERTS = ("experts", "chosen", "expert_width", "expert_bytes")


@dataclass(frozen=True, slots=True)
class MtpFacts:
    """Numbers only: sizes in elements; ``table_*`` and ``head_*`` say where the target's tables lie.

    Both are read from the target's weights.bin, in place. Raises BadFileError for an impossible number.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    ids: int
    """Ids that it predicts: all of the target's."""
    head_k: int
    """Entries of each row that it returns."""
    table_offset: int
    table_tiles: int
    table_tile_bytes: int
    head_offset: int
    head_tiles: int
    head_tile_bytes: int
    experts: int = 0
    """Experts of the layer; 0 of one that has an MLP, also in the next three."""
    chosen: int = 0
    """Experts that a token takes."""
    expert_width: int = 0
    expert_bytes: int = 0
    """Bytes of an expert as it lies in the file."""

    def __post_init__(self) -> None:
        check_sizes(self, _WHAT, zero=("table_offset", "head_offset", *_OF_EXPERTS))
        if not self.chosen <= self.experts or len({getattr(self, name) > 0 for name in _OF_EXPERTS}) > 1:
            raise BadFileError(f"{_WHAT} states experts whose numbers do not fit each other")

    @classmethod
    def of(cls, facts: Mapping[str, object]) -> MtpFacts:
        """Take them from the facts of a manifest. Raises BadFileError for a missing or impossible one."""
        return sizes_of(cls, facts, _WHAT)

    @property
    def table(self) -> TableFacts:
        """The target's embedding."""
        return TableFacts(self.table_offset, self.table_tiles, self.table_tile_bytes)

    @property
    def head(self) -> TableFacts:
        """The target's head."""
        return TableFacts(self.head_offset, self.head_tiles, self.head_tile_bytes)

    def spec(self, context: int) -> ModelSpec:
        """The drafter as a model of one layer, whose cache holds ``context`` positions."""
        spec = layer_spec(self, "MTP layer", MTP, context)
        if not self.experts:
            return spec
        sizes = (self.experts, self.chosen, self.expert_width, self.expert_bytes)
        return replace(spec, experts=Experts(1, *sizes, self.experts * self.expert_bytes))
