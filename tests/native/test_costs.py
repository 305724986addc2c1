"""decode/: pass costs are timed, kept and doubted as Python does it; prepared tables are read alike."""

from __future__ import annotations

import ctypes
import json
import random
import zlib
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_double, c_int, c_size_t
from pathlib import Path
from typing import Any

import pytest

from edgedec.costs.cost_file import CostFile, KeptCosts, Moment
from edgedec.costs.pass_costs import known_costs
from edgedec.draft import Lookup, Recycling
from edgedec.drafters.tables import read_table, write_table
from edgedec.native import probe
from tests.native.played import ProbeForward, Ticks, Timed, calls_of

CONDITIONS = ("0.1.0", "weights", "isa", "2", "cpu")


def native(
    seed: int, folder: Path | None, *, wall: float, capacity: int = 64, again: bool = False
) -> dict[str, Any]:
    clock = Ticks(seed)
    calls = calls_of(Timed(clock, capacity), clock)
    know = probe.text_function("know_costs", POINTER(ProbeForward), c_char_p, c_double, c_double, c_int)
    place = str(folder).encode() if folder else None
    found: dict[str, Any] = json.loads(know(ctypes.byref(calls), place, wall, 0.5, again))
    return found


def python(seed: int, folder: Path | None, *, wall: float, capacity: int = 64) -> dict[str, Any]:
    clock, lines = Ticks(seed), []
    file = (
        CostFile(folder / "x.json", CONDITIONS, "on this machine", lambda: wall, lambda: 0.5)
        if folder
        else None
    )
    model = Timed(clock, capacity)
    costs = known_costs(model, file, clock=clock, notice=lines.append)
    points = [[tokens, seconds] for tokens, seconds in costs.curve.measured().items()]
    return {
        "costs": points,
        "old": costs.curve.level_is_old,
        "lines": [line.replace(" on this machine", "") for line in lines],
    }


def same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert {name: ours[name] for name in theirs} == theirs


@pytest.mark.parametrize("capacity", [1, 3, 64])
def test_costs_are_measured_as_python_measures_them(capacity: int) -> None:
    for seed in range(3):
        same(native(seed, None, wall=0.0, capacity=capacity), python(seed, None, wall=0.0, capacity=capacity))


def test_costs_are_kept_in_a_file_that_both_read(tmp_path: Path) -> None:
    first = native(1, tmp_path / "native", wall=1000.0)
    same(first, python(1, tmp_path / "python", wall=1000.0))
    assert len(first["lines"]) == 1
    assert not first["old"]
    path = Path(first["path"])
    ours, theirs = (json.loads(one.read_text()) for one in (path, tmp_path / "python" / "x.json"))
    assert ours == theirs
    assert CostFile(path, CONDITIONS).read() == CostFile(tmp_path / "python" / "x.json", CONDITIONS).read()

    again = native(2, tmp_path / "native", wall=2000.0)
    same(again, python(2, tmp_path / "python", wall=2000.0))
    assert again["old"]
    assert again["lines"] == []
    assert native(2, tmp_path / "native", wall=3000.0, again=True)["costs"] != again["costs"]


def test_a_file_that_cannot_be_written_costs_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    lines = native(1, tmp_path / "file", wall=0.0)["lines"]
    assert lines[-1].endswith("the next start measures again")


def corrected(text: bytes, now: dict[int, float], wall: float) -> dict[str, Any] | None:
    tokens, seconds = (c_int * len(now))(*now), (c_double * len(now))(*now.values())
    call = probe.text_function(
        "corrected", c_char_p, c_size_t, POINTER(c_int), POINTER(c_double), c_size_t, c_double
    )
    found = call(text, len(text), tokens, seconds, len(now), wall)
    return None if found is None else json.loads(found)


