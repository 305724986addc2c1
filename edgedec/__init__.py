"""EdgeDec: exact, memory-bounded language-model decoding on small devices."""

from __future__ import annotations

__version__ = "0.1.0"
__all__ = ["__version__"]
