"""The build of the Android app: what it says where something is missing, and that it can be repeated."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from edgedec.core.version import __version__
from edgedec.models.catalogue import CATALOGUE
from tests.conftest import ROOT

DEMO = ROOT / "android_demo"
MAIN = DEMO / "app" / "src" / "main"
MANIFEST = MAIN / "AndroidManifest.xml"
sys.path.insert(0, str(DEMO))
building = pytest.importorskip("building")
from building import app, downloads, models, notices, pages, signing, tools  # noqa: E402

PROGRAMS = ("aapt2", "apksigner", "java", "javac", "keytool", "zipalign")


def cached() -> Path:
    return Path(os.environ.get("EDGEDEC_ANDROID_DOWNLOADS", ROOT / "build" / "android" / "downloads"))


needs_tools = pytest.mark.skipif(
    not all(map(shutil.which, PROGRAMS)) or not tools.FRAMEWORK.is_file(),
    reason=f"needs {', '.join(PROGRAMS)} and android-framework-res",
)
needs_downloads = pytest.mark.skipif(
    not (cached() / downloads.D8.name).is_file(),
    reason="needs what `python android_demo/build.py` fetches (EDGEDEC_ANDROID_DOWNLOADS)",
)


def test_missing_programs_are_named_with_their_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tools, "FRAMEWORK", tmp_path / "framework-res.apk")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(tools.BuildError) as raised:
        tools.require("javac", "aapt2", "java", framework=True)
    line = str(raised.value)
    assert "apt install aapt android-framework-res default-jdk-headless" in line
    assert "\n" not in line


def test_a_program_that_fails_gives_its_last_lines() -> None:
    with pytest.raises(tools.BuildError, match=r"ended with status 3:\nbad things"):
        tools.run([sys.executable, "-c", "import sys; print('bad things'); sys.exit(3)"])


def test_a_download_with_another_hash_is_refused_and_removed(tmp_path: Path) -> None:
    def fetch(cache: Path, wanted: list[downloads.Wanted]) -> None:
        (cache / wanted[0].name).write_bytes(b"something else")

    wanted = downloads.Wanted("file", hashlib.sha256(b"right").hexdigest(), "member")
    with pytest.raises(tools.BuildError, match="has the SHA-256"):
        downloads._kept(tmp_path, [wanted], fetch)
    assert not (tmp_path / "file").exists()
    (tmp_path / "file").write_bytes(b"right")
    assert downloads._kept(tmp_path, [wanted], fetch) == [tmp_path / "file"]


def test_a_runtime_of_the_user_is_a_library_or_an_archive(tmp_path: Path) -> None:
    with pytest.raises(tools.BuildError, match="there is no file"):
        downloads.own_runtime(tmp_path / "x.aar", tmp_path)
    archive = tmp_path / "x.aar"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("classes.jar", b"")
    with pytest.raises(tools.BuildError, match=r"take the \.aar of onnxruntime-android"):
        downloads.own_runtime(archive, tmp_path)
    with zipfile.ZipFile(archive, "a") as opened:
        opened.writestr(downloads.RUNTIME_MEMBER, b"library")
    assert downloads.own_runtime(archive, tmp_path).read_bytes() == b"library"


def test_a_keystore_without_its_password_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.delenv(signing.PASSWORD, raising=False)
    with pytest.raises(tools.BuildError, match="there is no keystore"):
        signing.sign(tmp_path / "a", tmp_path / "b", tmp_path / "mine.jks", tmp_path / "trial")
    (tmp_path / "mine.jks").write_bytes(b"")
    with pytest.raises(tools.BuildError, match=signing.PASSWORD):
        signing.sign(tmp_path / "a", tmp_path / "b", tmp_path / "mine.jks", tmp_path / "trial")


def test_the_command_says_what_it_takes() -> None:
    done = subprocess.run(
        [sys.executable, DEMO / "build.py", "--help"], capture_output=True, text=True, check=True
    )
    assert "--keystore" in done.stdout
    wrong = [sys.executable, DEMO / "build.py", "--runtime", "nowhere.so", "-o", "/dev/null/x"]
    failed = subprocess.run(wrong, capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert failed.stderr.startswith("error: there is no file nowhere.so")


def elf(align: int, address: int = 0) -> bytes:
    """A 64-bit library with one segment."""
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 183, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0
    )
    return header + struct.pack("<IIQQQQQQ", 1, 5, 0, address, address, 120, 120, align)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (elf(4096), "aligned for pages of 4096 bytes"),
        (elf(16384, 4096), "aligned for pages of"),
        (elf(0), "aligned for pages of 0 bytes"),
        (elf(16384)[:100], "is no 64-bit library"),
        (b"\x7fELF\x01\x01" + elf(16384)[6:], "is no 64-bit library"),
        (b"", "is no 64-bit library"),
    ],
)
def test_a_library_for_smaller_pages_is_refused(data: bytes, said: str, tmp_path: Path) -> None:
    library = tmp_path / "libonnxruntime.so"
    library.write_bytes(data)
    with pytest.raises(tools.BuildError, match=said):
        pages.check(library)
    library.write_bytes(elf(65536))
    pages.check(library)


@needs_downloads
def test_the_runtime_of_the_app_is_for_pages_of_16_kb() -> None:
    pages.check(cached() / downloads.RUNTIME.name)


def test_the_list_of_models_is_that_of_the_catalogue() -> None:
    """Models to chat with; those with experts may have them in storage."""
    listed = {one["name"]: one for one in json.loads(models.listed())["models"]}
    assert listed.keys() == {name for name, one in CATALOGUE.items() if one.chats and one.base is None}
    for name, one in listed.items():
        entry = CATALOGUE[name]
        assert (one["bytes"], one["memory"]) == (entry.recipe.bytes, entry.memory())
        assert one["least"] == entry.least_memory() < one["memory"], name
        assert one["experts"] == (entry.spec.experts is not None), name
    assert listed["gemma4-e2b"]["memory"] < 2_000_000_000  # its rows for each layer stay in storage
    assert listed["lfm2-8b-a1b"]["least"] < 3_000_000_000 < listed["lfm2-8b-a1b"]["memory"]


def test_a_build_without_edgedec_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "edgedec.models.catalogue", None)
    with pytest.raises(tools.BuildError, match=r"needs EdgeDec itself.*pip install"):
        models.listed()


def test_licences_are_those_of_the_runtime_and_of_its_parts() -> None:
    text = notices.runtime_licences().decode()
    assert "Copyright (c) Microsoft Corporation" in text
    assert len(text) > 100_000


def test_the_version_is_that_of_the_package_also_as_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert notices.version()[0] == __version__
    monkeypatch.setattr("edgedec.core.version.__version__", "1.20.3")
    assert notices.version() == ("1.20.3", 12_003)
    assert "edgedec/core/version.py" in (DEMO / "app/build.gradle").read_text()
    assert "versionName" not in MANIFEST.read_text()


ANDROID = "{http://schemas.android.com/apk/res/android}"


def elements(path: Path) -> list[ElementTree.Element]:
    return list(ElementTree.parse(path).iter())


def test_the_manifest_keeps_the_rules_of_android_16() -> None:
    """Screens may have any size and direction, and nothing asks to be left out of the newer rules."""
    every = elements(MANIFEST)
    (sdk,) = (one for one in every if one.tag == "uses-sdk")
    assert int(sdk.attrib[f"{ANDROID}targetSdkVersion"]) == 36
    gradle = (DEMO / "app/build.gradle").read_text()
    assert "targetSdk 36" in gradle
    assert "compileSdk 36" in gradle
    fixed = ("screenOrientation", "resizeableActivity", "maxAspectRatio", "minAspectRatio", "configChanges")
    assert [one.tag for one in every for name in fixed if f"{ANDROID}{name}" in one.attrib] == []
    styles = "".join(path.read_text() for path in MAIN.glob("res/values*/styles.xml"))
    assert "OptOutEdgeToEdge" not in styles
    sources = "".join(path.read_text() for path in MAIN.rglob("*.java"))
    assert not re.search(r"onBackPressed|KEYCODE_BACK", sources)


def test_other_apps_may_share_text_and_nothing_else() -> None:
    types = [one.attrib for one in elements(MANIFEST) if one.tag == "data"]
    assert types == [{f"{ANDROID}mimeType": "text/plain"}]


@pytest.mark.parametrize("screen", ["chat", "models"])
def test_a_screen_makes_room_for_the_bars_of_the_system(screen: str) -> None:
    """By a view without padding of its own, which that room would take the place of."""
    first, *rest = elements(MAIN / f"res/layout/{screen}.xml")
    assert first.attrib[f"{ANDROID}fitsSystemWindows"] == "true"
    assert [name for name in first.attrib if "padding" in name] == []
    assert [one.tag for one in rest if f"{ANDROID}fitsSystemWindows" in one.attrib] == []


def test_the_app_asks_for_the_network_and_nothing_else() -> None:
    manifest = MANIFEST.read_text()
    assert manifest.count("<uses-permission") == 1
    assert "android.permission.INTERNET" in manifest


@pytest.mark.slow
@needs_tools
@needs_downloads
def test_the_same_sources_give_the_same_bytes_and_a_signature_that_holds(tmp_path: Path) -> None:
    library = tmp_path / "libedgedec.so"
    library.write_bytes(elf(16384) + bytes(100_000))
    compilers = downloads.compilers(cached())
    assets = {models.ASSET: models.listed(), notices.ASSET: notices.runtime_licences()}
    made = []
    for name in ("one", "another folder"):
        unsigned = app.assemble(DEMO, tmp_path / name, compilers, [library], assets)
        made.append(unsigned.read_bytes())
        verdict = signing.sign(unsigned, tmp_path / name / "a.apk", None, tmp_path / name / "trial.keystore")
        assert "v2 scheme (APK Signature Scheme v2): true" in verdict
    assert made[0] == made[1]
    permissions = tools.run(["aapt2", "dump", "permissions", tmp_path / "one" / "a.apk"])
    assert permissions.count("uses-permission") == 1
    with zipfile.ZipFile(tmp_path / "one" / "a.apk") as opened:
        assert {name: opened.read(name) for name in assets} == assets
    assert f"versionName='{__version__}'" in tools.run(
        ["aapt2", "dump", "badging", tmp_path / "one" / "a.apk"]
    )
    signed = bytearray((tmp_path / "one" / "a.apk").read_bytes())
    signed[200] ^= 1
    (tmp_path / "one" / "a.apk").write_bytes(signed)
    with pytest.raises(tools.BuildError):
        tools.run(["apksigner", "verify", tmp_path / "one" / "a.apk"])
