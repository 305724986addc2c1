"""EdgeDec: exact, memory-bounded language-model decoding on small devices."""

from __future__ import annotations

import os

# Recent builds of ONNX Runtime queue usage data under the user's home and send it to their maker. They read
# this once, when they are imported, which only modules below this one do.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__version__ = "0.1.0"
__all__ = ["__version__"]
