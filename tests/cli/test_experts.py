"""Commands on models with experts: disks that fail, and places that have no experts."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from edgedec.backends.onnx import expert_store
from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.manifest import WEIGHTS
from tests.cli.support import Home, assert_one_line, run
from tests.fixtures.streamed import EXPERTS, LAYERS, first_expert, sparse_bundle, stride
from tests.patience import PATIENCE_S

FAILED, UNSUPPORTED = 9, 5
SAID = ("--max-tokens", "12", "--threads", "1")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sparse_bundle(tmp_path_factory.mktemp("models"))


@pytest.fixture
def bundle(home: Home, made: Path, tmp_path: Path) -> Path:
    """One that a test may damage, beside its file."""
    shutil.copy(made.with_suffix(".gguf"), tmp_path)
    return Path(shutil.copytree(made, tmp_path / made.name))


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expert_store, "available_bytes", lambda: 1)


def shorten(bundle: Path) -> None:
    """The file has no experts of the last layer any more."""
    os.truncate(bundle / WEIGHTS, first_expert(bundle, LAYERS["qwen3moe"] - 1))


def damage(bundle: Path) -> None:
    """A bit of every expert of the first layer is another."""
    with (bundle / WEIGHTS).open("r+b") as file:
        for number in range(EXPERTS.count):
            place = first_expert(bundle, 0) + number * stride(bundle)
            file.seek(place)
            (byte,) = file.read(1)
            file.seek(place)
            file.write(bytes([byte ^ 8]))


HARMS = {
    "shorter": (shorten, "error: an expert cannot be read: the file of the weights has become shorter"),
    "damaged": (damage, "error: an expert is damaged: verify the bundle, or pull or export the model again"),
}


@pytest.fixture(params=HARMS)
def said(request: pytest.FixtureRequest, on_disk: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """A disk that fails under an open model is one line."""
    opened, (harm, words) = OnnxModel.__init__, HARMS[request.param]

    def then_harm(self: OnnxModel, bundle: Path, *args: Any, **how: Any) -> None:
        opened(self, bundle, *args, **how)
        harm(bundle)

    monkeypatch.setattr(OnnxModel, "__init__", then_harm)
    return words


def errors(result: Result) -> list[str]:
    """Lines about errors; nothing else goes wrong, and no text is printed."""
    assert "Traceback" not in result.output
    assert result.stdout.strip() == ""
    return [line for line in result.stderr.splitlines() if line.startswith("error: ")]


@pytest.mark.parametrize(
    "more", [("--draft", "off"), ("--json", "--draft", "off"), ("--draft", "lookup,recycling")]
)
def test_a_reply_ends_in_one_line(home: Home, bundle: Path, said: str, more: tuple[str, ...]) -> None:
    result = run(home.real(), "generate", "-m", str(bundle), "-p", "Hello there", *SAID, *more)
    assert result.exit_code == FAILED
    assert errors(result) == [said]


def test_a_chat_says_so(home: Home, bundle: Path, said: str) -> None:
    result = run(home.real(), "chat", "-m", str(bundle), *SAID, "--draft", "off", stdin="Hi\nAnd again\n")
    assert result.exit_code == FAILED
    assert errors(result) == [said]


def test_lines_of_a_batch_end_in_one_line(home: Home, bundle: Path, tmp_path: Path, said: str) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("One two\nThree\nFour five six\n")
    given = ("-m", str(bundle), "--input", str(lines), "--batch", "3")
    result = run(home.real(), "batch", *given, *SAID)
    assert result.exit_code == FAILED
    assert errors(result) == [said]


REFUSED = {
    "an NPU": (("export", "@.gguf", "-o", "out", "--for", "npu"), "has experts, which an NPU does not have"),
    "training a head": (("draft", "train", "-m", "@"), "has experts: no head can be trained for it yet"),
    "training a small one": (
        ("draft", "train", "-m", "@", "--from", "@.gguf"),
        "a model of architecture 'qwen3moe' cannot be trained",
    ),
}


@pytest.mark.parametrize("where", REFUSED)
def test_places_without_experts_say_so_at_once(
    home: Home, bundle: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    args, words = REFUSED[where]
    if "train" in args:
        pytest.importorskip("torch")
    monkeypatch.chdir(bundle.parent)
    result = run(home.real(), *(one.replace("@", str(bundle)) for one in args))
    assert_one_line(result, UNSUPPORTED, words)
    assert not (bundle.parent / "out").exists()


SLOW = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
#include <sys/types.h>
typedef ssize_t (*Read)(int, void*, size_t, off_t);
ssize_t pread64(int file, void* to, size_t n, off_t at) {
  if (n >= 4096) usleep(2000000);
  return ((Read)dlsym(RTLD_NEXT, "pread64"))(file, to, n, at);
}
ssize_t pread(int file, void* to, size_t n, off_t at) { return pread64(file, to, n, at); }
"""
"""A disk that takes two seconds for each read."""


@pytest.fixture(scope="module")
def slow_disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slow")
    (folder / "slow.c").write_text(SLOW)
    compiler = os.environ.get("CC", "cc")
    command = [compiler, "-shared", "-fPIC", str(folder / "slow.c"), "-o", str(folder / "slow.so"), "-ldl"]
    subprocess.run(command, check=True)
    return folder / "slow.so"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems preload libraries in another way")
def test_who_insists_ends_a_wait_for_a_slow_disk(home: Home, bundle: Path, slow_disk: Path) -> None:
    """The first Ctrl-C lets the pass end, which takes half a minute; the second one does not."""
    given = ("-m", str(bundle), "-p", "one two three four five six seven eight nine ten", "--memory", "150MB")
    command = [sys.executable, "-m", "edgedec", "generate", *given, "--draft", "off", "--context", "256"]
    env = os.environ | {"EDGEDEC_HOME": str(home.path), "LD_PRELOAD": str(slow_disk)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    ) as running:
        assert running.stderr is not None
        assert "72 experts" in running.stderr.readline()
        time.sleep(1.5)
        running.send_signal(signal.SIGINT)
        time.sleep(1.0)
        began = time.monotonic()
        running.send_signal(signal.SIGINT)
        out, said = running.communicate(timeout=PATIENCE_S)
    assert time.monotonic() - began < 15
    assert running.returncode == 130
    assert (out.strip(), said.strip()) == ("", "")
