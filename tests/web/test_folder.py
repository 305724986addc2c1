"""The folder for browsers: whole or not at all, every piece with its hash, the program of Python."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.backends.gpu import shaders
from edgedec.bundle.drafter_manifest import MTP, TABLES
from edgedec.bundle.manifest import Manifest
from edgedec.bundle.web_folder import CONTENTS, PIECE, WEB, WebFolder
from edgedec.core.errors import BadFileError, NotFoundError, UnsupportedError, UsageError
from edgedec.draft import Recycling
from edgedec.drafters.artifacts import new_artifact
from edgedec.drafters.tables import write_table
from edgedec.drafters.trim import SAVED, ends_of, save_trim
from edgedec.export import export_gguf
from edgedec.export.device import DeviceOrder, choose_drafters
from edgedec.export.web import computing, write_web_folder
from edgedec.export.web import folder as writing
from tests.fixtures.carried import MtpPlace
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_models import tiny_bundle
from tests.web.played import played_folder

EXPERTS = ("qwen3moe", "granitemoe", "lfm2moe", "qwen35moe", "gpt-oss")


@pytest.fixture(autouse=True)
def wasm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes in place of the engine, which few machines compile."""
    path = tmp_path / "edgedec.wasm"
    path.write_bytes(b"\0asm")
    monkeypatch.setattr(computing, "wasm_path", lambda name: path)


@pytest.fixture
def home(tiny: Path, tmp_path: Path) -> Path:
    """A home with tables for the bundle."""
    home = tmp_path / "home"
    with new_artifact(Manifest.load(tiny), TABLES, home, {}) as folder:
        write_table(folder, Recycling.name, b"answers")
    return home


def contents(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / CONTENTS).read_text(encoding="utf-8"))
    return found


def test_everything_is_listed_with_its_hash(tiny: Path, home: Path, tmp_path: Path) -> None:
    out = tmp_path / "page"
    drafters = choose_drafters((), tiny, home)
    made = write_web_folder(DeviceOrder(WEB, tiny, drafters, None, home), out)
    assert WebFolder.load(out) == made
    there = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert there == {*made.files, CONTENTS}
    for name, entry in made.files.items():
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == entry.sha256
    parts = contents(out)["parts"]
    named = [one for part in parts.values() for one in (part if isinstance(part, list) else [part])]
    assert set(named) <= there
    assert parts["engine"] == [
        "model/manifest.json",
        "model/tokenizer.table",
        "model/chat_template.jinja",
        "model/chat_template.program",
        "model/drafters/tables/drafter.json",
        "model/drafters/tables/recycling.table",
    ]
    Manifest.load(out / "model", verify=True)


def test_large_files_have_a_hash_for_every_piece(tiny: Path, tmp_path: Path) -> None:
    folder = played_folder(tmp_path / "page", Manifest.load(tiny))
    entry = contents(folder)["files"]["model/weights.bin"]
    data = (folder / "model/weights.bin").read_bytes()
    pieces = [data[at : at + PIECE] for at in range(0, len(data), PIECE)]
    assert entry["pieces"] == [hashlib.sha256(one).hexdigest() for one in pieces]
    assert len(pieces) == 3


def test_the_program_and_the_sources_are_those_of_python(tiny: Path, tmp_path: Path) -> None:
    """A page only joins texts; the same texts are joined here."""
    for name in ("run", "model"):
        (tmp_path / name).mkdir()
    program = computing.write_gpu(tmp_path, tiny)
    data = json.loads((tmp_path / computing.PROGRAM).read_text(encoding="utf-8"))
    files = json.loads((tmp_path / computing.SHADERS).read_text(encoding="utf-8"))
    variants = {"fma": "exact", "basic": "native", "divide": "native", "root": "exact", "dot": "native"}
    prelude = [re.sub(r"\{(\w+)\}", lambda one: variants[one[1]], name) for name in files["prelude"]]
    for step, told in zip(program.steps, data["steps"], strict=True):
        kernel = data["kernels"][told["kernel"]]
        names = [*prelude, *files["parts"][kernel["kernel"]]]
        joined = [*filter(None, [kernel["constants"]]), *(files["texts"][name] for name in names)]
        assert "\n".join(joined) == shaders.source(step.kernel, step.consts, variants)
        assert told["bind"] == list(step.bind)
    assert len(data["kernels"]) < len(data["steps"])
    assert data["max_pass"] <= computing.MAX_PASS


def test_what_is_there_already_is_replaced_or_kept(tiny: Path, tmp_path: Path) -> None:
    order = DeviceOrder(WEB, tiny, (), None, tmp_path / "home")
    write_web_folder(order, tmp_path / "page")
    write_web_folder(order, tmp_path / "page")
    other = tmp_path / "other"
    other.mkdir()
    (other / "kept.txt").write_text("kept", encoding="utf-8")
    with pytest.raises(UsageError, match="is no folder of a page"):
        write_web_folder(order, other)
    with pytest.raises(UsageError, match="would be replaced"):
        write_web_folder(DeviceOrder(WEB, tmp_path / "page/model", (), None, tmp_path), tmp_path / "page")
    assert sorted(one.name for one in tmp_path.iterdir() if "partial" in one.name) == []


