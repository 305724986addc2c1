"""A browser's passes on the CPU as a ``Forward``, and its drafters, so that tests of others run on them."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from struct import pack

from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.draft.in_core import CoreDrafter
from edgedec.native.probe import function
from tests.native.native_forward import NativeForward, checked


class _Bundle:
    """A bundle with ``cpu.json``, as ``NativeForward`` asks a model."""

    weight_bytes = 0

    def __init__(self, folder: Path) -> None:
        self.spec = Manifest.load(folder).spec


class _Named(CoreDrafter):
    def __init__(self, name: str, handle: int) -> None:
        self.name = name
        super().__init__(handle)


class WebForward(NativeForward):
    """A cache and a model on a browser's CPU."""

    def __init__(self, folder: Path, cache: CacheConfig) -> None:
        self._folder = folder
        super().__init__(_Bundle(folder), cache)  # type: ignore[arg-type]

    def _open(self, cache: CacheConfig) -> None:
        call = function("web_forward_open", c_int, c_char_p, c_int64, c_int, c_int64, c_void_p)
        config = cache.capacity, cache.kv == "int8", cache.max_pass
        checked(call(str(self._folder).encode(), *config, byref(self._handle)))

    def drafter(self, name: str) -> CoreDrafter:
        """The drafter of this name, which must go before the forward."""
        handle = c_void_p()
        call = function("web_drafter", c_int, c_void_p, c_char_p, c_void_p)
        checked(call(self._handle, name.encode(), byref(handle)))
        assert handle.value
        return _Named(name, handle.value)

    def feed(self, drafter: CoreDrafter, length: int, fed: Sequence[int]) -> None:
        """Append tokens behind ``length`` ones, and tell the drafter of their hidden states."""
        call = function("web_feed", c_int, c_void_p, c_void_p, c_int64, c_char_p, c_size_t)
        checked(call(self._handle, drafter.handle, length, pack(f"{len(fed)}i", *fed), len(fed)))
