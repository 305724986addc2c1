"""What all backends share: a model's facts, and a book of what its cache holds."""

from __future__ import annotations

from edgedec.core.forward import Capabilities
from edgedec.core.model_spec import ModelSpec
from edgedec.memory import CacheBook


class Booked:
    """The part of ``Forward`` that is bookkeeping; ``self._book`` is the cache's."""

    def __init__(self, spec: ModelSpec, caps: Capabilities, capacity: int) -> None:
        self._spec = spec
        self._caps = caps
        self._book = CacheBook(capacity)

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    @property
    def caps(self) -> Capabilities:
        return self._caps

    @property
    def capacity(self) -> int:
        """Most tokens the cache can hold."""
        return self._book.capacity

    @property
    def length(self) -> int:
        """See ``Forward.length``."""
        return self._book.length

    def reachable(self, length: int) -> int:
        """See ``Forward.reachable``."""
        return self._book.reachable(length)

    @property
    def resident(self) -> int:
        """See ``Evicting``."""
        return self._book.slots

    @property
    def evicted(self) -> range:
        """See ``Evicting``."""
        return self._book.evicted

    def rewind(self, length: int) -> None:
        """See ``Forward.rewind``."""
        self._book.rewind(length)
