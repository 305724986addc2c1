"""The library of an app on an emulated phone: answers to the cases of tests/native, token ids and text.

The file is the one for Android, with the aarch64 build of ONNX Runtime; libraries named as Android's lead to
those of glibc. EDGEDEC_ORT_AARCH64 names ONNX Runtime's library, as for tests/integration/test_arm_model.py.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from ctypes import byref, c_char_p
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from edgedec.native.sampling import struct_of
from edgedec.native.structs import COptions, CRequest, CResult, CStatus
from tests.conftest import ROOT
from tests.integration.test_arm_model import root as machine
from tests.integration.test_arm_model import runtime
from tests.kernels.arm import ArmLibrary
from tests.kernels.arm_build import BUILD, COMPILER, build, run
from tests.kernels.float_rows import Pointer, pointer
from tests.kernels.test_android import android_library, root
from tests.native.cases import Case, Outcome
from tests.native.native_runs import FINISH

SOURCE = ROOT / "tests" / "android" / "arm_engine.cc"
TINY_PASS_NS = 300_000
BYTES_PER_TOKEN = 128
"""The text of a token is shorter in every vocabulary here."""


@cache
def phone() -> Path:
    """The root of a phone for qemu: Android's names of libraries, and CPUs in /proc and /sys."""
    for name in ("proc", "sys"):
        link = root() / name
        if not link.is_symlink():
            link.symlink_to(machine() / name)
    return root()


@cache
def calls() -> Path:
    """The library that calls the engine with plain arguments."""
    build()
    made = BUILD / "libarm_engine.so"
    flags = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-I", ROOT / "kernels")
    run(COMPILER, *flags, SOURCE, "-o", made, "-ldl")
    return made


class ArmRuns:
    """The engine of an app with a bundle, on an emulated CPU.

    ``pass_ns``: a pass takes the calling thread longer, and drafting less. By the engine's clock every pass
    then takes the same time, so that drafts pay.
    """

    def __init__(
        self,
        bundle: Path,
        cpu: str,
        draft: str = "off",
        *,
        context: int = 256,
        threads: int = 1,
        pass_ns: int = TINY_PASS_NS,
    ) -> None:
        self.drafted = 0  # tokens of all replies that had been drafted
        self._library = ArmLibrary(cpu, path=calls(), root=phone())
        for name in ("load", "stats"):
            self._function(name).restype = c_char_p
        problem = self._function("load")(bytes(android_library()), bytes(runtime()), pass_ns)
        assert problem is None, problem
        self._room = context
        options = COptions(ctypes.sizeof(COptions), threads=threads, context=context)
        self._checked("open", bytes(bundle), byref(options), draft.encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._library.close()

    def run(self, case: Case) -> Outcome:
        sampling, bias = struct_of(case.params), case.params.logit_bias
        texts = case.text.encode() if case.text else _texts(case.messages)
        counted = {"stop_count": len(case.stops), "choice_count": len(case.choices)}
        request = CRequest(ctypes.sizeof(CRequest), case.max_tokens or 0, **counted)
        tokens, counts = np.zeros(self._room, np.int32), np.zeros(3, np.int64)
        text, result = np.zeros(BYTES_PER_TOKEN * self._room, np.uint8), _room_for(CResult)
        status = self._call(
            "reply", texts, len(texts), len(case.messages), byref(request), byref(sampling),
            _array([token for token, _ in bias], np.int32), _array([value for _, value in bias], np.float64),
            _texts(case.stops), case.schema.encode(), _texts(case.choices),
            -1 if case.cancel is None else case.cancel,
            pointer(tokens), pointer(text), pointer(counts), result,
        )  # fmt: skip
        if status.code:
            return Outcome((status.code, status.message.decode(), status.hint.decode()))
        told = CResult.from_buffer_copy(_content(result))
        count, size, drafted = counts.tolist()
        assert told.tokens == count
        self.drafted += drafted
        shown = text[:size].tobytes().decode()
        finish = FINISH.get(told.finish, str(told.finish))
        ids = tuple(tokens[:count].tolist())
        return Outcome(None, ids, shown, finish, told.prompt_tokens, told.reused_tokens, drafted)

    def encode(self, text: bytes, *, specials: bool) -> list[int]:
        """The ids of a text, with the token that begins a text where the model has one."""
        ids, count = np.zeros(2 * len(text) + 64, np.int32), np.zeros(1, np.int64)
        self._checked("encode", text, len(text), int(specials), pointer(ids), len(ids), pointer(count))
        found: list[int] = ids[: count.item()].tolist()
        return found

    def decode(self, ids: Sequence[int]) -> bytes:
        """The text of ids, without control tokens."""
        text, size = np.zeros(BYTES_PER_TOKEN * len(ids) + 1, np.uint8), np.zeros(1, np.int64)
        room = len(text)
        self._checked("decode", _array(ids, np.int32), len(ids), pointer(text), room, pointer(size))
        return text[: size.item()].tobytes()

    def stats(self) -> dict[str, Any]:
        """The engine's figures."""
        found: dict[str, Any] = json.loads(self._function("stats")())
        return found

    def _function(self, name: str) -> Any:
        return getattr(self._library, f"edgedec_calls_{name}")

    def _call(self, name: str, *arguments: Any) -> CStatus:
        status = _room_for(CStatus)
        code = self._function(name)(*arguments, status)
        told = CStatus.from_buffer_copy(_content(status))
        assert told.code == code
        return told

    def _checked(self, name: str, *arguments: Any) -> None:
        status = self._call(name, *arguments)
        assert status.code == 0, (status.code, status.message, status.hint)


def _room_for(struct: type[ctypes.Structure]) -> Pointer:
    return pointer(np.zeros(ctypes.sizeof(struct), np.uint8))


def _content(struct: Pointer) -> bytes:
    assert struct.array is not None
    return struct.array.tobytes()


def _texts(every: Sequence[str]) -> bytes:
    return b"\0".join(one.encode() for one in every)


def _array(values: Sequence[float], kind: type) -> Pointer:
    """An argument that is never empty."""
    return pointer(np.array(values or [0], kind))
