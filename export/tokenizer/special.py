"""Finds the special tokens and those that end a turn, and writes them into tokenizer.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from edgedec.export.tokenizer.control import LOOKS_LIKE_CONTROL
from edgedec.export.tokenizer.families import families_of
from edgedec.export.tokenizer.vocabulary import (
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    GgufVocabulary,
    token_id,
)

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


_MESSAGE_END = "<|end|>"


def eos_ids(metadata: Mapping[str, Any], vocab: GgufVocabulary, default: int | None) -> tuple[int, ...]:
    """Return the ids that end a reply: eos, eot, eom and those with such names, without repeats."""
    eos = token_id(metadata, "eos", len(vocab.tokens))
    candidates = [default if eos is None else eos]
    candidates += [token_id(metadata, name, len(vocab.tokens)) for name in ("eot", "eom")]
    candidates += named_ends(vocab.ids)
    if _in_channels(vocab.ids):  # files may name the end of a message as that of a turn
        candidates = [i for i in candidates if i != vocab.ids.get(_MESSAGE_END)]
    return tuple(dict.fromkeys(i for i in candidates if i is not None and i < len(vocab.tokens)))


def _in_channels(ids: Mapping[str, int]) -> bool:
    """Whether a vocabulary is that of the "harmony" format: <|end|> ends each message, others the reply."""
    return {"<|return|>", "<|call|>"} <= ids.keys()


def named_ends(ids: Mapping[str, int]) -> list[int]:
    """Return the ids of tokens that end a reply by their names; ``ids`` is a vocabulary."""
    names = set(END_OF_TURN)
    if _in_channels(ids):
        names.discard(_MESSAGE_END)
    found = [ids[name] for name in END_OF_TURN if name in names and name in ids]
    return found + [ids[name] for family in families_of(ids) for name in family.ends if name in ids]


def added_tokens(
    vocab: GgufVocabulary, ends: Iterable[int], template: str | None = None
) -> list[dict[str, Any]]:
    """Return the ``added_tokens`` section, with ascending ids.

    - Control and unknown tokens are ``special``: found in text only on request, and decoded to nothing.
    - User-defined tokens are always found.
    - All match the text as written, before any normalisation, with the white space that their family takes.
    - A token of ``ends`` is special even if its type says otherwise, as in llama.cpp. So is one that looks
      like a control token and stands in the chat template.
    """
    special = set(vocab.of_type(CONTROL, UNKNOWN)) | set(ends)
    if template:
        special |= {
            i
            for i in vocab.of_type(NORMAL)
            if LOOKS_LIKE_CONTROL.fullmatch(vocab.tokens[i]) and vocab.tokens[i] in template
        }
    chosen = sorted(special | set(vocab.of_type(USER_DEFINED)))
    families = list(families_of(vocab.ids))
    return [
        {
            "id": i,
            "content": vocab.tokens[i],
            "single_word": False,
            "lstrip": any(vocab.tokens[i] in family.lstrip for family in families),
            "rstrip": any(vocab.tokens[i] in family.rstrip for family in families),
            "normalized": False,
            "special": i in special,
        }
        for i in chosen
    ]
