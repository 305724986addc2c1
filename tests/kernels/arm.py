"""The kernel library for 64-bit Arm: cross-compiled, and called in qemu as ctypes would call it here."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.arm_build import COMPILER, build, emulator, missing, run
from tests.kernels.float_rows import Pointer
from tests.kernels.quant_rows import Runner

# For whole modules: without these tools there is nothing that could run an Arm row.
needs_arm = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@cache
def sysroot() -> Path:
    """The folder in which the Arm programs find their loader and C library under lib/."""
    return Path(run(COMPILER, "-print-file-name=libc.so.6").strip()).resolve().parent.parent


def number(value: int) -> bytes:
    return struct.pack("<q", value)


@dataclass
class ArmFunction:
    """One function of the library, called like one of ``ctypes.CDLL``. Arrays are written back in place."""

    library: ArmLibrary
    name: str
    restype: Any = ctypes.c_int
    argtypes: Any = None

    def __call__(self, *arguments: Any) -> Any:
        text = self.restype is ctypes.c_char_p
        kind = b"s" if text else b"p" if self.restype is ctypes.c_void_p else b"i"
        name = kind + self.name.encode()
        packed, addresses = [number(len(name)), name, number(len(arguments))], []
        for argument in arguments:
            data, address = self._pack(argument)
            packed.append(data)
            addresses += [] if address is None else [address]
        self.library.send(b"".join(packed))
        (result,) = struct.unpack("<q", self.library.receive(8))
        string = self.library.receive_bytes() if text else b""
        for address in addresses:
            data = self.library.receive_bytes()
            if address:
                ctypes.memmove(address, data, len(data))
        return (string if result else None) if text else result

    @staticmethod
    def _pack(argument: Any) -> tuple[bytes, int | None]:
        """An argument as the driver reads it, and where its bytes go back to (0: nowhere; None: no bytes)."""
        if isinstance(argument, ctypes.c_char_p):
            argument = argument.value
        if isinstance(argument, ctypes.c_float):
            return number(1) + struct.pack("<fi", argument.value, 0), None
        if isinstance(argument, ctypes.c_size_t | ctypes.c_int | ctypes.c_int64):
            argument = argument.value
        if isinstance(argument, int):
            return number(0) + number(argument), None
        data, address = b"", 0
        if isinstance(argument, Pointer):
            if argument.array is None:
                return number(0) + number(0), None
            data, address = argument.array.tobytes(), argument.array.ctypes.data
        elif isinstance(argument, bytes):
            data = argument + b"\0"
        else:
            data = bytes(argument._obj)  # ctypes.byref
        return number(2) + number(len(data)) + data, address


@dataclass
class ArmLibrary:
    """The library on an emulated CPU: `max`, `neoverse-n1`, ... Close it, or use it in a with statement."""

    cpu: str = "max"
    isa: str | None = None
    path: Path | None = None
    root: Path | None = None
    """Another library to call than EdgeDec's, and another folder than the C library's for qemu to look in."""
    _functions: dict[str, ArmFunction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kernels, driver = build()
        environment = {name: value for name, value in os.environ.items() if name != "EDGEDEC_ISA"}
        if self.isa:
            environment["EDGEDEC_ISA"] = self.isa
        command = [str(emulator()), "-cpu", self.cpu, "-L", str(self.root or sysroot())]
        command += [str(driver), str(self.path or kernels)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )

    def __getattr__(self, name: str) -> ArmFunction:
        if not name.startswith("edgedec_"):
            raise AttributeError(name)
        return self._functions.setdefault(name, ArmFunction(self, name))

    def __enter__(self) -> ArmLibrary:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.communicate()

    def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def receive(self, size: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        if len(data) != size:
            errors = self._process.communicate()[1].decode(errors="replace")
            raise AssertionError(f"the driver ended with status {self._process.returncode}: {errors}")
        return data

    def receive_bytes(self) -> bytes:
        (size,) = struct.unpack("<q", self.receive(8))
        return self.receive(size)


@dataclass(frozen=True)
class ArmRunner(Runner):
    """A row of the Arm library."""

    library: ArmLibrary | None = None

    def call(self, function: str, *arguments: Any) -> None:
        status = getattr(self.library, function)(*arguments)
        assert status == 0, f"{function} on {self.row} returned {status}"
