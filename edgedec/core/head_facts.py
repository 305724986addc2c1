"""Sizes of a drafting head, as the manifest of its bundle states them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from edgedec.core.drafter_manifest import HEAD
from edgedec.core.errors import BadFileError
from edgedec.core.model_spec import ModelSpec

GRAPH = "head.onnx"
"""Its graph, with the weights beside it."""
TAPS = 3
"""Layers of the target whose outputs a head reads."""
_MOST = 1 << 31
CONTEXT = 1024
"""Most tokens in its cache."""
LONGEST_PASS = 64
"""Most tokens of its passes."""
WAITING = 128
"""Most tokens whose hidden states wait until it reads them."""


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

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST * 1024:
                raise BadFileError(f"the drafting head states an impossible {name}")
            if name != "table_offset" and not 1 <= value < _MOST:
                raise BadFileError(f"the drafting head states an impossible {name}")

    @classmethod
    def of(cls, facts: Mapping[str, object]) -> HeadFacts:
        """Take them from the facts of a manifest. Raises BadFileError for a missing or impossible one."""
        values = {}
        for field in fields(cls):
            value = facts.get(field.name)
            if not isinstance(value, int):
                raise BadFileError(f"the drafting head does not state its {field.name}")
            values[field.name] = value
        return cls(**values)

    def spec(self, context: int) -> ModelSpec:
        """The head as a model of one layer, whose cache holds ``context`` positions."""
        return ModelSpec(
            name="drafting head",
            architecture=HEAD,
            vocab_size=self.ids,
            n_layers=1,
            n_heads=self.heads,
            n_kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            hidden_size=self.hidden,
            context_length=context,
            head_k=self.head_k,
            ffn_size=self.ffn,
        )
