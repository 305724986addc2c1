"""A damaged model ends a command with one line and status 4, before it says anything."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from edgedec.bundle.verification import FOLDER
from edgedec.cli.services import Services
from edgedec.models import Store
from tests.cli.support import ran, run
from tests.fixtures.tiny_models import tiny_bundle

DAMAGED = "error: weights.bin of the bundle fails its SHA-256 (pull or export the model again)"


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("models"))


@pytest.fixture
def bundle(intact: Path, tmp_path: Path) -> Path:
    return shutil.copytree(intact, tmp_path / "model")


def services(bundle: Path) -> Services:
    return Services(store=lambda: Store(bundle.parent / "home"), interactive=lambda: False)


def damage(bundle: Path, seed: int) -> None:
    """Overwrite 50 bytes of the weights at random places."""
    dice = random.Random(seed)
    with (bundle / "weights.bin").open("r+b") as stream:
        size = stream.seek(0, 2)
        for _ in range(50):
            stream.seek(dice.randrange(size))
            stream.write(bytes([dice.randrange(256)]))


def options(bundle: Path) -> list[str]:
    return ["-m", str(bundle), "--threads", "1", "--max-tokens", "3", "--draft", "off"]


@pytest.mark.parametrize("seed", range(10))
def test_fifty_damaged_bytes_never_pass(bundle: Path, seed: int) -> None:
    arguments = ["generate", *options(bundle), "-p", "Hi"]
    ran(services(bundle), *arguments)
    damage(bundle, seed)
    for _ in range(2):
        result = run(services(bundle), *arguments)
        assert (result.exit_code, result.stdout, result.stderr) == (4, "", DAMAGED + "\n")


@pytest.mark.parametrize("command", ["generate", "chat", "check"])
def test_every_command_that_opens_a_model_ends_so(intact: Path, bundle: Path, command: str) -> None:
    damage(bundle, 0)
    arguments = {
        "generate": [*options(bundle), "-p", "Hi"],
        "chat": options(bundle),
        "check": [str(intact), str(bundle)],
    }
    result = run(services(bundle), command, *arguments[command], stdin="Hi\n")
    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr.splitlines() == [DAMAGED]


def test_an_intact_model_is_hashed_at_its_first_start_only(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["generate", *options(bundle), "-p", "Hi", "--json"]
    replies = [json.loads(run(services(bundle), *arguments).stdout)["text"]]
    assert len(list((bundle.parent / "home" / FOLDER).iterdir())) == 1
    monkeypatch.setattr("edgedec.bundle.verification._hashed", None)
    replies.append(json.loads(run(services(bundle), *arguments).stdout)["text"])
    assert replies[0] == replies[1]


def test_a_damaged_byte_of_the_manifest_is_one_line(bundle: Path) -> None:
    path = bundle / "manifest.json"
    data = bytearray(path.read_bytes())
    data[data.index(b'"licence"') - 5] ^= 1  # inside the source's facts
    path.write_bytes(data)
    result = run(services(bundle), "generate", *options(bundle), "-p", "Hi")
    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr.startswith("error: manifest.json of the bundle is broken: ")
    assert result.stderr.count("\n") == 1


def test_doctor_finds_the_damaged_models_of_a_store(intact: Path, tmp_path: Path) -> None:
    """Even one whose record says that nothing changed."""
    home = tmp_path / "home"
    for name in ("good", "bad"):
        shutil.copytree(intact, home / "models" / name)
    given = Services(store=lambda: Store(home), interactive=lambda: False)
    ran(given, "doctor", "--fast", "--verify")
    damage(home / "models" / "bad", 0)
    result = run(given, "doctor", "--fast", "--verify", "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert {one["name"]: one["intact"] for one in document["store"]["models"]} == {"good": True, "bad": False}
    assert document["problems"] == [f"bad: {DAMAGED.removeprefix('error: ')}"]
    assert "intact" not in run(given, "doctor", "--fast").stdout
