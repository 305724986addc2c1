"""Saved sessions: a conversation's messages, its tokens, and the KV cache over them.

``session_file`` has the format of the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgedec.bundle.model_id import ModelId
from edgedec.core.errors import BadFileError, Remedy, UsageError
from edgedec.core.forward import Portable, Sink
from edgedec.core.progress import Notice
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.version import __version__
from edgedec.grammar.spec import GrammarSpec
from edgedec.sampling import DrawParams
from edgedec.session.prompt import Message, Prompt, Unfinished, message_of
from edgedec.session.session_file import FORMAT, VERSION, Stored, open_file, placed, write_file
from edgedec.session.session_lock import kept_alone
from edgedec.text.tokenizer import valid_text

if TYPE_CHECKING:
    from edgedec.session.engine import ReplyEngine


@dataclass(frozen=True, slots=True)
class SavedCache:
    """A KV cache in a file: the slots of ``tokens``, as version ``edgedec`` computed them."""

    layout: str
    edgedec: str
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SavedSession:
    """A conversation as stored. The model has seen ``text`` as ``tokens``; see ``Prompts.seen``."""

    model: ModelId
    params: DrawParams
    messages: tuple[Message, ...]
    text: str
    tokens: tuple[int, ...]
    cache: SavedCache | None = None
    unfinished: Unfinished | None = None


def write_session(path: Path, saved: SavedSession, portable: Portable | None) -> None:
    """Write a conversation to ``path``, with its KV cache out of ``portable``.

    An older file stays until all is written. Raises StorageError, and UsageError for a path that is there and
    no file, or that another process keeps a conversation in.
    """

    def write_cache(sink: Sink) -> None:
        if portable and saved.cache:
            portable.write_cache(sink, len(saved.cache.tokens))

    with kept_alone(placed(path)):
        write_file(path, document_of(saved), write_cache)


def cache_of(portable: Portable, tokens: Sequence[int]) -> SavedCache:
    """Describe the slots of ``tokens``, as a file keeps them."""
    return SavedCache(portable.cache_layout, __version__, tuple(tokens))


_FLAGS = ("cuttable", "thinks")
"""Fields of a form beside its text."""


def document_of(saved: SavedSession) -> dict[str, Any]:
    """Make the document of a file."""
    cut = saved.unfinished
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": asdict(saved.model),
        "params": asdict(saved.params),
        "messages": [message.as_json() for message in saved.messages],
        "text": saved.text,
        "tokens": list(saved.tokens),
        "unfinished": cut and _unfinished_document(cut),
        "cache": saved.cache and asdict(saved.cache),
    }


def _unfinished_document(cut: Unfinished) -> dict[str, Any]:
    document: dict[str, Any] = {"prompt": asdict(cut.prompt), "said": cut.tokens, "shown": cut.shown}
    document |= {} if cut.bound is None else {"bound": cut.bound}
    if cut.form is None:
        return document
    form: dict[str, Any] = {"kind": cut.form.kind, "text": cut.form.text}
    flags: dict[str, Any] = {name: True for name in _FLAGS if getattr(cut.form, name)}
    flags |= {} if cut.form.sampling == "masked" else {"sampling": cut.form.sampling}
    return document | {"form": form | flags}


def read_session(path: Path, engine: ReplyEngine, model: ModelId, notice: Notice) -> SavedSession:
    """Read a conversation, and its KV cache into ``engine``, so that the next reply goes on at once.

    If the KV cache does not match, the next reply recomputes it, and a line to ``notice`` says so.

    Raises the errors of ``open_file``, BadFileError for a document or a KV cache that contradicts itself, and
    UsageError for a conversation with another model. The engine is then unchanged.
    """
    with open_file(path) as stored:
        if "prefix" in stored.document:
            raise BadFileError(f"{path} is a part of a saved prefix, and no conversation")
        saved = _read(path, stored.document)
        if saved.model.sha256 != model.sha256:
            theirs, ours = saved.model.name, _distinct(model, saved.model)
            raise UsageError(
                f"{path} is a conversation with {theirs}, and this is {ours}",
                hint=f"open {theirs}",
                remedy=Remedy("model", theirs),
            )
        if any(token >= engine.home.spec.vocab_size for token in _all_tokens(saved)):
            raise BadFileError(f"{path} holds token ids that {model.name} does not have")
        if saved.cache is not None:
            _restore_cache(path, engine, saved.cache, stored, notice)
        elif stored.body_bytes:
            raise _wrong_size(path)
    return saved


def _all_tokens(saved: SavedSession) -> Iterator[int]:
    yield from saved.tokens
    if saved.cache:
        yield from saved.cache.tokens
    if saved.unfinished:
        yield from (*saved.unfinished.prompt.ids, *saved.unfinished.tokens)


def _restore_cache(
    path: Path, engine: ReplyEngine, cache: SavedCache, stored: Stored, notice: Notice
) -> None:
    if not cache.tokens and not stored.body_bytes:
        return
    if why := _unfit(engine, cache):
        notice(f"note: the cache in {path} {why}; the next reply reads the conversation again")
        return
    assert engine.home.portable is not None
    if stored.body_bytes != engine.home.portable.cache_bytes(len(cache.tokens)):
        raise _wrong_size(path)
    try:
        engine.resume(cache.tokens, stored.body)
    except EOFError as error:  # it had all its bytes when they were hashed
        raise BadFileError(f"{path} changed while it was read") from error


def _wrong_size(path: Path) -> BadFileError:
    return BadFileError(f"{path} is a damaged conversation: its cache has the wrong size")


def _unfit(engine: ReplyEngine, cache: SavedCache) -> str:
    """Say why a KV cache cannot be used here; '' if it can."""
    if engine.home.portable is None:
        return "cannot be used by this backend"
    if cache.layout != engine.home.portable.cache_layout:
        return f"is of kind {cache.layout}, and the one here {engine.home.portable.cache_layout}"
    if len(cache.tokens) > engine.slots:
        return f"has {len(cache.tokens)} tokens, and the context holds {engine.slots}"
    if cache.edgedec != __version__:
        return f"is from EdgeDec {cache.edgedec}, whose bits may differ from those of {__version__}"
    return ""


def _read(path: Path, document: dict[str, Any]) -> SavedSession:
    try:
        return _parse(document)
    except (KeyError, TypeError, ValueError, UsageError) as error:
        raise BadFileError(f"{path} is a damaged conversation: {_reason(error)}") from error


def _parse(document: dict[str, Any]) -> SavedSession:
    model, params = document["model"], document["params"]
    known = {field.name for field in fields(DrawParams)}
    if unknown := sorted(set(params) - known):
        raise ValueError(f"unknown parameter {unknown[0]!r}")
    cache, unfinished = document.get("cache"), document.get("unfinished")
    messages = tuple(_message(item) for item in document["messages"])
    roles = [message.role for message in messages[-2:]]
    if unfinished is not None and roles not in (["user", "assistant"], ["tool", "assistant"]):
        raise ValueError("the reply to continue is no part of it")
    return SavedSession(
        model=ModelId(_text(model["name"]), _text(model["sha256"])),
        params=DrawParams(**params),
        messages=messages,
        text=_text(document["text"]),
        tokens=_tokens(document["tokens"]),
        cache=None if cache is None else _cache(cache),
        unfinished=None if unfinished is None else _unfinished(unfinished),
    )


def _unfinished(item: dict[str, Any]) -> Unfinished:
    prompt = Prompt(_text(item["prompt"]["text"]), list(_tokens(item["prompt"]["ids"])))
    bound = item.get("bound")
    if bound is not None and not (type(bound) is float and math.isfinite(bound)):
        raise ValueError("the state of mirostat is not a number")
    form = item.get("form")
    return Unfinished(
        prompt,
        _tokens(item["said"]),
        _text(item["shown"]),
        bound,
        form and _form(form),
    )


def _form(item: dict[str, Any]) -> GrammarSpec:
    flags: dict[str, Any] = {name: item.get(name) is True for name in _FLAGS}
    sampling = item.get("sampling", "masked")
    return GrammarSpec(item["kind"], _text(item["text"]), **flags, sampling=sampling)


def _cache(item: dict[str, Any]) -> SavedCache:
    return SavedCache(_text(item["layout"]), _text(item["edgedec"]), _tokens(item["tokens"]))


def _tokens(items: list[int]) -> tuple[int, ...]:
    if any(type(token) is not int or token < 0 for token in items):
        raise ValueError("a token id is not a natural number")
    return tuple(items)


def _message(item: dict[str, Any]) -> Message:
    return message_of({**item, "role": _text(item["role"]), "content": _text(item["content"])})


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not text")
    return valid_text(value)


def _reason(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)


def _distinct(model: ModelId, other: ModelId) -> str:
    return f"another build of {model.name}" if model.name == other.name else model.name
