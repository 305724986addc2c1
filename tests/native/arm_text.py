"""The native engine's text/ on an emulated 64-bit Arm CPU."""

from __future__ import annotations

import ctypes
import json
from typing import Any

import numpy as np

from edgedec.native.text_probe import NativeError, TextProbe
from tests.kernels.arm import ArmLibrary
from tests.kernels.float_rows import pointer


class ArmTextProbe(TextProbe):
    """A TextProbe whose functions run in qemu."""

    def __init__(self, library: ArmLibrary, table: str = "", *, spm: bool = False, bos: int = -1) -> None:
        """Raises NativeError."""
        self._library, code = library, np.zeros(1, np.int32)
        library.edgedec_probe_text_open.restype = ctypes.c_void_p
        library.edgedec_probe_text.restype = ctypes.c_char_p
        opened = library.edgedec_probe_text_open(table.encode(), int(spm), bos, pointer(code))
        if not opened:
            raise NativeError(code.item())
        self._handle = opened

    def close(self) -> None:
        self._library.edgedec_probe_text_close(self._handle)
        self._handle = None

    def ask(self, do: str, /, *, beside: bytes = b"", **request: Any) -> dict[str, Any]:
        data, size = json.dumps({"do": do, **request}).encode(), pointer(np.zeros(1, np.int64))
        ask = self._library.edgedec_probe_text
        found: dict[str, Any] = json.loads(ask(self._handle, data, len(data), beside, len(beside), size))
        if "code" in found:
            raise NativeError(**found)
        return found

    def encode(self, text: bytes, *, specials: bool) -> list[int]:
        ids = np.empty(2 * len(text) + 64, np.int32)
        encode = self._library.edgedec_probe_text_encode
        count = encode(self._handle, text, len(text), int(specials), pointer(ids), len(ids))
        if count < 0:
            raise NativeError(-count)
        assert count <= len(ids)
        found: list[int] = ids[:count].tolist()
        return found
