"""Names that people type for encoders, and their files on the hub; other models are in the catalogue."""

from __future__ import annotations

from edgedec.models.recipes import HubFile

ENCODERS = {
    "all-minilm-l6-v2": HubFile(
        "second-state/All-MiniLM-L6-v2-Embedding-GGUF", "all-MiniLM-L6-v2-ggml-model-f16.gguf"
    ),
    "bge-small-en-v1.5": HubFile("ggml-org/bge-small-en-v1.5-Q8_0-GGUF", "bge-small-en-v1.5-q8_0.gguf"),
    "qwen3-embedding-0.6b": HubFile("Qwen/Qwen3-Embedding-0.6B-GGUF", "Qwen3-Embedding-0.6B-Q8_0.gguf"),
    "embeddinggemma-300m": HubFile("ggml-org/embeddinggemma-300M-GGUF", "embeddinggemma-300M-Q8_0.gguf"),
    "nomic-embed-text-v1.5": HubFile(
        "nomic-ai/nomic-embed-text-v1.5-GGUF", "nomic-embed-text-v1.5.Q8_0.gguf"
    ),
    "granite-embedding-english-r2": HubFile(
        "mradermacher/granite-embedding-english-r2-GGUF", "granite-embedding-english-r2.Q8_0.gguf"
    ),
    "gte-reranker-modernbert-base": HubFile(
        "keisuke-miyako/gte-reranker-modernbert-base-gguf-q8_0", "gte-reranker-modernbert-base-Q8_0.gguf"
    ),
    "qwen3-reranker-0.6b": HubFile(
        "ggml-org/Qwen3-Reranker-0.6B-Q8_0-GGUF", "qwen3-reranker-0.6b-q8_0.gguf"
    ),
}
"""The hub states their hashes."""
_OTHERS = {"all-minilm": "all-minilm-l6-v2", "bge-small-en": "bge-small-en-v1.5",
           "embeddinggemma": "embeddinggemma-300m", "qwen3-embedding": "qwen3-embedding-0.6b",
           "nomic-embed-text": "nomic-embed-text-v1.5"}  # fmt: skip
"""Shorter names, and those of other programs."""


def encoder_file(reference: str) -> HubFile | None:
    """Return the file of an encoder that is known by name; None for any other reference.

    >>> encoder_file("EmbeddingGemma:300m").repo
    'ggml-org/embeddinggemma-300M-GGUF'
    """
    name = reference.lower().replace(":latest", "").replace(":", "-", 1)
    return ENCODERS.get(_OTHERS.get(name, name))
