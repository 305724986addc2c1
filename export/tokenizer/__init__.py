"""Turns GGUF tokenizer metadata into a ``tokenizer.json`` that gives the same token ids.

bpe.py            byte-level BPE
pretokenizers.py  the word-splitting rules of byte-level BPE, by name
spm.py            SentencePiece BPE with byte fallback
special.py        added tokens and the ids that end a turn
control.py        which added tokens are control tokens, whatever their source says
families.py       facts about the tokens of some models that metadata do not state
vocabulary.py     reads and checks the metadata
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from edgedec.bundle.manifest import TokenizerInfo
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.tokenizer.bpe import bpe_sections
from edgedec.export.tokenizer.control import mark_control_tokens
from edgedec.export.tokenizer.pretokenizers import find_pre_tokenizer
from edgedec.export.tokenizer.special import added_tokens, eos_ids
from edgedec.export.tokenizer.spm import spm_sections
from edgedec.export.tokenizer.vocabulary import PREFIX, GgufVocabulary, read_vocabulary, token_id
from edgedec.text.template import without_bom

__all__ = ["build_tokenizer", "template_of"]

# llama.cpp's defaults for SentencePiece models, for settings that the file leaves out.
_SPM_UNKNOWN, _SPM_BOS, _SPM_EOS = 0, 1, 2
_RANKED = "gemma4"
_TEMPLATE = "tokenizer.chat_template"
_INFILL = (("fim_pre", "fim_suf", "fim_mid"), ("prefix", "suffix", "middle"))
"""Names of tokens around a gap, of new files and of old ones."""


def build_tokenizer(metadata: Mapping[str, Any]) -> tuple[str, TokenizerInfo]:
    """Return a tokenizer.json (format of the ``tokenizers`` library) and the facts that it leaves out.

    ``metadata`` holds the GGUF key-values, with strings decoded and arrays as lists. Raises UnsupportedError
    for another kind of tokenizer or pre-tokenizer, BadFileError for missing or inconsistent arrays.
    """
    model = metadata.get(f"{PREFIX}model")
    if model == "gpt2":
        return _build_bpe(metadata)
    if model in ("llama", _RANKED):
        return _build_spm(metadata, ranked=model == _RANKED)
    hint = "supported: gpt2 (byte-level BPE), llama (SentencePiece), gemma4 (the same with ranked merges)"
    raise UnsupportedError(f"tokenizer of kind {model!r}", hint=hint)


def template_of(metadata: Mapping[str, Any]) -> str | None:
    """Return the chat template: the one without a name, else the first of those that have one.

    None for a base model. Raises BadFileError for one that is not UTF-8.
    """
    named = sorted(key for key in metadata if key.startswith(f"{_TEMPLATE}."))
    found = next((metadata[key] for key in (_TEMPLATE, *named) if metadata.get(key)), None)
    if isinstance(found, bytes):
        raise BadFileError(f"{_TEMPLATE} is not UTF-8")
    return without_bom(found) or None if isinstance(found, str) else None


def _build_bpe(metadata: Mapping[str, Any]) -> tuple[str, TokenizerInfo]:
    rule = find_pre_tokenizer(_name(metadata.get(f"{PREFIX}pre")))
    vocab = read_vocabulary(metadata)
    sections = bpe_sections(vocab, rule)
    bos = token_id(metadata, "bos", len(vocab.tokens))
    return _finish(metadata, vocab, sections, _Ids("bpe", bos, rule.add_bos, None))


def _name(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise BadFileError(f"{PREFIX}pre is not a name")
    return value


def _build_spm(metadata: Mapping[str, Any], *, ranked: bool) -> tuple[str, TokenizerInfo]:
    vocab = read_vocabulary(metadata)
    size = len(vocab.tokens)
    unknown = token_id(metadata, "unknown", size)
    sections = spm_sections(
        vocab,
        add_space_prefix=bool(metadata.get(f"{PREFIX}add_space_prefix", not ranked)),
        unknown=min(_SPM_UNKNOWN, size - 1) if unknown is None else unknown,
        ranked=ranked,
    )
    bos = token_id(metadata, "bos", size)
    if ranked:
        return _finish(metadata, vocab, sections, _Ids("spm", bos, True, None))
    if bos is None:
        bos = _SPM_BOS if size > _SPM_BOS else None
    return _finish(metadata, vocab, sections, _Ids("spm", bos, True, _SPM_EOS))


@dataclass(frozen=True, slots=True)
class _Ids:
    """Defaults for the token ids at both ends of a text."""

    kind: Literal["bpe", "spm"]
    bos: int | None
    add_bos: bool
    eos: int | None


def _finish(
    metadata: Mapping[str, Any], vocab: GgufVocabulary, sections: Mapping[str, Any], ids: _Ids
) -> tuple[str, TokenizerInfo]:
    ends = eos_ids(metadata, vocab, ids.eos)
    template = template_of(metadata)
    around = [id for id in (ids.bos, *ends[:1]) if id is not None]
    added = added_tokens(vocab, ends, template)
    mark_control_tokens(added, template, *(vocab.tokens[id] for id in around[:2]))
    document = {"version": "1.0", "added_tokens": added, **sections}
    # No escapes and no spaces keep the file small: the vocabulary is most of it.
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    info = TokenizerInfo(
        add_bos=ids.bos is not None and bool(metadata.get(f"{PREFIX}add_bos_token", ids.add_bos)),
        bos_id=ids.bos,
        eos_ids=ends,
        kind=ids.kind,
        chat_template=bool(template),
        infill=_infill(metadata, len(vocab.tokens)),
    )
    return text, info


def _infill(metadata: Mapping[str, Any], size: int) -> tuple[int, ...]:
    """Return the tokens that a file names around a gap and for it, by new keys or old ones; () for none."""
    for names in _INFILL:
        ids = [token_id(metadata, name, size) for name in names]
        found = tuple(id for id in ids if id is not None)
        if len(found) == len(names):
            return found
    return ()
