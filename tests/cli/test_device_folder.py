"""``edgedec export --for``, on tiny models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgedec.bundle.device_folder import DeviceFolder
from edgedec.models import Store
from tests.cli.support import Home, assert_one_line, ran, run
from tests.fixtures.tiny_models import tiny_bundle


@pytest.fixture
def target(home: Home) -> str:
    """The name of an installed model."""
    (home.path / "models").mkdir(parents=True)
    return tiny_bundle(home.path / "models").name


def folder_files(out: Path) -> dict[str, int]:
    return {str(path.relative_to(out)): path.stat().st_size for path in out.rglob("*") if path.is_file()}


def test_a_folder_of_an_installed_model(home: Home, target: str, tmp_path: Path) -> None:
    small, out = tiny_bundle(home.path / "models", seed=1).name, tmp_path / "phone"
    arguments = ("export", target, "--for", "android", "--with-draft", small, "-o", str(out))
    result = ran(home.real(), *arguments)
    lines = result.stdout.splitlines()
    assert [line.split()[:1] for line in lines[:2]] == [["Tiny"], ["model"]]
    assert f"in {out}. `edgedec push {out}` sends it to a phone." in lines[-1]
    first = folder_files(out)
    told = json.loads(run(home.real(), *arguments, "--json").stdout)
    assert told["files"] == {name: size for name, size in folder_files(out).items() if name != "device.json"}
    assert (told["device"], told["bytes"]) == ("android", sum(told["files"].values()))
    assert told["drafters"] == [{"kind": "model", "path": f"models/{small}", "maps": None}]
    assert folder_files(out) == first
    DeviceFolder.load(out, verify=True)
    shown = run(home.real(), "show", str(out)).stdout
    assert str(out) in shown
    assert f"carries       for android: {small}\n" in shown
    assert json.loads(run(home.real(), "show", str(out), "--json").stdout)["path"] == str(out)
    reply = ran(home.real(), "generate", "-m", str(out), "--raw", "-p", "ab", "--max-tokens", "4", "--json")
    assert small in json.loads(reply.stdout)["stats"]["draft"]


def test_a_folder_of_a_gguf_file(home: Home, target: str, tmp_path: Path) -> None:
    gguf = home.path / "models" / f"{target}.gguf"
    out = tmp_path / "new" / "phone"
    ran(home.real(), "export", str(gguf), "--for", "android", "-o", str(out), "--name", "mine")
    assert DeviceFolder.load(out, verify=True).target.name == "mine"
    assert [path.name for path in out.parent.iterdir()] == ["phone"]


def test_what_cannot_be_is_one_line(
    home: Home, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*more: str) -> None:
        result = run(home.real(), "export", more[0], "-o", str(tmp_path / "phone"), *more[3:])
        assert_one_line(result, int(more[1]), more[2])
        assert not (tmp_path / "phone").exists()

    android = ("--for", "android")
    refused(target, "3", "no such file")
    refused("nothing", "3", "no model named nothing", *android)
    refused("smollm2-135m", "3", "edgedec pull smollm2-135m", *android)
    refused(target, "3", "there is no drafter nothing", *android, "--with-draft", "nothing")
    gguf = str(home.path / "models" / f"{target}.gguf")
    refused(gguf, "3", "there is no drafter nothing", *android, "--with-draft", "nothing")
    refused(target, "3", "has no drafter head", *android, "--with-draft", "head")
    monkeypatch.setattr("edgedec.cli.export.between", None)  # it is refused before anything is exported
    refused(gguf, "3", "no model here has a drafter head", *android, "--with-draft", "head")
    refused(target, "2", "--quant is for", *android, "--quant", "q4_0")
    refused(target, "2", "--with-draft is for", "--with-draft", "head")
    assert_one_line(run(home.real(), "show", "./nowhere"), 3, "no EdgeDec bundle at")
    refused(target, "2", "toaster", "--for", "toaster")


def test_a_damaged_folder_is_one_line_on_every_machine(home: Home, target: str, tmp_path: Path) -> None:
    out = tmp_path / "phone"
    ran(home.real(), "export", target, "--for", "android", "-o", str(out))
    table = out / "tokenizer.table"
    content = bytearray(table.read_bytes())
    table.unlink()
    content[len(content) // 2] ^= 1
    table.write_bytes(content)
    generate = ("generate", "-m", str(out), "--raw", "-p", "ab", "--max-tokens", "4")
    assert_one_line(run(home.real(), *generate), 4, "tokenizer.table")
    table.unlink()
    assert_one_line(run(home.real(), *generate), 4, "lacks tokenizer.table")
    assert Store(home.path).path(target).is_dir()
