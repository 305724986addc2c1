"""Choices for a bundle for NPUs."""

from __future__ import annotations

from edgedec.core.quick_dataclass import dataclass

LENGTHS = (1, 8, 32)
"""Tokens of passes: a token, a draft, a piece of a prompt."""
CONTEXT = 1024
"""Most tokens of the cache. A pass reads all of it, filled or not."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """Bits of values between ops, and of keys and values in the cache. Weights have 8."""

    values: int = 16
    cache: int = 8

    def __str__(self) -> str:
        return f"a{self.values}w8kv{self.cache}"


DEFAULT_SCHEME = Scheme()


@dataclass(frozen=True, slots=True)
class NpuPlan:
    """The graphs of a bundle, and how they are quantised."""

    text: str | None = None
    """The text on which ranges of values are measured; None: one of the package."""
    lengths: tuple[int, ...] = LENGTHS
    context: int = CONTEXT
    scheme: Scheme = DEFAULT_SCHEME
    compiled: bool = False
    """Whether the graphs are compiled ahead of time for Qualcomm's HTP, too."""
