"""Typed access to the metadata of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgedec.core.errors import BadFileError, UnsupportedError

_MOST = 1 << 24
MOST_LAYERS = 1000


class MetadataKeys:
    """Typed access to ``<architecture>.*`` keys."""

    def __init__(self, architecture: str, metadata: Mapping[str, Any]) -> None:
        self.architecture, self._metadata = architecture, metadata

    def get(self, key: str) -> Any:
        return self._metadata.get(f"{self.architecture}.{key}")

    def size(self, key: str, default: int | None = None, most: int = _MOST) -> int:
        value = self.get(key)
        if value is None:
            value = default
        name = f"{self.architecture}.{key}"
        if value is None:
            raise BadFileError(f"the model's metadata lacks {name}")
        if isinstance(value, list):
            raise UnsupportedError(f"{name} differs between layers, which is not supported")
        if not _is_size(value, most):
            raise BadFileError(f"{name} in the model's metadata is {str(value)[:40]}, not a size")
        return int(value)

    def count(self, key: str) -> int:
        """Return a whole number that may be 0, or absent, which is 0 too."""
        return 0 if self.get(key) in (None, 0) else self.size(key)

    def flag(self, key: str, default: bool) -> bool:
        value = self.get(key)
        if value is not None and not isinstance(value, bool):
            raise BadFileError(
                f"{self.architecture}.{key} in the model's metadata is {str(value)[:40]}, not true or false"
            )
        return default if value is None else value

    def sizes(self, key: str, layers: int) -> tuple[int, ...]:
        """Return a size for each layer: a list of the metadata, or one for all."""
        value = self.get(key)
        if not isinstance(value, list):
            return (self.size(key),) * layers
        if len(value) != layers or not all(_is_size(size, _MOST) for size in value):
            raise BadFileError(f"{self.architecture}.{key} in the model's metadata does not fit the layers")
        return tuple(value)

    def number(self, key: str, default: float | None = None) -> float:
        value = self.get(key)
        if value is None:
            value = default
        name = f"{self.architecture}.{key}"
        if value is None:
            raise BadFileError(f"the model's metadata lacks {name}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e30:
            raise BadFileError(f"{name} in the model's metadata is {str(value)[:40]}, not a positive number")
        return float(value)


def _is_size(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most
