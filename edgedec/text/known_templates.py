"""Templates that are known to be harmless, by the SHA-256 of their UTF-8 text.

Jinja renders them in this process; others take a process of their own, some 20 MB and 0.1 s, where their
program does not do.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

KNOWN_TEMPLATES: Mapping[str, str] = MappingProxyType(
    {
        "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788": "SmolLM2 Instruct",
        "d5495a1e5db0611132a97e46a65dbb64a642a499421228b9c8b93229097fa9a4": "Qwen2.5 Coder Instruct",
        "fcf7a096fe99a48fd9ad2b250bf9237e96e8f48bffec1c7ea4d3f225176cd40e": "ChatML",
        "1e51d5c0fec2f83da1953fb850b7b532b7da02d0dc35f9201e671e0b9a35a123": "Gemma 2 Instruct",
        "ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122": "Llama 3 Instruct",
    }
)
