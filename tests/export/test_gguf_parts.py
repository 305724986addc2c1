"""GGUF models in several files: opened as one, and refused in one line where the parts do not fit."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgedec.core.errors import BadFileError, EdgeDecError, NotFoundError
from edgedec.export import export_gguf
from edgedec.export.gguf_parts import gguf_files, model_stem, part_name
from edgedec.export.gguf_source import open_gguf
from edgedec.models import Store
from tests.fixtures.tiny_gguf import write_tiny

TENSORS = 8


def parts_in(folder: Path, *, seed: int = 0, name: str = "m", architecture: str = "llama") -> list[Path]:
    """The parts of a tiny model, written into a new folder."""
    folder.mkdir(exist_ok=True)
    first = write_tiny(folder / f"{name}.gguf", architecture, seed=seed, tensors_a_part=TENSORS)
    parts = gguf_files(first)
    assert len(parts) == 3
    return parts


def edit(path: Path, key: str, change: Callable[[int], int]) -> None:
    """Change a number in the header of a part."""
    data, name = bytearray(path.read_bytes()), key.encode()
    at = data.index(name) + len(name)
    kind = struct.unpack_from("<I", data, at)[0]
    code = {2: "<H", 4: "<I", 5: "<i"}[kind]
    struct.pack_into(code, data, at + 4, change(struct.unpack_from(code, data, at + 4)[0]))
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("given", [0, 1, 2])
def test_any_part_opens_all(given: int, tmp_path: Path) -> None:
    parts = parts_in(tmp_path / "parts")
    whole = write_tiny(tmp_path / "m.gguf")
    with open_gguf(whole) as one, open_gguf(parts[given]) as several:
        assert several.path == parts[0]
        assert several.paths == parts
        assert several.nbytes == sum(part.stat().st_size for part in parts)
        assert several.tensors.keys() == one.tensors.keys()
        keys = {key: value for key, value in several.metadata.items() if not key.startswith("split.")}
        assert keys == one.metadata
        for name, tensor in several.tensors.items():
            np.testing.assert_array_equal(
                several.rows(tensor, 0, tensor.rows), one.rows(one.tensors[name], 0, tensor.rows)
            )


def test_the_bundle_is_that_of_one_file(tmp_path: Path) -> None:
    parts = parts_in(tmp_path / "parts")
    export_gguf(write_tiny(tmp_path / "m.gguf"), tmp_path / "A", name="same", backend="edgedec")
    manifest = export_gguf(parts[1], tmp_path / "B", name="same", backend="edgedec")
    for name in ("weights.bin", "model.onnx", "drafting.onnx", "tokenizer.json"):
        assert (tmp_path / "A" / name).read_bytes() == (tmp_path / "B" / name).read_bytes()
    source = manifest.source
    assert (source["file"], source["bytes"]) == (parts[0].name, sum(part.stat().st_size for part in parts))
    hashes = {key: value for key, value in source.items() if key.startswith("sha256")}
    assert list(hashes) == ["sha256 of part 1", "sha256 of part 2", "sha256 of part 3"]
    assert len(set(hashes.values())) == 3


def test_the_store_takes_any_part_of_a_model_once(tmp_path: Path) -> None:
    parts, store = parts_in(tmp_path / "parts"), Store(tmp_path / "home", notice=lambda line: None)
    first = store.ensure(str(parts[0]))
    assert first.name.startswith("m-")
    assert "00001" not in first.name
    assert store.ensure(str(parts[2])) == first
    other = parts_in(tmp_path / "other", seed=1)
    shutil.copy(other[2], parts[2])
    assert store.ensure(str(parts[0])) != first


def _removed(parts: list[Path], folder: Path) -> None:
    parts[1].unlink()


def _swapped(parts: list[Path], folder: Path) -> None:
    kept = parts[1].read_bytes()
    parts[1].write_bytes(parts[2].read_bytes())
    parts[2].write_bytes(kept)


def _doubled(parts: list[Path], folder: Path) -> None:
    shutil.copy(parts[2], parts[1])
    edit(parts[1], "split.no", lambda _: 1)


def _of_another_architecture(parts: list[Path], folder: Path) -> None:
    other = write_tiny(folder / "q.gguf", "qwen3", tensors_a_part=TENSORS)
    shutil.copy(gguf_files(other)[1], parts[1])


def _of_a_larger_model(parts: list[Path], folder: Path) -> None:
    edit(parts[1], "split.tensors.count", lambda count: count + 9)


def _of_more_parts(parts: list[Path], folder: Path) -> None:
    edit(parts[2], "split.count", lambda _: 4)


def _whole_file(parts: list[Path], folder: Path) -> None:
    write_tiny(folder / "whole.gguf").rename(parts[1])


def _fewer_tensors(parts: list[Path], folder: Path) -> None:
    for part in parts:
        edit(part, "split.tensors.count", lambda count: count + 1)


def _empty(parts: list[Path], folder: Path) -> None:
    parts[1].write_bytes(b"")


def _cut(parts: list[Path], folder: Path) -> None:
    parts[1].write_bytes(parts[1].read_bytes()[:-1])


def _hostile_count(parts: list[Path], folder: Path) -> None:
    edit(parts[0], "split.count", lambda _: 65535)


BROKEN: dict[str, tuple[Callable[[list[Path], Path], None], type[EdgeDecError], str]] = {
    "one is missing": (_removed, NotFoundError, r"there is no m-00002-of-00003\.gguf beside it"),
    "out of order": (_swapped, BadFileError, r"m-00002-of-00003\.gguf is part 3 of 3 by its contents"),
    "overlapping": (
        _doubled,
        BadFileError,
        r"m-00003-of-00003\.gguf and m-00002-of-00003\.gguf both have tensor",
    ),
    "another architecture": (
        _of_another_architecture,
        BadFileError,
        "is a part of another model than m-00001",
    ),
    "another model": (_of_a_larger_model, BadFileError, "m-00002-of-00003.gguf is a part of another model"),
    "of more parts": (_of_more_parts, BadFileError, "m-00003-of-00003.gguf is part 3 of 4 by its contents"),
    "a whole file": (
        _whole_file,
        BadFileError,
        "m-00002-of-00003.gguf is no part of a model by its contents",
    ),
    "fewer tensors": (_fewer_tensors, BadFileError, "have 20 tensors together instead of 21"),
    "an empty one": (_empty, BadFileError, "m-00002-of-00003.gguf is empty"),
    "cut short": (_cut, BadFileError, "m-00002-of-00003.gguf: .*lies outside the file"),
    "a hostile count": (_hostile_count, BadFileError, "is part 1 of 65535 of a model, and has not the name"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_parts_that_do_not_fit(case: str, tmp_path: Path) -> None:
    damage, error, message = BROKEN[case]
    parts = parts_in(tmp_path / "parts")
    damage(parts, tmp_path)
    with pytest.raises(error, match=message) as caught:
        export_gguf(parts[0], tmp_path / "out", backend="edgedec")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_part_under_another_name(tmp_path: Path) -> None:
    parts = parts_in(tmp_path / "parts")
    renamed = parts[0].rename(tmp_path / "renamed.gguf")
    with pytest.raises(BadFileError, match=r"part 1 of 3 .* \(name the parts NAME-00001-of-00003.gguf, "):
        export_gguf(renamed, tmp_path / "out")


@pytest.mark.parametrize("ending", [".part1of2", ".part2of2", "-split-a", ".part-b"])
def test_a_piece_of_a_file_is_no_part(ending: str, tmp_path: Path) -> None:
    """Uploads were cut at any byte before files could be split: oobabooga/textgen #6187."""
    piece = tmp_path / f"m.gguf{ending}"
    piece.write_bytes(write_tiny(tmp_path / "m.gguf").read_bytes()[:20_000])
    with pytest.raises(BadFileError, match=r"is a piece of m\.gguf") as caught:
        export_gguf(piece, tmp_path / "out")
    assert "join all pieces" in (caught.value.hint or "")


def test_names_of_parts() -> None:
    found = part_name("a/x-00002-of-00003.gguf")
    assert found is not None
    assert found.all() == [f"a/x-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    for other in (
        "x.gguf",
        "x-00000-of-00003.gguf",
        "x-00004-of-00003.gguf",
        "x-00001-of-00001.gguf",
        "x-1-of-3.gguf",
    ):
        assert part_name(other) is None
        assert gguf_files(Path(other)) == [Path(other)]
    assert model_stem(Path("a/x-Q4_K_M-00002-of-00003.gguf")) == "x-Q4_K_M"
    assert model_stem(Path("a/x-Q4_K_M.gguf")) == "x-Q4_K_M"
