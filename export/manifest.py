"""The manifest of a bundle, under the exporter's name (it lives in core: loading needs neither onnx nor
gguf).
"""

from __future__ import annotations

from edgedec.core.manifest import FileEntry, Manifest, TokenizerInfo

__all__ = ["FileEntry", "Manifest", "TokenizerInfo"]
