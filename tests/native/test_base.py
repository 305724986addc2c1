"""base/: JSON, numbers, hashes and files of the native engine, against Python's."""

from __future__ import annotations

import hashlib
import json
import math
import random
import struct
from pathlib import Path

import pytest

from edgedec.native import probe

HOSTILE = [
    "", " ", "{", "[", '"', "[1,]", '{"a":}', '{"a" 1}', "{1:2}", "01", "1.", ".5", "-", "+1", "1e", "1e+",
    "tru", "nul", '"\x01"', '"\\x"', '"\\u12"', '"\\u12g4"', "[1 2]", "1 1", "\ufeff1", "[" * 70 + "]" * 70,
    "'a'", "{,}", "[,]", "--1", "0x10", "1_0", "\u0661",
]  # fmt: skip
SOUND = [
    "0", "-0", "-0.0", "12", "1e5", "1E-5", "123456789012345678901234567890", "1.5", "true", "false", "null",
    '""',
    '"\\u00e4\\ud83d\\ude00\\ud800x\\n\\/"', "[]", "{}", ' [ 1 , "a" , { "b" : [ ] } ] ',
    '{"b":1,"a":2,"b":3}',
    '"\u00e4\U0001f600\x7f"', "1e400", "-1e400", "5e-324", "2e-324", '{"\\ue000": 1, "\U00010000": 2}',
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_no_json_is_refused(text: str) -> None:
    assert probe.json(text.encode()) is None


@pytest.mark.parametrize("text", SOUND)
def test_json_is_written_as_python_writes_it(text: str) -> None:
    assert probe.json(text.encode()) == json.dumps(json.loads(text), sort_keys=True).encode()


def test_text_that_is_not_utf8_is_no_json() -> None:
    for data in (
        b'"\xff"',
        b'"\xc0\x80"',
        b'"\xed\xa0\x80"',
        b'"\xf5\x80\x80\x80"',
        b'"\xe2\x82"',
        b'"\xc3"',
    ):
        assert probe.json(data) is None


def random_value(draw: random.Random, depth: int = 0) -> object:
    kind = draw.randrange(8 if depth < 4 else 6)
    if kind == 6:
        return [random_value(draw, depth + 1) for _ in range(draw.randrange(4))]
    if kind == 7:
        return {random_text(draw): random_value(draw, depth + 1) for _ in range(draw.randrange(4))}
    return [
        None,
        draw.random() < 0.5,
        draw.randrange(-(10**20), 10**20),
        random_double(draw),
        random_text(draw),
        0,
    ][kind]


def random_text(draw: random.Random) -> str:
    return "".join(
        chr(draw.choice([draw.randrange(0xD800), draw.randrange(128), 0x1F600]))
        for _ in range(draw.randrange(6))
    )


def random_double(draw: random.Random) -> float:
    while not math.isfinite(found := struct.unpack("<d", draw.randbytes(8))[0]):
        pass
    return float(
        draw.choice([found, round(draw.uniform(0, 2), 3), draw.random(), 2.0 ** draw.randrange(-1074, 1023)])
    )


def test_random_values_come_back_as_python_writes_them() -> None:
    draw = random.Random(1)
    for _ in range(1000):
        value = random_value(draw)
        text = json.dumps(value, ensure_ascii=draw.random() < 0.5)
        assert probe.json(text.encode()) == json.dumps(value, sort_keys=True).encode(), text


def test_numbers_have_the_bits_and_the_texts_of_pythons() -> None:
    draw = random.Random(2)
    edges = [
        5e-324,
        2.2250738585072014e-308,
        2.225073858507201e-308,
        1.7976931348623157e308,
        1e16,
        1e15,
        1e-4,
        1e-5,
    ]
    edges += [2.0**exponent for exponent in range(-1074, 1024, 37)] + [9007199254740993.0, 0.1, 0.3, 1 / 3]
    for value in [*edges, *(random_double(draw) for _ in range(3000))]:
        assert probe.real_text(value) == repr(value)
        assert probe.parse_real(repr(value)) == value
    for _ in range(2000):
        digits = "".join(draw.choices("0123456789", k=draw.randrange(1, 40)))
        text = f"{digits[:1]}.{digits[1:] or 0}e{draw.randrange(-340, 320)}"
        assert probe.parse_real(text) == float(text), text
    for halfway in (
        "9007199254740993",
        "9007199254740993." + 900 * "0" + "1",
        "2.4703282292062327e-324",
        "1.5e-323",
    ):
        assert probe.parse_real(halfway) == float(halfway)
    for wrong in ("", "-", ".", "e5", "1e", "1x", "nan", "1,5"):
        assert probe.parse_real(wrong) is None


def test_hashes() -> None:
    data = random.Random(3).randbytes(1000)
    for size in (0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 1000):
        for step in (1, 7, 64, 1000):
            assert probe.sha256(data[:size], step) == hashlib.sha256(data[:size]).hexdigest()


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file"
    for size in (0, 1, 4096, 300_000):
        assert probe.write_read(str(path), bytes(size), 1 << 20) == 0
    assert [one.name for one in path.parent.iterdir()] == ["file"]
    assert probe.write_read(str(path), bytes(100), 99) == 4
    assert probe.write_read(str(path / "below"), b"x", 99) == 7
    (tmp_path / "directory").mkdir()
    assert probe.write_read(str(tmp_path / "directory"), b"x", 99) == 7
    assert [one.name for one in tmp_path.iterdir() if "partial" in one.name] == []
