"""Calls into the native engine's text/, which its tests compare with the modules that it ports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import Any, Self

import numpy as np

from edgedec.native.probe import function, text_function


class NativeError(Exception):
    """An error of the engine: its code, message and hint."""

    def __init__(self, code: int, message: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


class TextProbe:
    """A tokenizer of the engine, and a template; without a table only what needs none."""

    def __init__(self, table: str = "", *, spm: bool = False, bos: int = -1) -> None:
        """Raises NativeError."""
        code = c_int()
        opened = function("text_open", c_void_p, c_char_p, c_int, c_int64, POINTER(c_int))
        self._handle: int | None = opened(table.encode(), spm, bos, byref(code))
        if self._handle is None:
            raise NativeError(code.value)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the tokenizer."""
        function("text_close", None, c_void_p)(self._handle)
        self._handle = None

    def ask(self, do: str, /, *, beside: bytes = b"", **request: Any) -> dict[str, Any]:
        """Return the answer to a request. Raises NativeError."""
        data = json.dumps({"do": do, **request}).encode()
        types = (c_void_p, c_char_p, c_size_t, c_char_p, c_size_t)
        text = text_function("text", *types)(self._handle, data, len(data), beside, len(beside))
        found: dict[str, Any] = json.loads(text)
        if "code" in found:
            raise NativeError(**found)
        return found

    def encode(self, text: bytes, *, specials: bool) -> list[int]:
        """Return the ids of bytes. Raises NativeError."""
        room = 2 * len(text) + 64
        ids = np.empty(room, np.int32)
        call = function(
            "text_encode", c_int64, c_void_p, c_char_p, c_size_t, c_int, POINTER(c_int32), c_size_t
        )
        count = call(self._handle, text, len(text), specials, ids.ctypes.data_as(POINTER(c_int32)), room)
        if count < 0:
            raise NativeError(-count)
        if count > room:
            raise NativeError(0, "more tokens than room")
        found: list[int] = ids[:count].tolist()
        return found

    def use_template(self, program: bytes, source: str, *, bos: str = "", eos: str = "") -> None:
        """Open a template's program. Raises NativeError."""
        self.ask("template", beside=program, text=source, bos=bos, eos=eos)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        generation_prompt: bool = True,
        raw: bool = False,
    ) -> str:
        """Return a prompt; with ``raw`` all goes to the template as it is. Raises NativeError."""
        given: dict[str, Any] = {"messages": list(messages), "tools": list(tools), "raw": raw}
        found: str = self.ask("render", generation_prompt=generation_prompt, **given)["text"]
        return found
