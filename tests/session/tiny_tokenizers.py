"""Small vocabularies as GGUF metadata, and tokenizers built from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgedec.export.tokenizer import build_tokenizer
from edgedec.session.tokenizer import Tokenizer
from tests.fixtures.tiny_vocab import CHATML, bpe_pieces

CONTROL_TEXTS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def bpe_metadata(**changes: Any) -> dict[str, Any]:
    """Byte-level BPE: three control tokens, a user-defined one, an unused one, bytes and a few words."""
    pieces, merges = bpe_pieces()
    tokens = [*CONTROL_TEXTS, "<tool>", "[PAD4]", *pieces]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3, 3, 4, 5] + [1] * len(pieces),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHATML,
        **{f"tokenizer.ggml.{key}": value for key, value in changes.items()},
    }


def spm_metadata(words: dict[str, float], **changes: Any) -> dict[str, Any]:
    """SentencePiece: control tokens, a user-defined double newline, byte tokens, ``words`` with scores."""
    control = ["<pad>", "<eos>", "<bos>", "<unk>", "<end_of_turn>"]
    tokens = [*control, "\n\n", *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * 5 + [4] + [6] * 256 + [1] * len(words),
        "tokenizer.ggml.scores": [-1000.0] * 6 + [0.0] * 256 + list(words.values()),
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.unknown_token_id": 3,
        "tokenizer.ggml.add_space_prefix": False,
        **{f"tokenizer.ggml.{key}": value for key, value in changes.items()},
    }


def built(directory: Path, metadata: dict[str, Any]) -> Tokenizer:
    """Export the tokenizer into ``directory`` and load it from there."""
    text, info = build_tokenizer(metadata)
    (directory / "tokenizer.json").write_text(text, encoding="utf-8")
    return Tokenizer.load(directory, info)


def texts_of(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    """The vocabulary's spelling of each id."""
    return [tokenizer.token_text(token) for token in ids]
