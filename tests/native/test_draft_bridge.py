"""The native engine drafts with a model of another vocabulary through the maps of a device's folder."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from edgedec import native
from edgedec.bundle.manifest import Manifest
from edgedec.export.device import DeviceOrder, choose_drafters, write_device_folder
from tests.fixtures.tiny_models import tiny_bundle
from tests.native.test_api_drafters import SETTINGS, plain, tokens


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def test_a_folder_with_another_vocabulary_drafts_through_its_maps(place: Path, tmp_path: Path) -> None:
    target, small = tiny_bundle(place), tiny_bundle(place, "gemma3", seed=3)
    chosen = choose_drafters((), target, tmp_path / "home")
    write_device_folder(DeviceOrder("android", target, chosen, small, tmp_path / "home"), tmp_path / "phone")
    found, drafted, told = tokens(tmp_path / "phone")
    assert found == plain(target)
    assert list(drafted) == ["lookup", "recycling", small.name]
    assert drafted[small.name]["queries"]
    assert not [line for line in told if "drafter" in line]
    parts = native.plan(tmp_path / "phone", **SETTINGS)["parts"]
    assert parts["drafter"] > Manifest.load(small).spec.vocab_size


@pytest.mark.parametrize("wrong", [b"", b"\x00" * 10, b"same size", None])
def test_damaged_maps_cost_a_line(place: Path, tmp_path: Path, wrong: bytes | None) -> None:
    target, small = tiny_bundle(place), tiny_bundle(place, "gemma3", seed=3)
    chosen = choose_drafters((), target, tmp_path / "home")
    write_device_folder(DeviceOrder("android", target, chosen, small, tmp_path / "home"), tmp_path / "phone")
    file = tmp_path / "phone" / "maps" / small.name / "to_target.i32"
    size = file.stat().st_size
    if wrong == b"same size":  # an id that there is, but not the one of the list
        first = file.read_bytes()
        wrong = first[4:8] + first[:4] + first[8:]
    file.write_bytes(bytes(ctypes.c_int32(1 << 30)) * (size // 4) if wrong is None else wrong)
    found, drafted, told = tokens(tmp_path / "phone")
    assert found == plain(target)
    assert list(drafted) == ["lookup", "recycling"]
    assert len([line for line in told if "which drafts for it: to_target.i32" in line]) == 1
