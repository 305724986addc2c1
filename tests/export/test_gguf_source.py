"""Hostile GGUF files: whatever is wrong, one clear line, quickly and in little memory."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader

from edgedec.core.errors import BadFileError, EdgeDecError, NotFoundError, UnsupportedError
from edgedec.export.gguf_source import GgufSource, open_gguf
from tests.fixtures.tiny_gguf import write_tiny

U32, STRING, ARRAY = 4, 8, 9
ALIGNMENT = "general.alignment"
ENDLESS = struct.pack("<IQ", STRING, 2**62)


def string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def pair(key: str, kind: int, value: bytes) -> bytes:
    return string(key) + struct.pack("<I", kind) + value


def tensor(name: str = "t", dims: tuple[int, ...] = (32, 2), kind: int = 0, offset: int = 0) -> bytes:
    shape = struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
    return string(name) + shape + struct.pack("<IQ", kind, offset)


def make_gguf(
    pairs: tuple[bytes, ...] = (),
    tensors: tuple[bytes, ...] = (),
    *,
    version: int = 3,
    counts: tuple[int, int] | None = None,
    data: bytes = bytes(256),
) -> bytes:
    header = b"GGUF" + struct.pack("<IQQ", version, *(counts or (len(tensors), len(pairs))))
    header += b"".join(pairs) + b"".join(tensors)
    return header + bytes(-len(header) % 32) + data


def read(path: Path, content: bytes) -> GgufSource:
    path.write_bytes(content)
    with open_gguf(path) as source:
        return source


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.gguf"


def test_reads_what_the_gguf_package_reads(path: Path) -> None:
    write_tiny(path, "gemma3", formats={"*": "q4_0", "attn_v": "q8_0"})
    reader = GGUFReader(path)
    with open_gguf(path) as source:
        fields = {k: f.contents() for k, f in reader.fields.items() if not k.startswith("GGUF.")}
        assert source.metadata == fields
        assert list(source.tensors) == [t.name for t in reader.tensors]
        for theirs in reader.tensors:
            ours = source.tensors[theirs.name]
            assert (ours.offset, ours.nbytes, ours.type) == (
                theirs.data_offset,
                theirs.n_bytes,
                theirs.tensor_type,
            )
            if len(ours.shape) == 2:
                np.testing.assert_array_equal(source.rows(ours, 1, 7), theirs.data[1:7])
            else:
                np.testing.assert_array_equal(source.vector(ours), theirs.data)


def test_a_well_formed_handmade_file(path: Path) -> None:
    array = struct.pack("<IQ", U32, 3) + struct.pack("<3I", 7, 8, 9)
    source = read(path, make_gguf((pair("a", ARRAY, array), pair("b", STRING, string("é"))), (tensor(),)))
    assert source.metadata == {"a": [7, 8, 9], "b": "é"}
    assert source.tensors["t"].shape == (2, 32)


def test_missing_directory_empty(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no file"), open_gguf(tmp_path / "absent.gguf"):
        pass
    with pytest.raises(BadFileError, match="is a directory"), open_gguf(tmp_path):
        pass
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(BadFileError, match="is empty"), open_gguf(tmp_path / "empty"):
        pass


HUGE = 2**62
BROKEN: dict[str, tuple[bytes, type[EdgeDecError], str]] = {
    "zip": (b"PK\x03\x04" + bytes(100), BadFileError, "not a GGUF file"),
    "short": (b"GG", BadFileError, "cut short"),
    "version 1": (make_gguf(version=1), UnsupportedError, "version 1"),
    "version 99": (make_gguf(version=99), UnsupportedError, "version 99"),
    "big-endian": (make_gguf(version=3 << 24), UnsupportedError, "big-endian"),
    "tensor count": (make_gguf(counts=(HUGE, 0)), BadFileError, "claims 4611686018427387904 tensors"),
    "pair count": (make_gguf(counts=(0, HUGE)), BadFileError, "claims .* metadata values"),
    "key length": (make_gguf((struct.pack("<Q", HUGE) + b"k",)), BadFileError, "bytes long"),
    "value length": (make_gguf((pair("k", STRING, struct.pack("<Q", HUGE)),)), BadFileError, "bytes long"),
    "long value": (make_gguf((pair("k", STRING, struct.pack("<Q", 10**6)),)), BadFileError, "cut short"),
    "array length": (
        make_gguf((pair("k", ARRAY, struct.pack("<IQ", U32, HUGE)),)),
        BadFileError,
        "claims .* values in 'k'",
    ),
    "string array": (
        make_gguf((pair("k", ARRAY, ENDLESS),)),
        BadFileError,
        "claims",
    ),
    "nested array": (make_gguf((pair("k", ARRAY, struct.pack("<IQ", ARRAY, 1)),)), BadFileError, "type 9"),
    "unknown value": (make_gguf((pair("k", 77, b""),)), BadFileError, "unknown type 77"),
    "bad key": (make_gguf((string(b"\xff\xfe") + struct.pack("<II", U32, 1),)), BadFileError, "not UTF-8"),
    "same key": (make_gguf((pair("k", U32, bytes(4)),) * 2), BadFileError, "occurs twice"),
    "alignment": (
        make_gguf((pair(ALIGNMENT, U32, struct.pack("<I", 3)),)),
        BadFileError,
        "power of two",
    ),
    "alignment 0": (make_gguf((pair(ALIGNMENT, U32, bytes(4)),)), BadFileError, "power of two"),
    "alignment text": (
        make_gguf((pair(ALIGNMENT, STRING, string("x")),)),
        BadFileError,
        "power of two",
    ),
    "no dims": (make_gguf(tensors=(tensor(dims=()),)), BadFileError, "0 dimensions"),
    "many dims": (make_gguf(tensors=(tensor(dims=(1,) * 5),)), BadFileError, "5 dimensions"),
    "zero dim": (make_gguf(tensors=(tensor(dims=(32, 0)),)), BadFileError, "impossible shape"),
    "huge dim": (make_gguf(tensors=(tensor(dims=(HUGE, 32)),)), BadFileError, "impossible shape"),
    "huge product": (make_gguf(tensors=(tensor(dims=(2**30,) * 4),)), BadFileError, "outside the file"),
    "type": (make_gguf(tensors=(tensor(kind=999),)), UnsupportedError, "unknown type 999"),
    "ragged": (make_gguf(tensors=(tensor(dims=(33, 2), kind=2),)), BadFileError, "not a multiple of 32"),
    "offset": (make_gguf(tensors=(tensor(offset=32),)), BadFileError, "outside the file"),
    "far offset": (make_gguf(tensors=(tensor(offset=HUGE),)), BadFileError, "outside the file"),
    "odd offset": (make_gguf(tensors=(tensor(offset=8),)), BadFileError, "outside the file"),
    "same tensor": (make_gguf(tensors=(tensor(), tensor())), BadFileError, "occurs twice"),
    "overlap": (make_gguf(tensors=tuple(tensor(f"t{i}") for i in range(9))), BadFileError, "overlap"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name: str, path: Path) -> None:
    content, error, message = BROKEN[name]
    with pytest.raises(error, match=message) as caught:
        read(path, content)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_hostile_counts_cost_no_memory(path: Path) -> None:
    """Twenty million one-byte values are there, but they are not metadata of any model."""
    array = struct.pack("<IQ", 0, 20_000_000) + bytes(20_000_000)
    content = make_gguf((pair("k", ARRAY, array),))
    path.write_bytes(content)
    del content, array
    tracemalloc.start()
    try:
        with pytest.raises(BadFileError, match="more than 8388608 values"), open_gguf(path):
            pass
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_truncated_anywhere(path: Path) -> None:
    whole = write_tiny(path).read_bytes()
    for end in [*range(0, 4000, 61), *range(4000, len(whole), 997), len(whole) - 1]:
        with pytest.raises(BadFileError):
            read(path, whole[:end])


def test_file_that_shrinks_while_open(path: Path) -> None:
    write_tiny(path)
    with open_gguf(path) as source:
        last = max(source.tensors.values(), key=lambda tensor: tensor.offset)
        path.write_bytes(path.read_bytes()[:-4096])
        with pytest.raises(BadFileError, match="ends inside tensor"):
            source.vector(last)
