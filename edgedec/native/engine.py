"""Open a bundle in the native engine, and reply."""

from __future__ import annotations

import ctypes
import json
import time
from collections.abc import Callable, Mapping, Sequence
from ctypes import byref, c_char_p, c_int32, c_size_t, c_void_p
from dataclasses import field
from pathlib import Path
from typing import Any

from edgedec.core.progress import Notice, ignore
from edgedec.core.quick_dataclass import dataclass
from edgedec.native.library import call, call_text, library, runtime_path
from edgedec.native.ready import make_ready
from edgedec.native.sampling import struct_of
from edgedec.native.structs import (
    NOTICE,
    ON_CALL,
    ON_PROMPT,
    ON_TOKEN,
    CMessage,
    COptions,
    CRequest,
    CResult,
    CToken,
)
from edgedec.sampling import DrawParams

FINISHES = (None, "stop", "length", "context", "loop", "interrupted")


@dataclass(frozen=True, slots=True)
class NativeToken:
    """A token of a reply; ``id`` -1: text that was held back until its end. ``source``: its drafter.

    ``thought``: the text of the thinking part, which is not in ``text``.
    """

    id: int
    text: str
    source: str | None
    seconds: float
    thought: str = ""


@dataclass(slots=True)
class NativeReply:
    """A reply and its figures. ``thought``: its thinking part, which a reply to messages has apart.

    ``calls``: id, name and arguments of each call of a tool.
    """

    text: str = ""
    thought: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    sources: list[str | None] = field(default_factory=list)
    finish_reason: str | None = None
    figures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeConfig:
    """The way a model runs, as ``edgedec_options`` has it; 0 is the default of each number."""

    threads: int = 0
    context: int = 0
    kv: str = "fp16"
    memory: int = 0
    draft: str = "auto"
    draft_tokens: int = 0
    verify: bool = False
    costs: str | Path | None = None
    """The folder that keeps measured pass costs."""
    tables: str | Path | None = None
    """A folder with prepared tables of drafters."""

    def options(self, notice: object) -> COptions:
        """Return them as the struct. ``notice``: a function of the type ``NOTICE``."""
        return COptions(
            ctypes.sizeof(COptions), self.threads, self.context, self.kv == "int8", self.memory,
            self.draft.encode(), self.draft_tokens, self.verify, runtime_path().encode(), None,
            _path(self.costs), _path(self.tables), notice, None,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeRequest:
    """The settings of a reply, as ``edgedec_request`` has them; see ``NativeModel.generate``."""

    sampling: DrawParams | None = None
    max_tokens: int = 0
    stops: Sequence[str] = ()
    schema: str | None = None
    choices: Sequence[str] = ()
    tools: str | None = None
    messages: str | None = None
    on_token: Callable[[NativeToken], bool] | None = None
    on_prompt: Callable[[int, int], bool] | None = None

    def struct(self, found: NativeReply, kept: list[object]) -> CRequest:
        """Return them as the struct, whose callbacks add to ``found``. It points to what ``kept`` holds."""

        def token(user: int, told: Any) -> int:
            one = _token(told.contents)
            found.text += one.text
            found.thought += one.thought
            if one.id >= 0:
                found.tokens.append(one.id)
                found.sources.append(one.source)
            return int(self.on_token is not None and not self.on_token(one))

        def read(user: int, done: int, total: int) -> int:
            return int(self.on_prompt is not None and not self.on_prompt(done, total))

        def call_of(user: int, told: Any) -> None:
            one = told.contents
            found.calls.append((one.id.decode(), one.name.decode(), one.arguments.decode()))

        params = struct_of(self.sampling) if self.sampling is not None else None
        stops, choices = ((c_char_p * len(all))(*map(_bytes, all)) for all in (self.stops, self.choices))
        kept += [params, stops, choices]
        return CRequest(
            ctypes.sizeof(CRequest), self.max_tokens, ctypes.pointer(params) if params else None, stops,
            len(stops), ON_TOKEN(token), ON_PROMPT(read), None,
            _bytes_or_none(self.schema), choices, len(choices), _bytes_or_none(self.tools), ON_CALL(call_of),
            _bytes_or_none(self.messages),
        )  # fmt: skip


def open(folder: str | Path, *, notice: Notice = ignore, **settings: Any) -> NativeModel:
    """Open the bundle in ``folder``; ``settings`` are fields of ``NativeConfig``.

    ``notice`` gets lines for the user. Raises the errors of ``edgedec.core.errors``.
    """
    make_ready(Path(folder))
    said = NOTICE(lambda user, line: notice(line.decode("utf-8", "replace")))
    return NativeModel(str(folder), NativeConfig(**settings).options(said), said)


def plan(folder: str | Path, **settings: Any) -> dict[str, Any]:
    """Return the memory plan of a run. Raises MemoryBudgetError where it does not fit."""
    make_ready(Path(folder))
    options = NativeConfig(**settings).options(NOTICE())
    found: dict[str, Any] = json.loads(call_text("plan", str(folder).encode(), byref(options)))
    return found


class NativeModel:
    """An open model. One call at a time; ``stop`` ends the reply of another thread."""

    def __init__(self, folder: str, options: COptions, kept: object) -> None:
        self._kept = kept  # the engine calls it
        self._handle = c_void_p()
        started = time.perf_counter()
        call("open", folder.encode(), byref(options), byref(self._handle))
        self.open_s = time.perf_counter() - started
        """Seconds that opening took."""

    def close(self) -> None:
        """Give back what the engine holds; once is enough."""
        handle, self._handle = self._handle, c_void_p()
        library().edgedec_close(handle)

    def __enter__(self) -> NativeModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def encode(self, text: str, *, specials: bool = False) -> list[int]:
        """Return the tokens of a text, as ``complete`` feeds them."""
        data, count = text.encode("utf-8", "surrogatepass"), c_size_t()
        call("encode", self._handle, data, len(data), specials, None, 0, byref(count))
        tokens = (c_int32 * count.value)()
        call("encode", self._handle, data, len(data), specials, tokens, count.value, byref(count))
        return list(tokens)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without control tokens."""
        ids, size = (c_int32 * len(tokens))(*tokens), c_size_t()
        call("decode", self._handle, ids, len(tokens), None, 0, byref(size))
        room = ctypes.create_string_buffer(size.value)
        call("decode", self._handle, ids, len(tokens), room, size.value, byref(size))
        return room.raw.decode()

    def reply(self, messages: Sequence[Mapping[str, Any]], **asked: Any) -> NativeReply:
        """Reply to a conversation: messages in OpenAI's form. ``tools``: functions in that form, as JSON.

        See ``generate``.
        """
        if any(one.keys() - {"role", "content"} for one in messages):
            return self._asked("reply", None, 0, messages=json.dumps(list(messages)), **asked)
        turns = [CMessage(one["role"].encode(), _bytes(one["content"])) for one in messages]
        return self._asked("reply", (CMessage * len(turns))(*turns), len(turns), **asked)

    def more(self, **asked: Any) -> NativeReply:
        """Continue the latest reply of ``reply``, which was cut. See ``generate``."""
        return self._asked("more", **asked)

    def complete(self, text: str, **asked: Any) -> NativeReply:
        """Continue a text as it stands. See ``generate``."""
        data = _bytes(text)
        return self._asked("complete", data, len(data), **asked)

    def generate(self, prompt: Sequence[int], **asked: Any) -> NativeReply:
        """Continue tokens.

        ``sampling``: a ``DrawParams``; None: the model's preset. ``max_tokens``: 0 for as many as the context
        has room for. ``stops``: strings that end the reply. ``schema``: the text of a JSON schema that the
        reply keeps to; ``choices``: texts of which it is one. ``on_token`` hears each ``NativeToken``, and
        ``on_prompt`` the tokens of the prompt that were read and all of them; both return whether to go on.
        """
        return self._asked("generate", (c_int32 * len(prompt))(*prompt), len(prompt), **asked)

    def stop(self) -> None:
        """End the reply that another thread computes."""
        library().edgedec_stop(self._handle)

    def stats(self) -> dict[str, Any]:
        """Return the figures of the run and of the latest reply."""
        found: dict[str, Any] = json.loads(call_text("stats", self._handle))
        return found

    def measure_again(self) -> None:
        """Forget pass costs and measure them again."""
        call("measure_again", self._handle)

    def save(self, path: str | Path) -> None:
        """Write the latest conversation and its KV cache to a file."""
        call("save", self._handle, _path(path))

    def restore(self, path: str | Path) -> None:
        """Read such a file."""
        call("restore", self._handle, _path(path))

    def _asked(self, name: str, *prompt: Any, **asked: Any) -> NativeReply:
        request, found = NativeRequest(**asked), NativeReply()
        kept: list[object] = []  # as long as the call takes
        struct = request.struct(found, kept)
        result = CResult(ctypes.sizeof(CResult))
        call(name, self._handle, *prompt, byref(struct), byref(result))
        found.finish_reason = FINISHES[result.finish]
        names = [one[0] for one in CResult._fields_ if one[0] not in ("size", "finish", "calls")]
        found.figures = {name: getattr(result, name) for name in names}
        return found


def _token(told: CToken) -> NativeToken:
    text = ctypes.string_at(told.text, told.text_size).decode()
    thought = ctypes.string_at(told.thought, told.thought_size).decode()
    return NativeToken(told.id, text, told.drafter.decode() if told.drafter else None, told.seconds, thought)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _bytes_or_none(text: str | None) -> bytes | None:
    return None if text is None else _bytes(text)


def _path(path: str | Path | None) -> bytes | None:
    return None if path is None else str(path).encode()
