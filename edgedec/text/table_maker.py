"""From a ``tokenizer.json`` to its table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from edgedec.text.added_tokens import AddedToken
from edgedec.text.bpe_table import (
    ADDED,
    ADDS_SPACE,
    BYTE_FALLBACK,
    FUSE_UNKNOWN,
    IN_VOCABULARY,
    LEFT_STRIP,
    NONE,
    NORMALIZED,
    RIGHT_STRIP,
    SPECIAL,
    WHOLE_FIRST,
    TablePart,
    table_bytes,
)
from edgedec.text.encoder import LibraryEncoder
from edgedec.text.table_rules import rules_of
from edgedec.text.word_programs import NoTableError

_FIRST_BYTES = np.arange(257)


def table_of(content: bytes, encoder: LibraryEncoder) -> bytes:
    """Return the table of the ``tokenizer.json`` that ``encoder`` was made of.

    Raises NoTableError for rules that a table does not have: another model than BPE, dropout, prefixes and
    suffixes of words, added tokens that are whole words, vocabularies that spell two tokens alike, and steps
    that ``table_rules`` does not know.
    """
    document = json.loads(content)
    model = document["model"]
    _check(document, encoder)
    vocab: dict[str, int] = model.get("vocab") or {}
    ids = max([-1, *vocab.values(), *encoder.added]) + 1
    spelled = {id: text for text, id in vocab.items()} | {
        id: one.content for id, one in encoder.added.items()
    }
    _need(_plain_ids(vocab, ids, encoder), "some ids have two spellings, or few are used")
    _need(
        len(set(spelled.values())) == len(spelled) and "" not in vocab, "two of its tokens are spelled alike"
    )
    patterns = _patterns(encoder)
    flags = (
        BYTE_FALLBACK * encoder.facts.byte_fallback
        | FUSE_UNKNOWN * bool(model.get("fuse_unk"))
        | WHOLE_FIRST * bool(model.get("ignore_merges"))
        | ADDS_SPACE * encoder.adds_space
    )
    unknown = NONE if encoder.facts.unk_token is None else vocab[encoder.facts.unk_token]
    rules = rules_of(encoder.facts)
    parts = _spellings(spelled, ids) | _merges(model.get("merges") or [], vocab, ids) | patterns | rules
    parts[TablePart.KINDS] = _kinds(vocab, encoder.added, ids)
    chars = sorted((ord(text), id) for text, id in vocab.items() if len(text) == 1)
    parts[TablePart.CHARS] = np.array(chars, np.uint32).tobytes()
    parts[TablePart.BYTE_TOKENS] = np.array([vocab.get(text, NONE) for text in _BYTES], np.uint32).tobytes()
    return table_bytes(encoder.facts, flags, unknown, ids, hashlib.sha256(content).digest(), parts)


_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def _need(holds: bool, otherwise: str) -> None:
    if not holds:
        raise NoTableError(otherwise)


def _check(document: Mapping[str, Any], encoder: LibraryEncoder) -> None:
    facts, model = encoder.facts, document["model"]
    _need(facts.model == "BPE", f"its model is {facts.model}, and not BPE")
    vocab, cutter = model.get("vocab") or {}, facts.pre_tokenizer
    if cutter is not None and '"first"' in json.dumps(cutter):  # the beginning of a text is treated otherwise
        alone = facts.normalizer is None and cutter["type"] == "Metaspace"
        _need(alone, "it has Metaspace at the beginning of a text beside other steps")
    _need(not facts.dropout, "it has dropout")
    _need(not model.get("continuing_subword_prefix"), "it marks the continuation of words")
    _need(not model.get("end_of_word_suffix"), "it marks the ends of words")
    _need(not document.get("truncation") and not document.get("padding"), "it truncates or pads texts")
    _need(facts.unk_token is None or facts.unk_token in vocab, "its unknown token is no token")
    bytes_known = not facts.byte_fallback or all(text in vocab for text in _BYTES)
    _need(bytes_known, "it falls back to bytes that are no tokens")
    _need(
        not any(one.single_word for one in encoder.added.values()), "it has added tokens that are whole words"
    )


def _plain_ids(vocab: Mapping[str, int], ids: int, encoder: LibraryEncoder) -> bool:
    """Whether each id has one spelling, and few are unused."""
    single = len(set(vocab.values())) == len(vocab)
    return single and 0 < ids <= 2 * encoder.size and all(id >= 0 for id in vocab.values())


def _spellings(spelled: Mapping[int, str], ids: int) -> dict[TablePart, bytes]:
    texts = [spelled.get(id, "").encode() for id in range(ids)]
    starts = np.cumsum([0, *map(len, texts)], dtype=np.uint32)
    order = sorted(spelled, key=lambda id: texts[id])
    return {
        TablePart.STARTS: starts.tobytes(),
        TablePart.SPELLINGS: b"".join(texts),
        TablePart.SORTED: np.array(order, np.uint32).tobytes(),
    }


def _kinds(vocab: Mapping[str, int], added: Mapping[int, AddedToken], ids: int) -> bytes:
    kinds = np.zeros(ids, np.uint8)
    kinds[list(vocab.values())] = IN_VOCABULARY
    for id, one in added.items():
        kinds[id] |= ADDED | SPECIAL * one.special | NORMALIZED * one.normalized
        kinds[id] |= LEFT_STRIP * one.lstrip | RIGHT_STRIP * one.rstrip
    return kinds.tobytes()


def _merges(merges: list[Any], vocab: Mapping[str, int], ids: int) -> dict[TablePart, bytes]:
    """Return the merges by left id, each row ascending; of a pair that is there twice the last counts."""
    found = np.empty((len(merges), 4), np.uint32)
    for rank, merge in enumerate(merges):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        found[rank] = vocab[left], vocab[right], rank, vocab[left + right]
    found = found[np.lexsort((found[:, 2], found[:, 1], found[:, 0]))]
    if len(found):
        last = np.append((found[1:, :2] != found[:-1, :2]).any(1), True)
        found = found[last]
    rows = np.searchsorted(found[:, 0], np.arange(ids + 1)).astype(np.uint32)
    return {TablePart.ROWS: rows.tobytes(), TablePart.MERGES: np.ascontiguousarray(found[:, 1:]).tobytes()}


def _patterns(encoder: LibraryEncoder) -> dict[TablePart, bytes]:
    """Return the texts of added tokens. Raises NoTableError where two become alike."""
    normalizer = encoder.library.normalizer
    entries: list[tuple[int, int, int]] = []
    first: list[Any] = []
    texts = bytearray()
    for rewritten in (False, True):
        found = []
        for id, one in encoder.added.items():
            if one.normalized != rewritten or not one.content:
                continue
            text = one.content
            if rewritten and normalizer is not None:
                text = normalizer.normalize_str(text)
            found.append((text.encode(), id))
        _need(len({text for text, _ in found}) == len(found), "its normaliser makes two added tokens alike")
        _need(all(text for text, _ in found), "its normaliser leaves nothing of an added token")
        begins = [text[0] for text, _ in sorted(found)]
        first.append(len(entries) + np.searchsorted(begins, _FIRST_BYTES))
        for spelled, id in sorted(found):
            entries.append((len(texts), len(spelled), id))
            texts += spelled
    return {
        TablePart.PATTERNS: np.array(entries, np.uint32).tobytes(),
        TablePart.PATTERN_TEXT: bytes(texts),
        TablePart.FIRST: np.concatenate(first).astype(np.uint32).tobytes(),
    }
