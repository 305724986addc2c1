"""Files kept beside the models: all of them are found, and removed unless a process holds them."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from edgedec.disk.home import HISTORY_LOCK
from edgedec.disk.locks import Share, exclusive
from edgedec.models import Store
from edgedec.models.home_files import KINDS, entries, nbytes, others, remove

FILES = {
    "chat_history": "history",
    "drafts/a.drafts": "history",
    "downloads/one/file.gguf.part": "downloads",
    "models/two.trash-0badcafe/weights.bin": "downloads",
    "gguf/one/one.gguf": "sources",
    "costs/1.json": "costs",
    "verified/1.json": "records",
    "llama.cpp/1.json": "records",
    "local-files.json": "records",
    "drafters/abc/tables/drafter.json": "drafters",
    "prefixes/abc/0123": "prefixes",
    "rollouts/abc/rollouts.jsonl": "rollouts",
    "training/abc/checkpoint.pt": "training",
    "peers/abc/model.bin": "peers",
}
OLD = time.time() - 3600


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    for name in (*FILES, "models/two/manifest.json"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(b"12345")
    os.utime(path / "models/two.trash-0badcafe/weights.bin", (OLD, OLD))
    os.utime(path / "models/two.trash-0badcafe", (OLD, OLD))
    return path


def files(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if not path.is_dir())


def clean(home: Path, *kinds: str) -> list[bool]:
    return [remove(one, home) for one in entries(home) if one.kind in (kinds or KINDS)]


def test_every_file_beside_the_models_is_of_a_kind(home: Path) -> None:
    assert others(home) == []
    assert sum(one.bytes for one in entries(home)) == 5 * len(FILES)
    assert {one.kind for one in entries(home)} == set(KINDS)
    assert not any(one.in_use for one in entries(home))


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_goes_and_the_others_stay(home: Path, kind: str) -> None:
    before = files(home)
    assert all(clean(home, kind))
    assert files(home) == [name for name in before if FILES.get(name) != kind]
    assert [one for one in entries(home) if one.kind == kind] == []


def test_models_stay(home: Path) -> None:
    assert all(clean(home))
    assert files(home) == ["models/two/manifest.json"]


def test_a_file_of_nobody_is_shown_and_stays(home: Path) -> None:
    (home / "talk").write_bytes(b"edgedec-session 2\n")
    assert others(home) == [home / "talk"]
    clean(home)
    assert (home / "talk").exists()


def test_nothing_goes_that_a_process_holds(home: Path) -> None:
    (home / "downloads/two").mkdir()
    held = [home / "downloads/one.lock", home / "downloads/two.lock", home / "peers/abc/x.lock"]
    held += [home / "prefixes/lock"]
    held += [home / f"{name}/abc/x.lock" for name in ("rollouts", "training")]
    before = files(home)
    with ExitStack() as stack:
        for lock in held:
            stack.enter_context(exclusive(lock, lambda: None))
        share = Share(home / HISTORY_LOCK)
        stack.callback(share.release)
        assert [one.kind for one in entries(home) if one.in_use] == [
            *["history"] * 2, "prefixes", *["downloads"] * 3, "sources", "rollouts", "training", "peers",
        ]  # fmt: skip
        clean(home)
        gone = {name for name in before if FILES.get(name) in ("costs", "records", "drafters")}
        assert set(before) - set(files(home)) == gone
    assert all(clean(home))
    assert [name for name in files(home) if name != HISTORY_LOCK] == ["models/two/manifest.json"]


def test_a_file_that_may_still_be_written_stays(home: Path) -> None:
    new, old = home / "costs/2.json.partial-01234567", home / "costs/3.json.partial-01234567"
    for path in (new, old):
        path.write_bytes(b"1")
    os.utime(old, (OLD, OLD))
    clean(home, "costs")
    assert list((home / "costs").iterdir()) == [new]


def test_the_lock_of_a_process_that_died_goes_too(home: Path) -> None:
    (home / "downloads/dead.lock").touch()
    assert all(clean(home, "downloads"))
    assert list((home / "downloads").iterdir()) == []


def test_a_bundle_that_was_moved_aside_comes_back_when_it_is_the_only_one(home: Path) -> None:
    (home / "models/two").rename(home / "models/two.old-0badcafe")
    os.utime(home / "models/two.old-0badcafe/manifest.json", (OLD, OLD))
    os.utime(home / "models/two.old-0badcafe", (OLD, OLD))
    assert all(clean(home, "downloads"))
    assert [path.name for path in (home / "models").iterdir()] == ["two"]


@pytest.mark.parametrize("linked", [".", "costs", "models", "downloads", "gguf"])
def test_a_store_on_a_link_is_cleaned_and_the_link_stays(home: Path, tmp_path: Path, linked: str) -> None:
    real = tmp_path / "elsewhere"
    (home / linked).rename(real)
    (home / linked).symlink_to(real)
    assert all(clean(home))
    assert (home / linked).is_symlink()
    assert files(home.resolve()) == (["models/two/manifest.json"] if linked != "models" else [])
    assert linked != "models" or (real / "two/manifest.json").exists()


def test_of_a_link_in_a_place_only_the_link_goes(home: Path, tmp_path: Path) -> None:
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    (treasure / "book.txt").write_text("mine")
    for place in ("downloads/l", "gguf/l", "costs/l", "peers/l", "verified/l", "downloads/one/l"):
        (home / place).symlink_to(treasure)
    assert nbytes(home / "costs/l") < 1000
    assert all(clean(home))
    assert (treasure / "book.txt").read_text() == "mine"
    assert files(home) == ["models/two/manifest.json"]


def test_removing_a_model_that_is_a_link_leaves_no_trash(home: Path, tmp_path: Path) -> None:
    (home / "models/two").rename(tmp_path / "bundle")
    (home / "models/two").symlink_to(tmp_path / "bundle")
    Store(home).remove("two")
    assert [path.name for path in (home / "models").iterdir()] == []
    assert (tmp_path / "bundle/manifest.json").exists()


def test_a_home_that_does_not_exist_keeps_nothing(tmp_path: Path) -> None:
    assert (entries(tmp_path / "none"), others(tmp_path / "none")) == ([], [])
