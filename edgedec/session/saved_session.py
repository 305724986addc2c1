"""Conversations on disk: what was said, the tokens it was, and the cache over them; see ``state_file``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgedec.core.errors import BadFileError, Remedy, UsageError
from edgedec.core.forward import Sink
from edgedec.core.model_id import ModelId
from edgedec.core.version import __version__
from edgedec.sampling import SamplingParams
from edgedec.session.prompt import ROLES, Message
from edgedec.session.session_file import FORMAT, VERSION, Stored, newer, open_state, write_state
from edgedec.text.tokenizer import valid_text

if TYPE_CHECKING:
    from edgedec.decode.engine import Engine
    from edgedec.session.chat import Chat

Notice = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SavedCache:
    """A cache behind the document: its slots are those of ``tokens``, as ``edgedec`` computed them."""

    layout: str
    edgedec: str
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SavedSession:
    """A conversation as stored. ``text`` and ``tokens`` are what the model has seen, see ``Prompts.seen``."""

    model: ModelId
    params: SamplingParams
    messages: tuple[Message, ...]
    text: str
    tokens: tuple[int, ...]
    cache: SavedCache | None = None


def save_session(path: Path, session: Chat, model: ModelId) -> None:
    """Write conversation and cache to ``path``, replacing it only when all is written.

    Raises StorageError, and UsageError for a path that is there and no file.
    """
    document, portable = document_of(session, model), session.engine.portable

    def write_cache(sink: Sink) -> None:
        if portable and document["cache"]:
            portable.write_cache(sink, len(document["cache"]["tokens"]))

    write_state(path, document, write_cache)


def document_of(session: Chat, model: ModelId) -> dict[str, Any]:
    """All that a file says but the bytes of the cache; a conversation that has not changed has the same."""
    cache = None  # also where tokens have left it: the conversation is read again then
    if (portable := session.engine.portable) and not (session.policy and session.policy.gap):
        cache = SavedCache(portable.cache_layout, __version__, tuple(session.cached()))
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": asdict(model),
        "params": asdict(session.settings.params),
        "messages": [asdict(message) for message in session.messages],
        "text": session.prompts.seen.text,
        "tokens": session.prompts.seen.ids,
        "cache": cache and asdict(cache),
    }


def restore_session(path: Path, session: Chat, model: ModelId, notice: Notice) -> SavedSession:
    """Put the stored conversation into ``session``, and its cache, so that the next reply goes on at once.

    A cache that does not fit here is rebuilt with the next reply, which a line to ``notice`` says; version 1
    has none. The session keeps its own settings unless the caller takes ``params`` from the result. Raises
    what ``open_state`` raises, BadFileError, and UsageError when it belongs to another model; the session is
    then unchanged.
    """
    with open_state(path) as stored:
        saved = _read(path, stored)
        if saved.model.sha256 != model.sha256:
            theirs, ours = saved.model.name, _distinct(model, saved.model)
            raise UsageError(
                f"{path} is a conversation with {theirs}, and this is {ours}",
                hint=f"open {theirs}",
                remedy=Remedy("model", theirs),
            )
        known = session.engine.spec.vocab_size
        if any(token >= known for token in (*saved.tokens, *(saved.cache.tokens if saved.cache else ()))):
            raise BadFileError(f"{path} holds token ids that {model.name} does not have")
        if saved.cache is not None:
            _restore_cache(path, session.engine, saved.cache, stored, notice)
        elif stored.body_bytes:
            raise _wrong_size(path)
    session.messages = list(saved.messages)
    session.prompts.remember(saved.text, saved.tokens)
    return saved


def _restore_cache(path: Path, engine: Engine, cache: SavedCache, stored: Stored, notice: Notice) -> None:
    if not cache.tokens and not stored.body_bytes:
        return
    if why := _unfit(engine, cache):
        notice(f"note: the cache in {path} {why}; the next reply reads the conversation again")
        return
    assert engine.portable is not None
    if stored.body_bytes != engine.portable.cache_bytes(len(cache.tokens)):
        raise _wrong_size(path)
    try:
        engine.resume(cache.tokens, stored.body)
    except EOFError as error:  # it had all its bytes when they were hashed
        raise BadFileError(f"{path} changed while it was read") from error


def _wrong_size(path: Path) -> BadFileError:
    return BadFileError(f"{path} is a damaged conversation: its cache has the wrong size")


def _unfit(engine: Engine, cache: SavedCache) -> str:
    """Why a cache cannot be used here; '' if it can."""
    if engine.portable is None:
        return "cannot be used by this backend"
    if cache.layout != engine.portable.cache_layout:
        return f"is of kind {cache.layout}, and the one here {engine.portable.cache_layout}"
    if len(cache.tokens) > engine.slots:
        return f"has {len(cache.tokens)} tokens, and the context holds {engine.slots}"
    if cache.edgedec != __version__:
        return f"is from EdgeDec {cache.edgedec}, whose bits may differ from those of {__version__}"
    return ""


def _read(path: Path, stored: Stored) -> SavedSession:
    document = stored.document
    if document.get("format") != FORMAT:
        raise BadFileError(
            f"{path} is not a saved conversation", hint="save one first", remedy=Remedy("save")
        )
    if (version := document.get("version")) != stored.version:
        if version == VERSION:
            raise BadFileError(f"{path} is truncated or damaged: it has no hash")
        raise newer(path, version)
    try:
        return _parse(document)
    except (KeyError, TypeError, ValueError, UsageError) as error:
        raise BadFileError(f"{path} is a damaged conversation: {_reason(error)}") from error


def _parse(document: dict[str, Any]) -> SavedSession:
    model, params = document["model"], document["params"]
    known = {field.name for field in fields(SamplingParams)}
    if unknown := sorted(set(params) - known):
        raise ValueError(f"unknown parameter {unknown[0]!r}")
    cache = document.get("cache")
    return SavedSession(
        model=ModelId(_text(model["name"]), _text(model["sha256"])),
        params=SamplingParams(**params),
        messages=tuple(_message(item) for item in document["messages"]),
        text=_text(document["text"]),
        tokens=_tokens(document["tokens"]),
        cache=None if cache is None else _cache(cache),
    )


def _cache(item: dict[str, Any]) -> SavedCache:
    return SavedCache(_text(item["layout"]), _text(item["edgedec"]), _tokens(item["tokens"]))


def _tokens(items: list[int]) -> tuple[int, ...]:
    if any(type(token) is not int or token < 0 for token in items):
        raise ValueError("a token id is not a natural number")
    return tuple(items)


def _message(item: dict[str, Any]) -> Message:
    message = Message(_text(item["role"]), _text(item["content"]))
    if message.role not in ROLES:
        raise ValueError(f"unknown role {message.role!r}")
    return message


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not text")
    return valid_text(value)


def _reason(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)


def _distinct(model: ModelId, other: ModelId) -> str:
    return f"another build of {model.name}" if model.name == other.name else model.name
