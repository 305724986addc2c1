"""The core's sampler on an emulated 64-bit Arm CPU: the same tokens, and the same bits."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from edgedec.bundle.preset import SamplingValues
from edgedec.core_lib.params import CParams
from edgedec.sampling import DrawParams
from tests.kernels.arm import ArmFunction, ArmLibrary, needs_arm
from tests.kernels.float_rows import pointer
from tests.sampling.drawing import ENDLESS, Drawing, Drawn, compare_numbers, core, random_drawing

pytestmark = [needs_arm, pytest.mark.filterwarnings("ignore::RuntimeWarning")]


class ArmCore:
    """The core in qemu: what its calls read lies in memory there."""

    def __init__(self, library: ArmLibrary) -> None:
        self._library = library
        self._malloc = ArmFunction(library, "malloc", ctypes.c_void_p)
        self._memcpy = ArmFunction(library, "memcpy", ctypes.c_void_p)
        self._free = ArmFunction(library, "free", ctypes.c_void_p)
        self._held: list[int] = []

    def call(self, name: str, *arguments: Any, restype: Any = ctypes.c_int) -> Any:
        return ArmFunction(self._library, f"edgedec_core_{name}", restype)(*arguments)

    def put(self, data: bytes) -> int:
        """The address of these bytes there, until ``clear``."""
        address = int(self._malloc(max(len(data), 1)))
        self._memcpy(address, pointer(np.frombuffer(data or b"\0", np.uint8).copy()), len(data))
        self._held.append(address)
        return address

    def clear(self) -> None:
        for address in self._held:
            self._free(address)
        self._held.clear()

    def numbers(self, which: int, x: np.ndarray, seed: int, position: int, found: np.ndarray) -> None:
        signed = seed - (1 << 64 if seed >> 63 else 0)
        self.call("numbers", which, pointer(x), x.size, signed, position, pointer(found))

    def drawn(self, case: Drawing) -> Drawn:
        params = case.params
        tokens = self.put(struct.pack(f"{len(case.tokens)}i", *case.tokens))
        bound = 0 if case.bound is None else self.put(struct.pack("d", case.bound))
        room = [self.put(bytes(8)) for _ in range(6)]
        verdict = self.put(struct.pack("6q4i", *room, 0, 0, 0, 0))
        parts = self.put(struct.pack("5q", case.vocabulary, 64, 0, 0, verdict))
        engine = self.call("engine_new", parts, restype=ctypes.c_void_p)
        count = self.call(
            "engine_begin", engine, self.put(bytes(self._params(params))), tokens, len(case.tokens),
            case.said, bound, ENDLESS, 0, 0, 0,
        )  # fmt: skip
        head = self.put(self._head(case))
        count = count or self.call("engine_verdict", engine, head, 0, 0, 0, case.position)
        self.call("engine_free", engine)
        token, after = np.zeros(1, np.int32), np.zeros(1)
        self._memcpy(pointer(token), room[2], 4)
        self._memcpy(pointer(after), room[5], 8)
        if count < 0:
            message, _, hint = self.call("error", restype=ctypes.c_char_p)[:-1].decode().partition("\n")
            self.clear()
            return Drawn((-count, message, hint))
        self.clear()
        bounded = params.mirostat and not params.greedy
        return Drawn(None, token.item(), after.item() if bounded else None)

    def _params(self, params: DrawParams) -> CParams:
        named = {field.name: getattr(params, field.name) for field in fields(SamplingValues)}
        found = CParams(seed=params.seed, biases=len(params.logit_bias), **named)
        found.bias_ids = self._array([token for token, _ in params.logit_bias], "i")
        found.bias_values = self._array([value for _, value in params.logit_bias], "d")
        return found

    def _array(self, values: Sequence[float], kind: str) -> int:
        return self.put(struct.pack(f"{len(values)}{kind}", *values))

    def _head(self, case: Drawing) -> bytes:
        rows = case.rows
        lists = (self.put(one.tobytes()) for one in (rows.values, rows.ids, rows.logsumexp, rows.entropy))
        logits = 0 if rows.logits is None else self.put(rows.logits.tobytes())
        return struct.pack("8qd", *rows.ids.shape, case.vocabulary, *lists, logits, rows.temperature)


@pytest.fixture(scope="module")
def arm() -> Iterator[ArmCore]:
    with ArmLibrary("cortex-a53") as library:
        yield ArmCore(library)


def test_random_draws_are_those_of_this_machine(arm: ArmCore) -> None:
    errors = 0
    for seed in range(300):
        case = replace(random_drawing(np.random.default_rng([90, seed])), allowed=None)
        case = case if seed % 5 else replace(case, rows=replace(case.rows, logits=None))
        found = core(case)
        assert arm.drawn(case) == found, (seed, case.params.summary())
        errors += found.error is not None
    assert 5 < errors < 100


def test_exp_and_log_and_noise_have_the_bits_of_the_oracle(arm: ArmCore) -> None:
    compare_numbers(arm)
