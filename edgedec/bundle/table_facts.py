"""Numbers in the manifest of a drafter: sizes, and where it finds tables in the weights of its target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar

from edgedec.core.errors import BadFileError
from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass

_MOST = 1 << 31
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A packed table in the target's weights.bin: the bytes before it, its tiles, and the bytes of a tile."""

    offset: int
    tiles: int
    tile_bytes: int

    @property
    def nbytes(self) -> int:
        return self.tiles * self.tile_bytes


def check_sizes(facts: Any, what: str, *, zero: tuple[str, ...] = ()) -> None:
    """Raise BadFileError unless every field of a data class is a size; those in ``zero`` may be 0 or long.

    Lists are left out.
    """
    for name, value in asdict(facts).items():
        if isinstance(value, tuple):
            continue
        free = name in zero
        most = _MOST * 1024 if free else _MOST
        if isinstance(value, bool) or not isinstance(value, int) or not (0 if free else 1) <= value < most:
            raise BadFileError(f"{what} states an impossible {name}")


def sizes_of(kind: type[_T], facts: Mapping[str, object], what: str, **others: Any) -> _T:
    """Make a data class of integers from the facts of a manifest; some have defaults. Raises BadFileError.

    ``others`` are fields that are no integers.
    """
    values = {}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in others:
            continue
        value = facts.get(field.name, field.default)
        if not isinstance(value, int):
            raise BadFileError(f"{what} does not state its {field.name}")
        values[field.name] = value
    return kind(**values, **others)


def layer_spec(facts: Any, name: str, architecture: str, context: int) -> ModelSpec:
    """Return a drafter of these sizes as a model of one layer, whose cache holds ``context`` positions."""
    return ModelSpec(
        name=name,
        architecture=architecture,
        vocab_size=facts.ids,
        n_layers=1,
        n_heads=facts.heads,
        n_kv_heads=facts.kv_heads,
        head_dim=facts.head_dim,
        hidden_size=facts.hidden,
        context_length=context,
        head_k=facts.head_k,
        ffn_size=facts.ffn,
    )
