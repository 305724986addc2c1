"""The decision of a verification."""

from __future__ import annotations

from collections.abc import Collection

from edgedec.core.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """``path``: accepted nodes from the root down. ``tokens``: theirs, and the one the target adds itself."""

    path: tuple[int, ...]
    tokens: tuple[int, ...]

    def until(self, stop_ids: Collection[int], most: int) -> Verdict:
        """Cut behind the first token that is in ``stop_ids``, and to at most ``most`` tokens."""
        if len(self.tokens) <= 1 <= most:
            return self
        ends = (at for at, token in enumerate(self.tokens, 1) if token in stop_ids)
        count = min(next(ends, most), most)
        return self if count >= len(self.tokens) else Verdict(self.path[:count], self.tokens[:count])
