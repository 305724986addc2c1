"""Turns the tokenizer of an encoder's GGUF file into a ``tokenizer.json`` that gives the same token ids."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from edgedec.core.errors import BadFileError
from edgedec.export.tokenizer import build_tokenizer
from edgedec.export.tokenizer.spm import SPACE
from edgedec.export.tokenizer.vocabulary import (
    CONTROL,
    PREFIX,
    UNKNOWN,
    GgufVocabulary,
    read_vocabulary,
    token_id,
)

_BRACKETS = re.compile(r"\[\S+\]")
"""Spelling of control tokens in files whose maker marked no word that looks like one."""
_UNIGRAM_UNKNOWN = 3
_FIRST, _LAST = ("cls", "bos"), ("seperator", "separator", "eos")
"""Names of the tokens at the ends of a text, as files spell them; BERT's first ones come first."""


def encoder_tokenizer(metadata: Mapping[str, Any]) -> str:
    """Return the text of tokenizer.json, which puts the tokens at the ends of texts and pairs.

    Kinds: WordPiece ("bert"), Unigram ("t5"), and those of decoders. Raises BadFileError, UnsupportedError.
    """
    kind = metadata.get(f"{PREFIX}model")
    if kind == "bert":
        document = _word_piece(read_vocabulary(metadata), metadata)
    elif kind == "t5":
        document = _unigram(read_vocabulary(metadata), metadata)
    else:
        text, info = build_tokenizer(metadata)
        document, tokens = json.loads(text), read_vocabulary(metadata).tokens
        first = info.bos_id if info.add_bos else None
        last = token_id(metadata, "eos", len(tokens)) if metadata.get(f"{PREFIX}add_eos_token") else None
        begin, end = ([] if one is None else [(tokens[one], one)] for one in (first, last))
        document["post_processor"] = _ends(begin, end, [])
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _word_piece(vocab: GgufVocabulary, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A word's first token begins with a mark in the file, and others with ## in tokenizer.json."""
    words: dict[str, int] = {}
    for id, text in enumerate(vocab.tokens):
        special = vocab.types[id] in (CONTROL, UNKNOWN) or _BRACKETS.fullmatch(text)
        spelt = text if special else text[1:] if text.startswith(SPACE) else f"##{text}"
        words[f"[DOUBLED_{id}]" if spelt in words or not spelt else spelt] = id
    by_id = {id: text for text, id in words.items()}
    cls, sep = (_named(metadata, by_id, *names) for names in (_FIRST, _LAST))
    unknown = _named(metadata, by_id, "unknown")
    return {
        **_common(by_id, [cls, sep, unknown, *_others(metadata, by_id)]),
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": _ends([cls], [sep], [], types=True),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": unknown[0], "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": words},
    }  # fmt: skip


def _unigram(vocab: GgufVocabulary, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """XLM-RoBERTa: SentencePiece's Unigram, whose normaliser is a table in the file."""
    by_id = dict(enumerate(vocab.tokens))
    if len(vocab.scores) != len(vocab.tokens):
        raise BadFileError(f"{PREFIX}scores is missing")
    table = metadata.get(f"{PREFIX}precompiled_charsmap")
    steps: list[dict[str, Any]] = []
    if isinstance(table, list) and table:
        data = bytes(one % 256 for one in table)
        steps.append({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(data).decode()})
    steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    first, last = (_named(metadata, by_id, *reversed(names)) for names in (_FIRST, _LAST))
    unknown = token_id(metadata, "unknown", len(by_id))
    return {
        **_common(by_id, [first, last, *_others(metadata, by_id)]),
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "WhitespaceSplit"},
            {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True},
        ]},
        "post_processor": _ends([first], [last], [last]),
        "decoder": {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": _UNIGRAM_UNKNOWN if unknown is None else unknown,
                  "vocab": [[text, score] for text, score in zip(vocab.tokens, vocab.scores, strict=True)],
                  "byte_fallback": False},
    }  # fmt: skip


Named = tuple[str, int]
"""A token's text and id."""


def _named(metadata: Mapping[str, Any], by_id: Mapping[int, str], *names: str) -> Named:
    """Return the token that the first of these keys names. Raises BadFileError."""
    for name in names:
        if (found := token_id(metadata, name, len(by_id))) is not None:
            return by_id[found], found
    raise BadFileError(f"the GGUF file lacks {PREFIX}{names[0]}_token_id")


def _others(metadata: Mapping[str, Any], by_id: Mapping[int, str]) -> list[Named]:
    found = (token_id(metadata, name, len(by_id)) for name in ("padding", "mask"))
    return [(by_id[one], one) for one in found if one is not None]


def _common(by_id: Mapping[int, str], special: list[Named]) -> dict[str, Any]:
    added = [
        {"id": id, "content": text, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False}
        for text, id in sorted(dict(special).items(), key=lambda one: one[1])
    ]  # fmt: skip
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added}


def _ends(
    begin: list[Named], end: list[Named], between: list[Named], *, types: bool = False
) -> dict[str, Any]:
    """Return the step that puts tokens at the ends of a text, and of both texts of a pair."""

    def special(tokens: list[Named], kind: int = 0) -> list[dict[str, Any]]:
        return [{"SpecialToken": {"id": text, "type_id": kind}} for text, _ in tokens]

    second = int(types)
    single = [*special(begin), {"Sequence": {"id": "A", "type_id": 0}}, *special(end)]
    other = [*special(between), {"Sequence": {"id": "B", "type_id": second}}, *special(end, second)]
    tokens = {text: {"id": text, "ids": [id], "tokens": [text]} for text, id in [*begin, *end, *between]}
    return {
        "type": "TemplateProcessing", "single": single, "pair": [*single, *other], "special_tokens": tokens,
    }  # fmt: skip
