"""``edgedec push`` against a pretended adb, whose phone is a directory."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import Result

from edgedec.bundle.device_folder import DeviceFolder
from edgedec.bundle.drafter_manifest import Target
from edgedec.disk.listed_files import FileEntry
from edgedec.export.device import adb as bridge
from edgedec.export.device.push import APP
from tests.cli.support import assert_one_line, run

ADB = r"""#!/bin/sh
# $PHONE is the root of the phone's file system; a file in it named like a fault switches that on.
fault() { [ -e "$PHONE/faults/$1" ]; }
echo "$*" >> "$PHONE/calls"
case "$1" in
get-state)
    fault none && { echo "error: no devices/emulators found" >&2; exit 1; }
    fault many && { echo "adb: more than one device/emulator" >&2; exit 1; }
    fault stranger && { printf "error: device unauthorized.\nThe key is not set\n" >&2; exit 1; }
    fault recovery && { echo recovery; exit 0; }
    echo device ;;
shell)
    script=$(printf '%s' "$2" | sed "s#/data/local#$PHONE/data/local#g; s#/sdcard#$PHONE/sdcard#g")
    command() { ! fault oldphone; }
    pm() { [ -e "$PHONE/installed" ] && echo "package:/data/app/base.apk"; }
    df() { echo "Filesystem 1K-blocks Used Available Use% Mounted"; echo "/dev/x 9 9 $free 1% /data"; }
    free=$(cat "$PHONE/free")
    touch() { ! fault readonly; }
    rm() { /bin/rm -f "$@"; }
    eval "$script" ;;
push)
    target=$(printf '%s' "$3" | sed "s#^/data/local#$PHONE/data/local#; s#^/sdcard#$PHONE/sdcard#")
    case "$2" in
    *weights.bin)
        fault cut && { head -c 3 "$2" > "$target"; echo "adb: error: connect failed: closed" >&2; exit 1; }
        fault full && { echo "adb: error: failed to copy: remote No space left on device" >&2; exit 1; }
        fault stall && exec sleep 20
        fault damage && { printf x > "$target"; exit 0; } ;;
    esac
    cp "$2" "$target"
    echo "1 file pushed" ;;
