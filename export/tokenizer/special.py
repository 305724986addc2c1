"""Which tokens are special, which ones end a turn, and how they enter tokenizer.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgedec.export.tokenizer.vocabulary import CONTROL, UNKNOWN, USER_DEFINED, GgufVocabulary, token_id

# Texts by which chat models end a turn. Converters often leave eot_token_id out; llama.cpp goes by name too.
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
    """Ids that end a reply: eos first, then eot, eom and the tokens named in END_OF_TURN, without repeats."""
    eos = token_id(metadata, "eos", len(vocab.tokens))
    candidates = [default if eos is None else eos]
    candidates += [token_id(metadata, name, len(vocab.tokens)) for name in ("eot", "eom")]
    candidates += named_ends({text: i for i, text in enumerate(vocab.tokens)})
    return tuple(dict.fromkeys(i for i in candidates if i is not None and i < len(vocab.tokens)))


def named_ends(ids: Mapping[str, int]) -> list[int]:
    """The tokens named in END_OF_TURN, of a vocabulary text -> id."""
    names = set(END_OF_TURN)
    if {"<|return|>", "<|call|>"} <= ids.keys():
        # The "harmony" format closes every message with <|end|>, the reply only with <|return|> or <|call|>.
        names.discard("<|end|>")
    return [ids[name] for name in END_OF_TURN if name in names and name in ids]


def added_tokens(vocab: GgufVocabulary, eos: tuple[int, ...]) -> list[dict[str, Any]]:
    """The ``added_tokens`` section, ids ascending.

    Control and unknown tokens are ``special``: found in text only when the caller asks for it, silent when
    decoded. User-defined ones are always found. All match the text as written, before any normalisation.
    A token that ends a turn is special whatever its type says, as in llama.cpp.
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
