"""The engine for browsers, compiled for this machine: edgedec_web.h as JavaScript calls it."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_double, c_float, c_int32, c_size_t, c_uint32, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from edgedec.kernels.library import library_path


class Pass(ctypes.Structure):
    """``edgedec_web_pass``."""

    _fields_ = [
        *((name, c_uint32) for name in ("tokens", "rows", "length", "full", "moves", "k", "vocabulary")),
        ("inverse", c_float),
        *((name, POINTER(c_int32)) for name in ("token_ids", "positions", "parents")),
        ("paths", POINTER(c_uint32)), ("chosen", POINTER(c_int32)),
        *((name, POINTER(c_uint32)) for name in ("start", "to")),
        ("values", POINTER(c_float)), ("ids", POINTER(c_int32)),
        *((name, POINTER(c_float)) for name in ("logsumexp", "entropy", "logits")),
        *((name, c_uint32) for name in ("applied", "restore", "keep", "done", "below", "above", "kept")),
        ("kept_ids", POINTER(c_int32)),
    ]  # fmt: skip


_TEXT = (c_char_p, c_size_t)
_FLOATS = POINTER(c_float)
PEEK = ctypes.CFUNCTYPE(c_int32, c_void_p)
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "text": (c_void_p,), "text_size": (c_size_t,), "open": (c_void_p, *_TEXT), "close": (None, c_void_p),
    "measure": (c_int32, c_void_p), "begin": (c_int32, c_void_p, *_TEXT), "next": (c_int32, c_void_p),
    "pass_of": (POINTER(Pass), c_void_p), "give": (c_int32, c_void_p, c_double), "stop": (None, c_void_p),
    "lost": (None, c_void_p), "forget": (c_int32, c_void_p), "stats": (c_int32, c_void_p),
    "encode": (c_int32, c_void_p, *_TEXT), "cpu": (c_int32, c_void_p), "compute": (c_int32, c_void_p),
    "peeks": (c_int32, c_void_p, *_TEXT, PEEK),
    "rotary": (c_int32, c_void_p, _FLOATS, c_size_t, _FLOATS),
    "steps": (c_int32, c_void_p, c_uint32, c_uint32, POINTER(c_uint32)),
    "head": (
        c_int32, c_void_p, c_uint32, _FLOATS, c_size_t, POINTER(c_int32), _FLOATS, _FLOATS, c_size_t, c_float,
    ),
}  # fmt: skip


@cache
def library() -> ctypes.CDLL:
    found = ctypes.CDLL(str(library_path()))
    for name, (result, *arguments) in _SIGNATURES.items():
        function = getattr(found, f"edgedec_web_{name}")
        function.restype, function.argtypes = result, arguments
    return found


class WebError(Exception):
    """The fault of a call: ``code``, ``message``, ``hint``."""

    def __init__(self, said: dict[str, Any]) -> None:
        super().__init__(said["message"])
        self.code, self.hint = said["code"], said["hint"]


def said() -> Any:
    """The answer of the latest call."""
    return json.loads(ctypes.string_at(library().edgedec_web_text(), library().edgedec_web_text_size()))


class WebEngine:
    """An engine over the bundle in ``folder``; ``compute`` runs a pass, by default on its own CPU."""

    def __init__(
        self, folder: Path, compute: Callable[[WebEngine, Pass], None] | None = None, **options: Any
    ):
        text = json.dumps({"folder": str(folder), **options}).encode()
        self.handle = library().edgedec_web_open(text, len(text))
        if not self.handle:
            raise WebError(said())
        self.facts = said()
        self._compute = compute or _on_cpu
        self.pieces: list[dict[str, Any]] = []
        self.passes: list[int] = []
        if compute is None:
            try:
                self.call("cpu")
            except WebError:
                self.close()
                raise

    def close(self) -> None:
        library().edgedec_web_close(self.handle)

    def __enter__(self) -> WebEngine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def call(self, name: str, *arguments: Any) -> None:
        if getattr(library(), f"edgedec_web_{name}")(self.handle, *arguments):
            raise WebError(said())

    def begin(self, **request: Any) -> dict[str, Any]:
        text = json.dumps(request).encode()
        self.call("begin", text, len(text))
        self.pieces, self.passes = [], []
        found: dict[str, Any] = said()
        return found

    def turn(self, seconds: float | None = None) -> bool:
        """Compute one pass; whether there was one."""
        wanted = library().edgedec_web_next(self.handle)
        if wanted < 0:
            raise WebError(said())
        if not wanted:
            return False
        one = library().edgedec_web_pass_of(self.handle).contents
        self.passes.append(one.tokens)
        self._compute(self, one)
        self.call("give", 1.0 if seconds is None else seconds)
        self.pieces += said()
        return True

    def finish(self) -> dict[str, Any]:
        """Run what was begun to its end, and return its figures."""
        while self.turn():
            pass
        return self.last()

    def last(self) -> dict[str, Any]:
        """The figures of what is over."""
        figures: dict[str, Any] = said()
        self.pieces += figures.get("pieces", [])
        return figures

    def reply(self, **request: Any) -> dict[str, Any]:
        self.begin(**request)
        return self.finish()

    def stop(self) -> None:
        library().edgedec_web_stop(self.handle)

    @property
    def text(self) -> str:
        return "".join(one["text"] for one in self.pieces)

    @property
    def tokens(self) -> list[int]:
        return [one["id"] for one in self.pieces if one["id"] >= 0]


def _on_cpu(engine: WebEngine, one: Pass) -> None:
    engine.call("compute")


__all__ = ["Pass", "WebEngine", "WebError", "library", "said"]