def test_a_page_without_its_engine_is_not_written(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Path:
        raise NotFoundError("there is no edgedec.wasm here")

    monkeypatch.setattr(computing, "wasm_path", missing)
    with pytest.raises(NotFoundError, match=r"no edgedec\.wasm"):
        write_web_folder(DeviceOrder(WEB, tiny, (), None, tmp_path), tmp_path / "page")
    assert not (tmp_path / "page").exists()


@pytest.mark.parametrize("architecture", ["gemma4", "qwen35", "lfm2", *EXPERTS])
def test_a_model_with_states_keys_of_two_sizes_or_experts_runs_on_cpus_and_gpus(
    architecture: str, tmp_path: Path
) -> None:
    out = tmp_path / "page"
    made = write_web_folder(DeviceOrder(WEB, tiny_bundle(tmp_path, architecture), (), None, tmp_path), out)
    parts = contents(out)["parts"]
    named = [*parts["cpu"], *(parts[name] for name in ("shaders", "probe", "program"))]
    assert named == [computing.CPU, computing.SHADERS, computing.PROBE, computing.PROGRAM]
    assert set(named) <= set(made.files)
    assert contents(out)["refused"] == ""


def test_adapters_that_fuse_nothing_have_a_program_of_their_own(tiny: Path, tmp_path: Path) -> None:
    made = write_web_folder(DeviceOrder(WEB, tiny, (), None, tmp_path), tmp_path / "page")
    usual, apart = (
        json.loads((tmp_path / "page" / name).read_text(encoding="utf-8"))
        for name in (computing.PROGRAM, computing.APART)
    )
    assert contents(tmp_path / "page")["parts"]["apart"] == computing.APART in made.files
    kernels = [[one["constants"] for one in program["kernels"]] for program in (usual, apart)]
    assert [{"SIDES: u32 = 2u" in text for text in each} for each in kernels] == [{True, False}, {False}]


@pytest.fixture
def floats(tmp_path: Path) -> Path:
    """A model whose experts no GPU runs."""
    export_gguf(write_tiny(tmp_path / "t.gguf", "granitemoe", formats="f16"), tmp_path / "floats")
    return tmp_path / "floats"


def test_experts_that_gpus_do_not_run_are_the_cpus_and_the_folder_says_why(
    floats: Path, tmp_path: Path
) -> None:
    out = tmp_path / "page"
    made = write_web_folder(DeviceOrder(WEB, floats, (), None, tmp_path), out)
    found = contents(out)
    assert [found["parts"][name] for name in ("shaders", "probe", "program", "apart")] == [None] * 4
    assert found["refused"] == "experts in f16 have no kernel for GPUs"
    assert found["parts"]["cpu"] == [computing.CPU]
    assert {computing.SHADERS, computing.PROBE, computing.PROGRAM}.isdisjoint(made.files)
    assert found["max_pass"] == computing.MAX_PASS


def test_a_model_that_no_part_of_a_browser_runs_is_refused(
    floats: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "MOST_WEIGHTS", 1000)
    with pytest.raises(UnsupportedError, match="no kernel for GPUs, and a browser's CPU addresses 4GB"):
        write_web_folder(DeviceOrder(WEB, floats, (), None, tmp_path), tmp_path / "page")
    assert not (tmp_path / "page").exists()


def test_a_trimmed_head_is_for_every_device(tiny: Path, tmp_path: Path) -> None:
    manifest = Manifest.load(tiny)
    save_trim(manifest, tmp_path / "home", np.array(sorted({*ends_of(manifest), *range(120)})), {SAVED: 0.7})
    drafters = choose_drafters((), tiny, tmp_path / "home")
    write_web_folder(DeviceOrder(WEB, tiny, drafters, None, tmp_path / "home"), tmp_path / "page")
    parts = contents(tmp_path / "page")["parts"]
    trimmed = [name for name in parts["engine"] if "/drafters/trim/" in name]
    assert len(trimmed) == 2
    assert set(trimmed).isdisjoint(parts["cpu"])


def test_drafters_with_files_are_for_the_cpu(tmp_path: Path) -> None:
    place = MtpPlace(tmp_path)
    (tmp_path / "other").mkdir()
    small = tiny_bundle(tmp_path / "other", "gemma3")
    drafters = choose_drafters((), place.bundle, place.home)
    write_web_folder(DeviceOrder(WEB, place.bundle, drafters, small, place.home), tmp_path / "page")
    found = contents(tmp_path / "page")
    assert found["drafters"] == [MTP, "model"]
    name = f"model/models/{small.name}"
    assert {
        "model/cpu/mtp.json", "model/drafters/mtp/weights.bin", "model/device.json", f"{name}/cpu.json",
        f"{name}/weights.bin", f"{name}/tokenizer.table", f"model/maps/{small.name}/to_draft.i32",
    } <= {*found["parts"]["cpu"]}  # fmt: skip
    assert not [one for one in found["parts"]["cpu"] if one.endswith(".onnx")]
    assert not [one for one in found["parts"]["engine"] if "mtp" in one]
    WebFolder.load(tmp_path / "page")
    Manifest.load(tmp_path / "page/model", verify=True)


def test_a_damaged_folder_is_refused(tiny: Path, tmp_path: Path) -> None:
    folder = played_folder(tmp_path / "page", Manifest.load(tiny), 100)
    with (folder / "model/weights.bin").open("ab") as file:
        file.write(b"more")
    with pytest.raises(BadFileError, match=r"weights\.bin of the web folder has 104 bytes, not 100"):
        WebFolder.load(folder)
    text = (folder / CONTENTS).read_text(encoding="utf-8")
    (folder / CONTENTS).write_text(text.replace('"version": 1', '"version": 9'), encoding="utf-8")
    with pytest.raises(UnsupportedError, match="version 9"):
        WebFolder.load(folder)
