"""Programs as data: sizes, shared memory, JSON."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgedec.backends.gpu.build.memory import share_memory
from edgedec.backends.gpu.program import (
    ONCE,
    BufferSize,
    GridCount,
    HeadEnding,
    KernelStep,
    PassSizes,
    Program,
    TensorPlace,
    When,
)

HEAD = HeadEnding(4, 100, 1, True, 0.0, {"sums": "sums"}, "logits")


def step(*bind: str, when: When = "always") -> KernelStep:
    return KernelStep(
        "k", {"N": 1, "EPSILON": 1e-6, "ON": True}, bind, (ONCE, GridCount("tokens", 3, 2), ONCE), when=when
    )


def program(**changes: object) -> Program:
    given = Program(
        {"name": "m"}, 100, 8, 4, HEAD, {"w": TensorPlace(256, 64)}, {"c": "AAAA"},
        {"x": BufferSize("token", 8), "@kv.0": BufferSize("slot", 16)},
        (step("x", "y"), replace(step("y"), tokens=(1, 1))), (step("@kept"),),
    )  # fmt: skip
    return replace(given, **changes)  # type: ignore[arg-type]


def test_sizes_are_those_of_the_longest_pass_and_all_slots() -> None:
    one = program()
    assert one.buffer_bytes("x") == 64
    assert one.cache_bytes() == 1600
    assert one.scratch_bytes() == 64
    assert one.weight_bytes() == 64


def test_steps_are_for_passes_of_some_lengths() -> None:
    first, second = program().steps
    assert [first.runs(n) for n in (1, 2)] == [True, True]
    assert [second.runs(n) for n in (1, 2)] == [True, False]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (GridCount("tokens", 3, 2), 8),
        (GridCount("rows", over=4), 1),
        (GridCount("kept", over=8), 12),
        (GridCount("steps", 2), 18),
        (ONCE, 1),
    ],
)
def test_grids_count_workgroups(count: GridCount, expected: int) -> None:
    assert count.of(PassSizes(5, 2, 90, 3, steps=9)) == expected


BYTES = {"a": 100, "b": 50, "c": 100, "d": 40, "e": 10}
BUFFERS = {name: BufferSize("once", size) for name, size in BYTES.items()}


def shared(*steps: KernelStep, kept: frozenset[str] = frozenset()) -> dict[str, int]:
    found = share_memory(BUFFERS, steps, BYTES.__getitem__, kept)
    return {name: size.memory for name, size in found.items()}


def test_buffers_share_memory_once_nothing_needs_the_other() -> None:
    memory = shared(step("a", "b"), step("b", "c"), step("c", "d"))
    assert memory["a"] == memory["c"]
    assert memory["b"] == memory["d"] != memory["a"]


def test_buffers_of_one_step_never_share() -> None:
    memory = shared(step("a", "b", "c", "d"), step("d", "e"))
    assert len({memory[name] for name in "abcd"}) == 4
    assert memory["e"] != memory["d"]


def test_what_the_head_reads_is_kept_for_its_next_rows() -> None:
    memory = shared(
        step("a", "b"), step("b", "c", when="rows"), step("c", "d", when="rows"), step("d", "e", when="rows")
    )
    assert memory["b"] not in {memory[name] for name in "cde"}
    assert memory["c"] == memory["e"] or memory["a"] in (memory["c"], memory["d"], memory["e"])


def test_results_are_kept() -> None:
    assert shared(step("a", "b"), step("b", "c"), kept=frozenset("a"))["a"] == -1
