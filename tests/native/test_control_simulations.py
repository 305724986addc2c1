"""Decoding in simulated time (``tests.control.simulate``) with both controls: they draft the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edgedec.control import CostCurve
from tests.control.simulate import CURVES, curve
from tests.control.test_exits import (
    GOOD_EXIT,
    LARGE_HEAD,
    SMALL_HEAD,
    UNPROFITABLE,
    interrupted,
    ratios,
    speculated,
)
from tests.control.test_never_slower import (
    MACHINES,
    PASS,
    TEXTS,
    following,
    guessing,
    on,
    short_replies,
    speedup,
)
from tests.native.control_record import Recorder, same

TARGETS = {
    "small head": SMALL_HEAD,
    "large head": LARGE_HEAD,
    "good exit": GOOD_EXIT,
    "unprofitable": UNPROFITABLE,
}
RESTLESS = {"calm": {}, **MACHINES}


@pytest.fixture(autouse=True)
def compared(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Recorder]]:
    """Let speculation use controllers that are recorded, and compare each one in the end."""
    recorders: list[Recorder] = []

    class Recorded(Recorder):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)  # type: ignore[arg-type]
            recorders.append(self)

    monkeypatch.setattr("edgedec.decode.speculation.Controller", Recorded)
    yield recorders
    assert recorders
    for recorder in recorders:
        same(recorder)


@pytest.mark.parametrize("name", ["right by turns of 40", "a modest one"])
def test_a_quick_drafter(name: str) -> None:
    speedup(guessing(*TEXTS[name]), on("vnni", **MACHINES["noisy"]), length=500)


def test_exits_of_a_large_head() -> None:
    ratios(LARGE_HEAD, "vnni", tuple(LARGE_HEAD.right), 500, **MACHINES["slowing down"])


def test_an_old_level() -> None:
    kept = {tokens: 3.0 * time for tokens, time in curve(CURVES["vnni"]).measured().items()}
    speculated(LARGE_HEAD, "vnni", [18], 300, believed=CostCurve(kept, old=True))


@pytest.mark.slow
@pytest.mark.parametrize("machine", RESTLESS)
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("shape", CURVES)
def test_every_text_on_every_machine(shape: str, name: str, machine: str) -> None:
    right, claims = TEXTS[name]
    for level in (0.0, 0.2):
        speedup(guessing(right, claims, call=0.02 * PASS, level=level * PASS), on(shape, **RESTLESS[machine]))


@pytest.mark.slow
@pytest.mark.parametrize("machine", RESTLESS)
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("shape", ["vnni", "avx2", "linear"])
def test_every_target_with_its_exits(shape: str, name: str, machine: str) -> None:
    target = TARGETS[name]
    ratios(target, shape, tuple(target.right), **RESTLESS[machine])
    kind = interrupted(range(1, 400, 7), 8.0)
    ratios(target, shape, tuple(target.right)[:2], 1000, kind, **RESTLESS[machine])


@pytest.mark.slow
@pytest.mark.parametrize("right", [0.0, 0.3, 0.7])
def test_a_small_model_that_reads_first(right: float) -> None:
    speedup(following(right), on("quants", noise=0.08))
    short_replies([right] * 40 + [0.75] * 40)
