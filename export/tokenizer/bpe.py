"""Byte-level BPE (``tokenizer.ggml.model`` = gpt2): merges are in the file, in order of rank."""

from __future__ import annotations

from typing import Any

from edgedec.core.errors import BadFileError
from edgedec.export.tokenizer.pretokenizers import PreTokenizer, pre_tokenizer_section
from edgedec.export.tokenizer.vocabulary import UNUSED, GgufVocabulary


def bpe_sections(vocab: GgufVocabulary, rule: PreTokenizer) -> dict[str, Any]:
    """Return the normalizer, pre-tokenizer, decoder and model sections of tokenizer.json.

    Raises BadFileError when a merge uses or makes a token that the vocabulary lacks.
    """
    if not vocab.merges:
        raise BadFileError("tokenizer.ggml.merges is missing: a gpt2 tokenizer cannot work without it")
    ids = vocab.ids
    # If a pair is listed twice, the first counts; the tokenizers library would take the last.
    merges = list(dict.fromkeys(vocab.merges))
    used: set[str] = set()
    for left, right in merges:
        for text in (left, right, left + right):
            if text not in ids:
                raise BadFileError(f"tokenizer.ggml.merges: {left!r} + {right!r}: {text!r} is no token")
            used.add(text)
    # Unused ids (padding of the embedding table) have no text: decoding them gives nothing.
    kept = {t: i for t, i in ids.items() if vocab.types[i] != UNUSED or t in used}
    return {
        "normalizer": {"type": "NFC"} if rule.composes else None,
        "pre_tokenizer": pre_tokenizer_section(rule),
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "unk_token": None,
            "byte_fallback": False,
            "ignore_merges": rule.ignore_merges,
            "vocab": kept,
            "merges": [f"{left} {right}" for left, right in merges],
        },
    }