def test_corrections_and_doubts_are_pythons(tmp_path: Path) -> None:
    draw = random.Random(1)
    file = CostFile(tmp_path / "x.json", CONDITIONS)
    for _ in range(100):
        sizes = sorted({1, *draw.sample(range(2, 65), 4)})
        kept = KeptCosts(
            {size: draw.uniform(0.001, 0.1) for size in sizes},
            Moment(1000.0, draw.choice((None, 0.25)), draw.uniform(0.001, 0.1)),
            Moment(2000.0, None, 0.5),
            draw.random() < 0.3,
        )
        file.write(kept)
        now = {size: draw.uniform(0.001, 0.1) for size in (1, *draw.sample(sizes[1:], 2), 70)}
        wall = draw.choice((1000.0, 4599.0, 4600.0, 9000.0))
        expected = kept.corrected(now, Moment(wall, None, now[1]))
        assert corrected(file.path.read_bytes(), now, wall) == {
            "seconds": [[size, seconds] for size, seconds in expected.seconds.items()],
            "doubted": expected.doubted,
            "stands": expected.stands(wall),
            "measured": 1000.0,
            "kept": wall,
        }


def test_damaged_files_of_costs_are_measured_again(tmp_path: Path) -> None:
    path = Path(native(1, tmp_path, wall=1000.0)["path"])
    text = path.read_bytes()
    draw = random.Random(1)
    file, refused = CostFile(path, CONDITIONS), 0
    for _ in range(200):
        damaged = bytearray(text)
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(damaged))
            damaged[at : at + draw.randrange(3)] = bytes(
                draw.choices(b'0123456789"{}:,.-e\xff', k=draw.randrange(3))
            )
        path.write_bytes(damaged)
        ours = corrected(bytes(damaged), {}, 1000.0)
        refused += ours is None
        assert ours is None or file.read() is not None
    assert refused > 100


def table_of(drafter: Lookup | Recycling, folder: Path) -> bytes:
    drafter.begin([1, 2, 3] * 50, 0)
    write_table(folder, drafter.name, drafter.saved())
    return (folder / f"{drafter.name}.table").read_bytes()


def unpacked(packed: bytes) -> bytes | None:
    found: bytes | None = probe.text_function("unpack", c_char_p, c_size_t)(packed, len(packed))
    return found


@pytest.mark.parametrize("make", [Lookup, lambda: Recycling(memory=1 << 12), Recycling])
def test_prepared_tables_are_unpacked(tmp_path: Path, make: Callable[[], Lookup | Recycling]) -> None:
    packed = table_of(make(), tmp_path)
    assert unpacked(packed) == read_table(packed, "table")


def test_all_ways_of_packing_are_read() -> None:
    draw = random.Random(1)
    for size in (0, 1, 10, 1000, 70_000):
        for text in (draw.randbytes(size), bytes(size), bytes(draw.choices(b"abc", k=size))):
            for level in (0, 1, 6, 9):
                assert unpacked(size.to_bytes(4, "little") + zlib.compress(text, level)) == text


def agree_on(packed: bytes) -> None:
    try:
        expected: bytes | None = read_table(packed, "table")
    except ValueError:
        expected = None
    assert unpacked(packed) == expected


def damage(draw: random.Random, packed: bytes) -> bytes:
    found = bytearray(packed)
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(found))
        found[at : at + draw.randrange(4)] = draw.randbytes(draw.randrange(4))
    return bytes(found[: draw.randrange(len(found)) if draw.random() < 0.1 else len(found)])


def packed_texts(draw: random.Random) -> list[bytes]:
    texts = [bytes(draw.choices(b"abcdefgh", k=200)), draw.randbytes(50), bytes(300)]
    return [
        len(text).to_bytes(4, "little") + zlib.compress(text, level) for text in texts for level in (0, 1, 9)
    ]


def test_damaged_tables_are_refused() -> None:
    draw = random.Random(2)
    texts = packed_texts(draw)
    for _ in range(2000):
        agree_on(damage(draw, draw.choice(texts)))


@pytest.mark.slow
def test_a_hundred_thousand_damaged_tables() -> None:
    draw = random.Random(3)
    texts = packed_texts(draw)
    for _ in range(100_000):
        agree_on(damage(draw, draw.choice(texts)))
