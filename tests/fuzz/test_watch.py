"""What the fuzzer has to see besides answers: files elsewhere, processes, memory, reads past an end."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.fuzz import worker
from tests.fuzz.target import Files, Link, Target
from tests.fuzz.watch import Place

DEEDS: dict[str, tuple[Callable[[Path], object], str | None]] = {
    "reads": (lambda folder: (folder / "a").read_bytes(), None),
    "writes": (lambda folder: (folder / "b").write_bytes(b"x"), None),
    "makes the folder": (lambda folder: folder.mkdir(exist_ok=True), None),
    "removes a tree": (lambda folder: shutil.rmtree(folder / "sub"), None),
    "writes beside": (lambda folder: (folder.parent / "b").write_bytes(b"x"), "open "),
    "writes through a link": (lambda folder: (folder / "out").write_bytes(b"x"), "open "),
    "moves away": (lambda folder: os.rename(folder / "a", folder.parent / "a"), "os.rename "),
    "removes beside": (lambda folder: os.remove(folder.parent / "outside" / "secret"), "os.remove "),
    "removes a link only": (lambda folder: os.remove(folder / "out"), None),
    "makes a folder beside": (lambda folder: (folder.parent / "c").mkdir(), "os.mkdir "),
    "starts a process": (lambda folder: subprocess.run([sys.executable, "-c", ""]), "subprocess.Popen "),
}


@pytest.mark.parametrize("name", DEEDS)
def test_deeds(name: str, tmp_path: Path) -> None:
    deed, misdeed = DEEDS[name]
    place = Place(tmp_path)
    place.put({"a": b"1", "sub/x": b"2", "out": Link(b"../outside/secret")})
    with place.watched():
        deed(place.folder)
    found = place.misdeed()
    assert found is None if misdeed is None else found is not None and found.startswith(misdeed)


def test_what_a_library_writes_is_seen_afterwards(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.put({})
    (tmp_path / "outside" / "secret").write_bytes(b"overwritten")  # while nobody watches
    assert place.misdeed() == "a file beside the folder was changed"
    (tmp_path / "dropped").touch()
    assert str(place.misdeed()).startswith("files beside the folder")


def _hungry(folder: Path) -> None:
    bytearray(b"x" * (48 << 20))


def _roaming(folder: Path) -> None:
    (folder.parent / "b").write_bytes(b"x")


@pytest.mark.parametrize(("read", "finding"), [(_hungry, "hunger"), (_roaming, "misdeed"), (Path.stat, None)])
def test_an_answer_tells(
    read: Callable[[Path], object], finding: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(files: Files, rng: random.Random) -> None: ...

    target = Target("n", lambda folder: [({"a": b"1"}, {})], nothing, lambda folder: None)
    monkeypatch.setattr(worker, "TARGETS", {"n": replace(target, read=read)})
    request = {"target": "n", "seed": 0, "indices": [0]}
    seeds = {"n": target.seeds(tmp_path)}
    (answer,) = worker._answers(request, seeds, Place(tmp_path), most=128 << 20)
    assert answer.get("finding") == finding
    assert answer["outcome"] == "accepted"


READ = """
import ctypes, sys
from tests.fuzz.ops import Fenced
fenced = Fenced(100, heap=False)
ctypes.string_at(fenced.address, int(sys.argv[1]))
"""


@pytest.mark.parametrize(("size", "status"), [(100, 0), (101, -11)])
def test_the_end_of_an_input_is_the_end_of_memory(size: int, status: int) -> None:
    done = subprocess.run([sys.executable, "-c", READ, str(size)], cwd=ROOT, check=False)
    assert done.returncode == status