*) exit 1 ;;
esac
"""
NAMES = ("manifest.json", "weights.bin", "models/small/weights.bin", "drafters/head/head.onnx")


@dataclass
class Phone:
    root: Path
    folder: Path

    def push(self, *more: str) -> Result:
        return run(None, "push", str(self.folder), *more)

    def breaks(self, *faults: str) -> None:
        for old in (self.root / "faults").iterdir():
            old.unlink()
        for fault in faults:
            (self.root / "faults" / fault).touch()

    @property
    def place(self) -> Path:
        return self.root / "data" / "local" / "tmp" / "edgedec" / "models" / "Tiny-model"

    def pushed(self) -> list[str]:
        """Names of the files that adb was told to send since the last question."""
        calls = self.root / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        calls.unlink(missing_ok=True)
        return [os.path.relpath(line.split()[1], self.folder) for line in lines if line.startswith("push ")]


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Phone:
    folder, root, programs = tmp_path / "phone", tmp_path / "root", tmp_path / "bin"
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"the {name}")
        (folder / name).chmod(0o600)
    files = {name: FileEntry.of(folder / name) for name in NAMES}
    DeviceFolder("android", Target("Tiny model", "0" * 64, 300), (), files).save(folder)
    (root / "faults").mkdir(parents=True)
    (root / "free").write_text("1000")
    programs.mkdir()
    (programs / "adb").write_text(ADB)
    (programs / "adb").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PHONE", str(root))
    return Phone(root, folder)


def test_all_files_arrive_and_none_is_sent_twice(phone: Phone) -> None:
    result = phone.push()
    assert result.exit_code == 0, result.output
    assert "in 5 files sent, 0 were there" in result.stdout
    assert "/data/local/tmp/edgedec/models/Tiny-model on the phone" in result.stdout
    for name in (*NAMES, "device.json"):
        assert (phone.place / name).stat().st_mode & 0o444 == 0o444
        assert (phone.place / name).read_bytes() == (phone.folder / name).read_bytes()
    assert phone.pushed()[-1] == "device.json"
    told = json.loads(phone.push("--json").stdout)
    assert (told["bytes"], told["sent"], told["present"]) == (0, {}, 5)
    assert phone.pushed() == []


def test_it_goes_on_where_it_was_cut_off(phone: Phone) -> None:
    phone.breaks("cut")
    assert_one_line(phone.push(), 9, "weights.bin could not be sent: connect failed", "goes on")
    assert not (phone.place / "device.json").exists()
    before = phone.pushed()
    phone.breaks()
    assert phone.push().exit_code == 0
    assert sorted([*before[:-1], *phone.pushed()]) == sorted((*NAMES, "device.json"))


def test_a_file_that_changed_takes_the_list_away_first(phone: Phone) -> None:
    assert phone.push().exit_code == 0
    phone.pushed()
    (phone.place / "weights.bin").write_text("another")
    phone.breaks("full")
    assert_one_line(phone.push(), 7, "no space is left on the phone for weights.bin")
    assert not (phone.place / "device.json").exists()
    phone.breaks()
    phone.pushed()
    assert phone.push().exit_code == 0
    assert phone.pushed() == ["weights.bin", "device.json"]


def test_a_file_that_arrives_damaged_is_said(phone: Phone) -> None:
    phone.breaks("damage")
    assert_one_line(phone.push(), 9, "weights.bin arrived damaged", "sends it again")
    assert not (phone.place / "device.json").exists()
    phone.breaks()
    (phone.folder / "weights.bin").write_text("The weights.bin")
    assert_one_line(phone.push(), 4, "weights.bin of the device folder fails its SHA-256")


def test_a_transfer_that_stands_still_ends(phone: Phone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "_LOOK_S", 0.05)
    monkeypatch.setattr(bridge, "_STALLED_S", 0.2)
    phone.breaks("stall")
    assert_one_line(phone.push(), 9, "weights.bin arrived for 0 s", "goes on")


def test_a_phone_that_cannot_hash_is_refused(phone: Phone) -> None:
    phone.breaks("oldphone")
    assert_one_line(phone.push(), 5, "the phone has no sha256sum", "by USB")


def test_a_small_phone_is_known_before(phone: Phone) -> None:
    (phone.root / "free").write_text("0")
    assert_one_line(phone.push(), 7, "the phone has 0 B free")
    assert phone.pushed() == []


def test_the_app_has_the_files_in_its_own_folder(phone: Phone) -> None:
    (phone.root / "installed").touch()
    place = json.loads(phone.push("--json").stdout)["place"]
    assert place == f"/sdcard/Android/data/{APP}/files/models/Tiny-model"
    assert (phone.root / place[1:] / "device.json").is_file()
    phone.breaks("readonly")
    result = phone.push()
    assert result.exit_code == 0
    assert "lets nobody write to the app's folder" in result.stderr
    assert (phone.place / "device.json").is_file()


@pytest.mark.parametrize(
    ("fault", "said", "hint"),
    [
        ("none", "no devices/emulators found", "USB debugging"),
        ("many", "more than one device", "ANDROID_SERIAL"),
        ("stranger", "unauthorized", "allow this computer"),
        ("recovery", "in the state 'recovery'", "adb devices"),
    ],
)
def test_a_phone_that_is_not_reached_is_one_line(phone: Phone, fault: str, said: str, hint: str) -> None:
    phone.breaks(fault)
    assert_one_line(phone.push(), 3, said, hint, "http.server")


def test_without_adb_two_ways_by_hand_are_named(phone: Phone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(phone.root))
    by_hand = (f"copy {phone.folder} to the phone by USB", f"python -m http.server -d {phone.folder}")
    assert_one_line(phone.push(), 3, "adb is not on the PATH", *by_hand)


def test_another_folder_is_one_line(phone: Phone) -> None:
    (phone.folder / "device.json").unlink()
    assert_one_line(phone.push(), 3, "no EdgeDec device folder at", "edgedec export NAME --for android")
    assert phone.pushed() == []
