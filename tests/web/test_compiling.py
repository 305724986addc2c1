"""Where the command that compiles ``edgedec.wasm`` finds the sources, and where it puts the file."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgedec import kernels
from edgedec.core.errors import NotFoundError, UnsupportedError
from edgedec.export.web import build
from edgedec.export.web.wasm import FAST, NOTICES, WASM, wasm_path
from edgedec.kernels import notices
from tests.conftest import ROOT


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A regular install, whose kernels lie without their sources, seen from a folder of neither."""
    folder = tmp_path / "site-packages" / "edgedec" / "kernels"
    folder.mkdir(parents=True)
    monkeypatch.setattr(kernels, "__file__", str(folder / "__init__.py"))
    monkeypatch.chdir(tmp_path)
    from_url(monkeypatch, None)
    return folder


def from_url(monkeypatch: pytest.MonkeyPatch, url: str | None) -> None:
    """Let pip have recorded that it was given a URL, or a name alone."""
    said = None if url is None else json.dumps({"url": url, "dir_info": {}})
    monkeypatch.setattr(metadata, "distribution", lambda name: SimpleNamespace(read_text=lambda file: said))


def a_clone(folder: Path) -> Path:
    """A folder with what tells sources of EdgeDec."""
    (folder / "kernels" / "wasm").mkdir(parents=True)
    (folder / "kernels" / "wasm" / "toolchain.cmake").touch()
    return folder


def test_an_editable_install_has_its_own_sources() -> None:
    assert build.sources() == ROOT


def test_an_install_from_a_clone_remembers_it(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = a_clone(tmp_path / "my clone")
    from_url(monkeypatch, made.as_uri())
    assert build.sources() == made
    monkeypatch.chdir(here := a_clone(tmp_path / "another"))
    assert build.sources() == here


@pytest.mark.parametrize("url", [None, "https://example.org/edgedec.git", "file:///no/such/clone"])
def test_without_sources_the_error_says_where_to_call_it(
    installed: Path, monkeypatch: pytest.MonkeyPatch, url: str | None
) -> None:
    from_url(monkeypatch, url)
    with pytest.raises(NotFoundError) as refused:
        build.sources()
    assert refused.value.hint == "call it in a clone of EdgeDec"


def test_the_file_lies_where_export_finds_it(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NotFoundError) as missing:
        wasm_path()
    assert str(missing.value.hint).endswith("then python -P -m edgedec.export.web.build")
    from_url(monkeypatch, a_clone(tmp_path / "clone").as_uri())
    for name in (WASM, FAST):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(build, "build", lambda source, folder: tmp_path)
    monkeypatch.setattr(notices, "text", lambda: NOTICES)
    assert build.main() == 0
    for name in (WASM, FAST, NOTICES):
        assert wasm_path(name) == installed / name
        assert wasm_path(name).read_text() == name
    assert capsys.readouterr().out.splitlines() == [str(installed / name) for name in (FAST, WASM, NOTICES)]
    assert {file.name for file in installed.iterdir()} == {WASM, FAST, NOTICES}


def test_tools_of_an_environment_that_is_not_activated_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    (tmp_path / "bin").mkdir()
    with pytest.raises(UnsupportedError, match="without cmake, ninja"):
        build.build(ROOT, tmp_path / "made")
    for name in ("cmake", "ninja"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match="without ziglang"):
        build.build(ROOT, tmp_path / "made")
