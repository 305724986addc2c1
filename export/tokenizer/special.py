"""Finds the special tokens and those that end a turn, and writes them into tokenizer.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgedec.export.tokenizer.vocabulary import CONTROL, UNKNOWN, USER_DEFINED, GgufVocabulary, token_id

# Tokens with which chat models end a turn. Converters often omit eot_token_id; llama.cpp uses names too.
END_OF_TURN = (
    "<|im_end|>",
    "<end_of_turn>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|return|>",
    "<|call|>",
    "<end_of_utterance>",
    "<\uff5cend▁of▁sentence\uff5c>",
    "<turn|>",
)


def eos_ids(metadata: Mapping[str, Any], vocab: GgufVocabulary, default: int | None) -> tuple[int, ...]:
    """Return the ids that end a reply: eos, eot, eom and the tokens of END_OF_TURN, without repeats."""
    eos = token_id(metadata, "eos", len(vocab.tokens))
    candidates = [default if eos is None else eos]
    candidates += [token_id(metadata, name, len(vocab.tokens)) for name in ("eot", "eom")]
    candidates += named_ends({text: i for i, text in enumerate(vocab.tokens)})
    return tuple(dict.fromkeys(i for i in candidates if i is not None and i < len(vocab.tokens)))


def named_ends(ids: Mapping[str, int]) -> list[int]:
    """Return the ids of the tokens of END_OF_TURN; ``ids`` is a vocabulary."""
    names = set(END_OF_TURN)
    if {"<|return|>", "<|call|>"} <= ids.keys():
        # The "harmony" format ends every message with <|end|>, but a reply with <|return|> or <|call|>.
        names.discard("<|end|>")
    return [ids[name] for name in END_OF_TURN if name in names and name in ids]


def added_tokens(vocab: GgufVocabulary, eos: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return the ``added_tokens`` section, with ascending ids.

    - Control and unknown tokens are ``special``: found in text only on request, and decoded to nothing.
    - User-defined tokens are always found.
    - All match the text as written, before any normalisation.
    - A token that ends a turn is special even if its type says otherwise, as in llama.cpp.
    """
    special = set(vocab.of_type(CONTROL, UNKNOWN)) | set(eos)
    chosen = sorted(special | set(vocab.of_type(USER_DEFINED)))
    return [
        {
            "id": i,
            "content": vocab.tokens[i],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": i in special,
        }
        for i in chosen
    ]
