"""Drafters of others from a loopback hub: fetched, gone on with, compared with its hashes, installed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

import pytest

from edgedec.bundle.manifest import Manifest
from edgedec.export import export_gguf
from edgedec.models.catalogue import CATALOGUE
from tests.fixtures.eagle3_heads import Eagle3, agreeing_head, write_head
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.models.conftest import tree
from tests.models.test_hub import Hub, hub
from tests.models.test_hub_models import edgedec, files_of

__all__ = ["hub"]

REPO = "owner/tiny_eagle3"


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deep")
    source = write_tiny(folder / "deep.gguf", shape=TinyShape(layers=12, context=512))
    export_gguf(source, folder / "bundle", name="deep")
    return folder / "bundle"


@pytest.fixture(scope="module")
def files(deep: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a head for ``deep``, with others that nobody reads."""
    head = agreeing_head(deep, (1, 5, 8))
    return {**files_of(write_head(tmp_path_factory.mktemp("h") / "h", "angelslim", head)), "README.md": b"#"}


def test_a_head_is_fetched_checked_and_installed(hub: Hub, deep: Path, files: dict[str, bytes]) -> None:
    commit = hub.site.add_repository(REPO, files, large=r"safetensors$")
    done = edgedec(hub, "draft", "import", REPO, "-m", str(deep), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["model"], found["facts"]["revision"]) == ("deep", commit)
    assert found["facts"]["licence"] == "apache-2.0"
    assert found["facts"]["agreement"] > 0.8
    asked = {request.path.rpartition("/")[2] for request in hub.site.requests if "/resolve/" in request.path}
    assert asked == {"config.json", "model.safetensors"}
    assert not any(name.startswith("downloads") for name in tree(hub.home))
    listed = edgedec(hub, "draft", "list", "-m", str(deep))
    assert "by AngelSlim" in listed.stdout
    reply = ("generate", "-m", str(deep), "Hi", "--max-tokens", "12", "--json")
    texts = [edgedec(hub, *reply, "--draft", draft).stdout for draft in ("auto", "off")]
    assert json.loads(texts[0])["text"] == json.loads(texts[1])["text"]


def test_ctrl_c_leaves_a_download_to_go_on_with(hub: Hub, deep: Path, files: dict[str, bytes]) -> None:
    commit = hub.site.add_repository(REPO, files, large=r"safetensors$")
    weights = f"/{REPO}/resolve/{commit}/model.safetensors"
    hub.site.script[weights] = deque([("slow", 1.0)])
    command = [sys.executable, "-m", "edgedec.cli.main", "draft", "import", REPO, "-m", str(deep)]
    environment = {**hub.environment, "EDGEDEC_HOME": str(hub.home)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        for _ in range(300):
            if any(name.endswith(".part") for name in tree(hub.home)):
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert not list((hub.home / "drafters").glob("*/head"))
    assert edgedec(hub, "draft", "import", REPO, "-m", str(deep)).returncode == 0
    assert "range" in hub.site.of(weights)[-1].headers


def test_what_is_no_head_is_refused_before_its_weights_come(
    hub: Hub, deep: Path, files: dict[str, bytes]
) -> None:
    config = {**json.loads(files["config.json"]), "architectures": ["LlamaForCausalLM"]}
    config.pop("draft_vocab_size")
    commit = hub.site.add_repository(REPO, {**files, "config.json": json.dumps(config).encode()})
    done = edgedec(hub, "draft", "import", REPO, "-m", str(deep))
    assert done.returncode == 5
    assert "holds no EAGLE-3 head" in done.stderr.splitlines()[-1]
    assert not hub.site.of(f"/{REPO}/resolve/{commit}/model.safetensors")


def test_a_head_that_does_not_agree_is_refused_in_a_line(hub: Hub, deep: Path, tmp_path: Path) -> None:
    vocab = Manifest.load(deep).spec.vocab_size
    head = write_head(tmp_path / "head", "specforge", Eagle3(64, vocab, 80, {}), pickled=True)
    hub.site.add_repository(REPO, files_of(head), large=r"bin$")
    for reference in (str(head), REPO):
        done = edgedec(hub, "draft", "import", reference, "-m", str(deep))
        assert done.returncode == 4
        assert "the head agrees with" in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr
    assert not any("head" in name for name in tree(hub.home))
    assert edgedec(hub, "draft", "import", "owner/nothing", "-m", str(deep)).returncode == 3
    assert edgedec(hub, "draft", "import", "./nothing", "-m", str(deep)).returncode == 3


QWEN = "qwen3-1.7b"


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, bytes]]:
    """A tiny model in the place of one of the catalogue, and the files of a drafter trained for it."""
    folder = tmp_path_factory.mktemp("named")
    source = write_tiny(folder / "m.gguf", "qwen3", shape=TinyShape(layers=12, context=512))
    export_gguf(source, folder / "bundle", name=QWEN)
    head = write_head(folder / "head", "angelslim", agreeing_head(folder / "bundle", (1, 5, 8)), pickled=True)
    return source.read_bytes(), files_of(head)


