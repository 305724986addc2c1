"""Typed access to the fields of a JSON object, with errors that name the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgedec.core.errors import BadFileError

_MOST = 1 << 24
MOST_LAYERS = 1000


class Fields:
    """A JSON object called ``where`` in messages.

    A value of null counts as absent. All methods raise BadFileError.
    """

    def __init__(self, where: str, data: Mapping[str, Any]) -> None:
        self.where, self.data = where, data

    def size(self, key: str, default: int | None = None, most: int | None = None) -> int:
        """Return a whole number from 1 to ``most``, or any usual size."""
        value = self._value(key, default)
        if not is_size(value, most):
            raise self._wrong(key, value, "a size")
        return int(value)

    @property
    def layers(self) -> int:
        """The number of layers."""
        return self.size("num_hidden_layers", most=MOST_LAYERS)

    def number(self, key: str, default: float | None = None) -> float:
        """Return a finite number of at least 0."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e30:
            raise self._wrong(key, value, "a number from 0 on")
        return float(value)

    def positive(self, key: str, default: float | None = None) -> float:
        """Return a finite number above 0."""
        value = self.number(key, default)
        if value <= 0:
            raise self._wrong(key, value, "above 0")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, value, "a text")
        return value

    def numbers(self, key: str, count: int) -> list[float]:
        """Return a list of ``count`` numbers above 0."""
        value = self._value(key, None)
        if not isinstance(value, list) or len(value) != count:
            raise BadFileError(f"{key} in {self.where} is not a list of {count} numbers")
        return [Fields(f"{key} of {self.where}", {"an entry": entry}).positive("an entry") for entry in value]

    def object(self, key: str) -> Fields:
        """Return a nested object, empty when absent."""
        value = self._value(key, {})
        if not isinstance(value, dict):
            raise self._wrong(key, value, "an object")
        return Fields(f"{key} of {self.where}", value)

    def full(self, key: str) -> str:
        """Return the name that a field has in ``data``."""
        return key

    def _value(self, key: str, default: Any) -> Any:
        value = self.data.get(self.full(key))
        value = default if value is None else value
        if value is None:
            raise BadFileError(f"{self.where} lacks {self.full(key)}", hint="download the model again")
        return value

    def _wrong(self, key: str, value: Any, what: str) -> BadFileError:
        return BadFileError(f"{self.full(key)} in {self.where} is {ascii(value)[:40]}, not {what}")


def is_size(value: object, most: int | None = None) -> bool:
    """Return whether a value is a whole number from 1 to ``most``, or any usual size."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= (most or _MOST)
