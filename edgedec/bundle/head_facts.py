"""Sizes of a drafting head, as the manifest of its bundle states them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from edgedec.bundle.drafter_manifest import HEAD
from edgedec.bundle.exits import taps_of
from edgedec.bundle.table_facts import TableFacts, check_sizes, layer_spec, sizes_of
from edgedec.core.errors import BadFileError
from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.listed_files import Scalar

GRAPH = "head.onnx"
"""Its graph, with the weights beside it."""
TAPS = 3
"""Layers of the target whose outputs a head reads."""
_WHAT = "the drafting head"
_MOST_LAYERS, _MOST_DIGITS = 1 << 12, 6
_FROM_ZERO = ("table_offset", "tap_size", "own_table")
CONTEXT = 1024
"""Most tokens in its cache."""
LONGEST_PASS = 64
"""Most tokens of its passes."""


@dataclass(frozen=True, slots=True)
class HeadFacts:
    """Numbers only: sizes in elements; ``table_*`` say where the target's embedding table lies.

    The table is read from the target's weights.bin, in place. Raises BadFileError for an impossible number.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    ids: int
    """Ids that the head predicts."""
    head_k: int
    """Entries of each row that the head returns."""
    table_offset: int
    """Bytes before the table in the target's weights."""
    table_tiles: int
    table_tile_bytes: int
    fc_bytes: int
    """Bytes of the matrix that only passes over committed tokens read."""
    head_bytes: int
    """Bytes of the matrix that only passes that predict read."""
    tap_size: int = 0
    """Hidden size of the target, where it is not the head's."""
    own_table: int = 0
    """1 for a head with a table of its own among its weights; ``table_*`` are its sizes then."""
    taps: tuple[int, ...] = ()
    """Layers of the target whose outputs it reads; none: those of ``core.exits.taps_of``."""

    def __post_init__(self) -> None:
        check_sizes(self, _WHAT, zero=_FROM_ZERO)
        if self.taps and (len(self.taps) != TAPS or not 0 <= min(self.taps) <= max(self.taps) < _MOST_LAYERS):
            raise BadFileError(f"{_WHAT} states impossible taps")

    @property
    def table(self) -> TableFacts:
        """The embedding: the target's, or its own among its weights."""
        return TableFacts(self.table_offset, self.table_tiles, self.table_tile_bytes)

    @property
    def width(self) -> int:
        """Numbers of a token's hidden states."""
        return TAPS * (self.tap_size or self.hidden)

    def read_from(self, layers: int) -> tuple[int, ...]:
        """Return the layers that it reads of a target of ``layers`` layers."""
        return self.taps or taps_of(layers)

    def stated(self) -> dict[str, Scalar]:
        """Return them for the manifest."""
        return {**asdict(self), "taps": ",".join(map(str, self.taps))}

    @classmethod
    def of(cls, facts: Mapping[str, object]) -> HeadFacts:
        """Take them from the facts of a manifest. Raises BadFileError for a missing or impossible one."""
        return sizes_of(cls, facts, _WHAT, taps=_layers(facts.get("taps", "")))

    def spec(self, context: int) -> ModelSpec:
        """The head as a model of one layer, whose cache holds ``context`` positions."""
        return layer_spec(self, "drafting head", HEAD, context)


def _layers(text: object) -> tuple[int, ...]:
    parts = text.split(",") if isinstance(text, str) and text else []
    if not isinstance(text, str) or not all(part.isascii() and part.isdecimal() for part in parts):
        raise BadFileError(f"{_WHAT} states impossible taps")
    return tuple(int(part[:_MOST_DIGITS]) for part in parts)