def offered(hub: Hub, named: tuple[bytes, dict[str, bytes]], *, drafter: bool = True) -> str:
    """Put both on the hub under the names of the catalogue; return the drafter's repository."""
    entry = CATALOGUE[QWEN]
    assert entry.recipe.hub
    assert entry.published
    hub.site.add_repository(entry.recipe.hub.repo, {"m-Q4_K_M.gguf": named[0]})
    if drafter:
        hub.site.add_repository(entry.published.repo, named[1], large=r"bin$")
    return entry.published.repo


def test_pull_brings_the_drafter_that_others_trained(hub: Hub, named: tuple[bytes, dict[str, bytes]]) -> None:
    repo = offered(hub, named)
    done = edgedec(hub, "pull", QWEN, "--json")
    assert done.returncode == 0, done.stderr
    assert f"{QWEN} comes with a drafter: {repo}, about 274.1 MB; --no-drafter leaves it out" in done.stderr
    assert json.loads(done.stdout)["drafter"] == repo
    listed = edgedec(hub, "draft", "list", "-m", QWEN, "--json")
    assert [one["kind"] for one in json.loads(listed.stdout)["drafters"]] == ["head"]
    reply = ("generate", "-m", QWEN, "Hi", "--max-tokens", "12", "--json", "--temperature", "0")
    told = [json.loads(edgedec(hub, *reply, "--draft", draft).stdout) for draft in ("auto", "off")]
    assert told[0]["text"] == told[1]["text"]
    assert "head" in told[0]["stats"]["drafted_by"]
    before = len(hub.site.requests)
    again = edgedec(hub, "pull", QWEN)
    assert (again.returncode, len(hub.site.requests)) == (0, before)
    assert repo not in again.stderr


def generated(hub: Hub, *more: str) -> subprocess.CompletedProcess[str]:
    settings = ("--max-tokens", "12", "--temperature", "0", "--json")
    done = edgedec(hub, "generate", "-m", QWEN, "Hi", *settings, *more)
    assert done.returncode == 0, done.stderr
    return done


def test_generate_brings_what_pull_brings(hub: Hub, named: tuple[bytes, dict[str, bytes]]) -> None:
    """The first command that needs a model leaves the same files as ``pull``, and drafts with them."""
    repo = offered(hub, named)
    first = generated(hub)
    assert f"{repo}, about 274.1 MB; `edgedec pull {QWEN} --no-drafter` leaves it out" in first.stderr
    assert "head" in json.loads(first.stdout)["stats"]["drafted_by"]
    made = {name for name in tree(hub.home) if name.startswith(("models", "drafters"))}
    assert json.loads(generated(hub, "--draft", "off").stdout)["text"] == json.loads(first.stdout)["text"]
    before = len(hub.site.requests)
    assert edgedec(hub, "pull", QWEN).returncode == 0
    assert len(hub.site.requests) == before
    assert made == {name for name in tree(hub.home) if name.startswith(("models", "drafters"))}


@pytest.mark.parametrize("draft", ["off", "lookup"])
def test_drafters_that_are_named_bring_no_other(
    hub: Hub, named: tuple[bytes, dict[str, bytes]], draft: str
) -> None:
    repo = offered(hub, named)
    assert repo not in generated(hub, "--draft", draft).stderr
    assert not any(repo in request.path for request in hub.site.requests)


def test_a_model_that_was_pulled_without_its_drafter_stays_so(
    hub: Hub, named: tuple[bytes, dict[str, bytes]]
) -> None:
    repo = offered(hub, named)
    assert edgedec(hub, "pull", QWEN, "--no-drafter").returncode == 0
    assert not (hub.home / "drafters").exists()
    assert repo not in generated(hub).stderr
    assert not any(repo in request.path for request in hub.site.requests)


@pytest.mark.parametrize("command", [("pull", QWEN), ("generate", "-m", QWEN, "Hi", "--max-tokens", "2")])
def test_a_drafter_that_cannot_be_had_costs_a_line(
    hub: Hub, named: tuple[bytes, dict[str, bytes]], command: tuple[str, ...]
) -> None:
    repo = offered(hub, named, drafter=False)
    done = edgedec(hub, *command)
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stderr.splitlines() if "runs without" in line)
    assert f"`edgedec draft import {repo} -m {QWEN}` tries again" in line
