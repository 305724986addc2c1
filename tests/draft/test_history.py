from __future__ import annotations

import os
import stat
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedec.draft import Drafter, Lookup, Recycling
from edgedec.draft.history import MOST_BYTES, read_history, write_history

KNOWN = {"lookup": b"\x01\x02", "recycling": b"", "x": bytes(3000)}


def written(folder: Path) -> Path:
    file = folder / "drafts" / "model.drafts"
    write_history(file, "key", KNOWN.items())
    return file


def test_what_was_written_is_read(tmp_path: Path) -> None:
    file = written(tmp_path)
    assert read_history(file, "key") == KNOWN
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_of_another_model_nothing_is_known(tmp_path: Path) -> None:
    assert read_history(written(tmp_path), "other") == {}
    assert read_history(tmp_path / "missing", "key") == {}


def test_another_version_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path)
    file.write_bytes(file.read_bytes().replace(b"drafts 1", b"drafts 2", 1))
    with pytest.raises(ValueError, match="version"):
        read_history(file, "key")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    file = written(tmp_path_factory.mktemp("history"))
    whole = bytearray(file.read_bytes())
    at = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        del whole[at:]
    else:
        whole[at] ^= data.draw(st.integers(1, 255))
    file.write_bytes(whole)
    with pytest.raises(ValueError, match="it is"):
        read_history(file, "key")


def test_what_is_too_long_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "model.drafts"
    write_history(file, "key", [("long", bytes(MOST_BYTES)), ("short", b"1")])
    assert read_history(file, "key") == {"short": b"1"}


def test_writing_takes_little_beside_one_drafter(tmp_path: Path) -> None:
    size = 1 << 20
    tracemalloc.start()
    try:
        write_history(tmp_path / "model.drafts", "key", ((str(at), os.urandom(size)) for at in range(5)))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [len(data) for data in read_history(tmp_path / "model.drafts", "key").values()] == [size] * 5
    assert most < 1.5 * size


def test_drafters_fit() -> None:
    drafters: list[Drafter] = [Lookup(), Recycling()]
    assert all(drafter.caps.remembers for drafter in drafters)
    assert sum(len(drafter.saved()) for drafter in drafters) < MOST_BYTES
