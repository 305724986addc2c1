"""Conversations on disk: one JSON file, versioned, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgedec.core.errors import BadFileError, EdgeDecError, NotFoundError, UnsupportedError, UsageError
from edgedec.core.files import atomic_path
from edgedec.sampling import SamplingParams
from edgedec.session.prompt import ROLES, Message
from edgedec.session.tokenizer import valid_text

if TYPE_CHECKING:
    from edgedec.core.manifest import Manifest
    from edgedec.session.chat import Session

FORMAT = "edgedec-session"
VERSION = 1
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class ModelId:
    """Which model a conversation belongs to: a name for people, a hash over all its files for us."""

    name: str
    sha256: str

    @classmethod
    def of(cls, manifest: Manifest) -> ModelId:
        lines = "\n".join(f"{name} {manifest.files[name].sha256}" for name in sorted(manifest.files))
        return cls(manifest.name, hashlib.sha256(lines.encode()).hexdigest())


@dataclass(frozen=True, slots=True)
class SavedSession:
    """A conversation as stored. ``text`` and ``tokens`` are what the model has seen, see ``Prompts.seen``."""

    model: ModelId
    params: SamplingParams
    messages: tuple[Message, ...]
    text: str
    tokens: tuple[int, ...]


def save_session(path: Path, session: Session, model: ModelId) -> None:
    """Write the conversation to ``path``, replacing it only when all is written. Raises StorageError."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "model": asdict(model),
        "params": asdict(session.settings.params),
        "messages": [asdict(message) for message in session.messages],
        "text": session.prompts.seen.text,
        "tokens": session.prompts.seen.ids,
    }
    if path.is_dir():
        raise UsageError(f"{path} is a directory", hint="give the name of a file")
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def restore_session(path: Path, session: Session, model: ModelId) -> SavedSession:
    """Put the stored conversation into ``session``; the cache is rebuilt with the next reply.

    The session keeps its own settings unless the caller takes ``params`` from the result. Raises what
    ``read_session`` raises, and UsageError when it belongs to another model; the session is then unchanged.
    """
    saved = read_session(path)
    if saved.model.sha256 != model.sha256:
        raise UsageError(
            f"{path} is a conversation with {saved.model.name}, and this is {_distinct(model, saved.model)}",
            hint=f"start with `edgedec chat -m {saved.model.name}`",
        )
    if any(token >= session.engine.spec.vocab_size for token in saved.tokens):
        raise BadFileError(f"{path} holds token ids that {model.name} does not have")
    session.messages = list(saved.messages)
    session.prompts.remember(saved.text, saved.tokens)
    return saved


def read_session(path: Path) -> SavedSession:
    """Read and check a file. Raises NotFoundError, BadFileError, UnsupportedError (a newer version)."""
    document = _read_json(path)
    if document.get("format") != FORMAT:
        raise BadFileError(f"{path} is not a saved conversation", hint="/save writes one")
    if document.get("version") != VERSION:
        raise UnsupportedError(
            f"{path} has session format {document.get('version')!r}, and this EdgeDec reads {VERSION}",
            hint="a newer EdgeDec may read it",
        )
    try:
        return _parse(document)
    except (KeyError, TypeError, ValueError, UsageError) as error:
        raise BadFileError(f"{path} is a damaged conversation: {_reason(error)}") from error


def _read_json(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise NotFoundError(f"no such file: {path}", hint="/save writes a conversation, /load reads it")
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadFileError(f"{path} is too large for a saved conversation")
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # an integer of too many digits is only a ValueError
        raise BadFileError(f"{path} is not a saved conversation (not JSON)") from error
    except OSError as error:
        raise EdgeDecError(f"cannot read {path}: {error.strerror}") from error
    return document if isinstance(document, dict) else {}


def _parse(document: dict[str, Any]) -> SavedSession:
    model, params = document["model"], document["params"]
    known = {field.name for field in fields(SamplingParams)}
    if unknown := sorted(set(params) - known):
        raise ValueError(f"unknown parameter {unknown[0]!r}")
    tokens = tuple(document["tokens"])
    if any(type(token) is not int or token < 0 for token in tokens):
        raise ValueError("a token id is not a natural number")
    return SavedSession(
        model=ModelId(_text(model["name"]), _text(model["sha256"])),
        params=SamplingParams(**params),
        messages=tuple(_message(item) for item in document["messages"]),
        text=_text(document["text"]),
        tokens=tokens,
    )


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
