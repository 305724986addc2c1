"""Stand-ins for what only Windows and macOS have: libraries of C functions, and modules of Python."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest


class CFunction:
    """A C function: it notes its arguments and answers by ``answer``; types may be set and are kept."""

    def __init__(self, answer: Callable[..., Any]) -> None:
        self._answer, self.calls = answer, list[tuple[Any, ...]]()
        self.restype: Any = ctypes.c_int
        self.argtypes: Any = None

    def __call__(self, *arguments: Any) -> Any:
        plain = tuple(getattr(one, "value", one) for one in arguments)
        self.calls.append(plain)
        return self._answer(*arguments)


def library(
    monkeypatch: pytest.MonkeyPatch, name: str | None, **functions: Callable[..., Any]
) -> SimpleNamespace:
    """Let ``ctypes.CDLL(name)`` return a library with these functions alone."""
    found = SimpleNamespace(**{one: CFunction(answer) for one, answer in functions.items()})

    def load(asked: str | None) -> SimpleNamespace:
        assert asked == name
        return found

    monkeypatch.setattr(ctypes, "CDLL", load)
    return found


def module(monkeypatch: pytest.MonkeyPatch, name: str, **contents: Any) -> SimpleNamespace:
    """Let ``import name`` bring these contents."""
    found = SimpleNamespace(**contents)
    monkeypatch.setitem(sys.modules, name, found)  # type: ignore[arg-type]
    return found


def filled(pointer: Any, kind: type[ctypes.Structure], **values: Any) -> None:
    """Write the fields of a structure that a C function was given by ``byref``."""
    place = ctypes.cast(pointer, ctypes.POINTER(kind)).contents
    for name, value in values.items():
        setattr(place, name, value)
