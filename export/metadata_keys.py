"""Typed access to the metadata of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.export.fields import Fields, is_size


class MetadataKeys(Fields):
    """Typed access to ``<architecture>.*`` keys."""

    def __init__(self, architecture: str, metadata: Mapping[str, Any]) -> None:
        super().__init__("the model's metadata", metadata)
        self.architecture = architecture

    def full(self, key: str) -> str:
        """Return the name that a key has in the metadata."""
        return f"{self.architecture}.{key}"

    def get(self, key: str) -> Any:
        return self.data.get(self.full(key))

    def size(self, key: str, default: int | None = None, most: int | None = None) -> int:
        """Return a whole number from 1 on. Raises UnsupportedError where layers have one each."""
        if isinstance(self.get(key), list):
            raise UnsupportedError(f"{self.full(key)} differs between layers, which is not supported")
        return super().size(key, default, most)

    def count(self, key: str) -> int:
        """Return a whole number that may be 0, or absent, which is 0 too."""
        return 0 if self.get(key) in (None, 0) else self.size(key)

    def sizes(self, key: str, layers: int) -> tuple[int, ...]:
        """Return a size for each layer: a list of the metadata, or one for all."""
        value = self.get(key)
        if not isinstance(value, list):
            return (self.size(key),) * layers
        if len(value) != layers or not all(map(is_size, value)):
            raise BadFileError(f"{self.full(key)} in the model's metadata does not fit the layers")
        return tuple(value)
