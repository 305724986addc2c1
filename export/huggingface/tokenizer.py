"""Reads the tokenizer of a Hugging Face model, and the facts about it that EdgeDec needs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from edgedec.bundle.manifest import CHAT_TEMPLATE, TOKENIZER, TokenizerInfo
from edgedec.core.errors import BadFileError, EdgeDecError, UnsupportedError
from edgedec.export.huggingface.files import read_object, read_text
from edgedec.export.model_card import generation_preset
from edgedec.export.texts import TextFiles
from edgedec.export.tokenizer.control import mark_control_tokens
from edgedec.export.tokenizer.special import named_ends
from edgedec.text.encoder import LibraryEncoder
from edgedec.text.template import without_bom
from edgedec.text.tokenizer_guard import check_steps

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CONFIG, GENERATION, TOKENIZER_CONFIG = "config.json", "generation_config.json", "tokenizer_config.json"
TEMPLATE_JSON = "chat_template.json"
_AGAIN = "download the model again"
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


def read_tokenizer(directory: Path, vocab: int) -> TextFiles:
    """Read and check the tokenizer, the chat template and the preset.

    Raises BadFileError or UnsupportedError, also for a token id outside the model's vocabulary.
    """
    text = _read(directory)
    backend = _parse(text)
    document = json.loads(text)
    ids = backend.get_vocab(with_added_tokens=True)
    if (most := max(ids.values(), default=0)) >= vocab:
        raise BadFileError(f"{TOKENIZER} has a token with id {most}, the model {vocab} tokens", hint=_AGAIN)
    template = _template(directory)
    options = read_object(directory / TOKENIZER_CONFIG)
    configs = [read_object(directory / name) for name in (GENERATION, CONFIG)]
    bos = next(iter(_special("bos", options, configs, ids)), None)
    ends = [*_special("eos", options, configs, ids), *named_ends(ids)]
    info = TokenizerInfo(
        add_bos=bos is not None and _adds(bos, options, backend),
        bos_id=bos,
        eos_ids=tuple(dict.fromkeys(ends)),
        kind=_kind(document.get("decoder")),
        chat_template=template is not None,
    )
    return TextFiles(
        _as_used(document, text, options, template), info, template, generation_preset(configs[0], GENERATION)
    )


def _as_used(document: dict[str, Any], text: str, options: Mapping[str, Any], template: str | None) -> str:
    """Return tokenizer.json as transformers uses it, and with its control tokens marked as such.

    It has no settings of a training run, and the flags of added tokens that tokenizer_config.json states.
    """
    added = [{**token} for token in document.get("added_tokens") or []]
    stated = options.get("added_tokens_decoder")
    decoder: dict[str, Any] = stated if isinstance(stated, dict) else {}
    for token in added:
        other = decoder.get(str(token["id"]))
        if isinstance(other, dict) and other.get("content") == token["content"]:
            token.update({flag: other[flag] for flag in _FLAGS if isinstance(other.get(flag), bool)})
    mark_control_tokens(added, template)
    used = {**document, "added_tokens": added} if added else dict(document)
    used |= {name: None for name in ("padding", "truncation") if document.get(name)}
    return text if used == document else json.dumps(used, ensure_ascii=False, separators=(",", ":"))


def _read(directory: Path) -> str:
    text = read_text(directory / TOKENIZER)
    if text is not None:
        return text
    if (directory / "tokenizer.model").is_file() or (directory / "vocab.json").is_file():
        raise UnsupportedError(
            f"{directory} has no {TOKENIZER}", hint="let transformers write one: tokenizer.save_pretrained"
        )
    raise BadFileError(f"{directory} has no {TOKENIZER}", hint=_AGAIN)


_PROBE = "a \u00e9\u5d72\U0001f600 \x00"
"""Text with which a tokenizer is tried: characters that a small vocabulary has, and some that it lacks."""


def _parse(text: str) -> Tokenizer:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(text)
        check_steps(LibraryEncoder(tokenizer).facts)
        tokenizer.encode(_PROBE)  # some contradictions are found only when it is used
        return tokenizer
    except EdgeDecError:
        raise
    except Exception as error:  # the library raises bare Exception
        raise BadFileError(
            f"{TOKENIZER} is not a valid tokenizer: {str(error)[:100]}", hint=_AGAIN
        ) from error


def _kind(decoder: Any) -> Literal["bpe", "spm"]:
    """Return "bpe" if tokens spell bytes in the alphabet of byte-level BPE, "spm" if as <0xNN>."""
    kinds = set(_types(decoder))
    if "ByteLevel" in kinds:
        return "bpe"
    if "ByteFallback" in kinds:
        return "spm"
    raise UnsupportedError(
        f"{TOKENIZER} decodes neither bytes (ByteLevel) nor with a fall-back to bytes (ByteFallback)"
    )


def _types(decoder: Any) -> Iterator[str]:
    if isinstance(decoder, dict):
        yield str(decoder.get("type"))
        for part in decoder.get("decoders") or []:
            yield from _types(part)


def _special(
    name: str, options: Mapping[str, Any], configs: list[dict[str, Any]], ids: Mapping[str, int]
) -> Iterator[int]:
    """Return the ids of the bos or eos tokens: the tokenizer's own first, then those of other files."""
    own = options.get(f"{name}_token")
    text = own.get("content") if isinstance(own, dict) else own
    if isinstance(text, str) and text in ids:
        yield ids[text]
    elif f"{name}_token" in options and name == "bos":
        return  # null means that there is none
    known = set(ids.values())
    for config in configs:
        value = config.get(f"{name}_token_id")
        for id in value if isinstance(value, list) else [value]:
            if isinstance(id, int) and not isinstance(id, bool) and id in known:
                yield id


def _adds(bos: int, options: Mapping[str, Any], backend: Tokenizer) -> bool:
    """Return whether a prompt begins with bos, by the tokenizer's options, else by its post-processor."""
    option = options.get("add_bos_token")
    return option if isinstance(option, bool) else backend.encode("a").ids[:1] == [bos]


def _template(directory: Path) -> str | None:
    """Return the template file, else the entry of tokenizer_config.json or chat_template.json.

    Of several the one called "default" is taken, else the first. Raises BadFileError for a template that is
    not valid Unicode: JSON can spell half a character.
    """
    if text := read_text(directory / CHAT_TEMPLATE):
        return text
    for name in (TOKENIZER_CONFIG, TEMPLATE_JSON):
        entry = read_object(directory / name).get("chat_template")
        if isinstance(entry, list):
            entry = _chosen([one for one in entry if isinstance(one, dict)])
        if not isinstance(entry, str) or not entry:
            continue
        try:
            entry.encode()
        except UnicodeEncodeError as error:
            raise BadFileError(
                f"the chat template in {name} is not Unicode text (character {error.start})"
            ) from error
        return without_bom(entry)
    return None


def _chosen(named: list[dict[str, Any]]) -> Any:
    first = [one for one in named if one.get("name") == "default"] or named
    return first[0].get("template") if first else None
