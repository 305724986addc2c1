"""The native engine for Windows, in Wine with ONNX Runtime's Windows library: Linux's tokens, and refusals.

Needs SmolLM2-135M in the store, and EDGEDEC_ORT_WINDOWS (CONTRIBUTING.md has the commands).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgedec.disk.home import default_home
from edgedec.kernels.library import library_path
from tests.conftest import ROOT
from tests.native.native_runs import runtime
from tests.windows import cross

MODEL = default_home() / "models" / "smollm2-135m"
LACKS = cross.missing(wine=True, runtime=True) or (
    None if MODEL.is_dir() else "needs `edgedec pull smollm2-135m`"
)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(LACKS is not None, reason=str(LACKS))]

PROMPT = "def fibonacci(n):  # The first numbers are 0, 1, 1, 2, 3, 5, 8. The first numbers are 0, 1, 1,"
TEXTS = ("Grüße aus Köln, 42 €", "naïve 日本語 \U0001f600 text", "  two  blanks")
TOKENS = 64


@dataclass
class Host:
    """The program of the tests, on one of the systems; it gets paths as that system writes them."""

    command: list[str]
    runtime: Path
    wine: bool

    def __post_init__(self) -> None:
        self._process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=cross.in_wine() if self.wine else dict(os.environ),
        )

    def ask(self, *words: object) -> list[str]:
        """The words of the answer: ok, or error with its code, message and hint."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        paths = (cross.windows_path(word) if self.wine and isinstance(word, Path) else word for word in words)
        self._process.stdin.write(("\t".join(map(str, paths)) + "\n").encode())
        self._process.stdin.flush()
        return self._process.stdout.readline().decode().rstrip("\r\n").split("\t")

    def open(self, bundle: Path, memory: int = 0, draft: str = "off") -> list[str]:
        return self.ask("open", bundle, self.runtime, 1, 512, memory, draft)

    def said(self, *words: object) -> str:
        done, *rest = self.ask(*words)
        assert done == "ok", rest
        return rest[0]

    def generate(
        self, ids: list[str], most: int = TOKENS, temperature: float = 0.0
    ) -> tuple[list[str], int, int]:
        """The ids of a reply, tokens reused, drafted ones accepted."""
        reply, _, figures = self.said("generate", most, temperature, 7, *ids).partition("; ")
        reused, accepted = map(int, figures.split())
        return reply.split(), reused, accepted

    def close(self) -> None:
        self._process.communicate()


def windows_host() -> Host:
    return Host(["wine", str(cross.windows_program("engine_host"))], Path(cross.RUNTIME), wine=True)


@pytest.fixture(scope="module")
def linux(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    made, library = tmp_path_factory.mktemp("linux") / "engine_host", library_path()
    links = (library, f"-Wl,-rpath,{library.parent}")
    cross.run(
        "c++", "-std=c++17", "-O1", f"-I{ROOT / 'kernels'}", cross.HOSTS["engine_host"], *links, "-o", made
    )
    host = Host([str(made)], Path(os.fsdecode(runtime())), wine=False)
    yield host
    host.close()


@pytest.fixture(scope="module")
def windows() -> Iterator[Host]:
    host = windows_host()
    yield host
    host.close()


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model in a folder whose name has spaces and letters that no code page of the west has all of."""
    folder = tmp_path_factory.mktemp("store") / "Größe und ähnliches Ω"
    folder.mkdir()
    for file in MODEL.iterdir():
        shutil.copy(file, folder)
    return folder


def test_tokens_and_replies_are_those_of_linux(linux: Host, windows: Host, elsewhere: Path) -> None:
    assert linux.open(MODEL)[0] == "ok"
    assert windows.open(elsewhere) == ["ok", ""]
    for text in TEXTS:
        assert windows.said("encode", text) == linux.said("encode", text)
    ids = linux.said("encode", PROMPT).split()
    greedy, sampled = linux.generate(ids)[0], linux.generate(ids, temperature=0.8)[0]
    assert len(greedy) == len(sampled) == TOKENS
    assert greedy != sampled
    assert windows.generate(ids)[0] == greedy
    assert windows.generate(ids, temperature=0.8)[0] == sampled
    reply = windows.said("reply", 24, "Name three colours: ä, ö, 日?")
    assert reply == linux.said("reply", 24, "Name three colours: ä, ö, 日?")
    assert len(reply) > 10
    assert windows.open(elsewhere, draft="lookup,recycling") == ["ok", ""]
    drafted, _, accepted = windows.generate(ids)
    assert (drafted, accepted > 5) == (greedy, True)


def test_a_session_is_resumed_on_the_other_system(
    linux: Host, windows: Host, elsewhere: Path, tmp_path: Path
) -> None:
    saved, back = tmp_path / "aus Köln.session", tmp_path / "zurück.session"
    assert linux.open(MODEL)[0] == "ok"
    ids = linux.said("encode", PROMPT).split()
    whole = linux.generate(ids, 48)[0]
    first = linux.generate(ids, 16)[0]
    linux.said("save", saved)
    assert windows.open(elsewhere)[0] == "ok"
    windows.said("restore", saved)
    second, reused, _ = windows.generate([*ids, *first], 16)
    assert reused >= len(ids)
    windows.said("save", back)
    linux.said("restore", back)
    third, reused, _ = linux.generate([*ids, *first, *second], 16)
    assert reused >= len(ids) + 16
    assert first + second + third == whole


def test_a_damaged_bundle_has_its_line(windows: Host, linux: Host, tmp_path: Path) -> None:
    for name in ("manifest.json", "model.onnx", "tokenizer.table"):
        folder = tmp_path / f"beschädigt {name}"
        shutil.copytree(MODEL, folder)
        (folder / name).write_bytes((folder / name).read_bytes()[:100])
        there, here = windows.open(folder), linux.open(folder)
        assert there[:2] == here[:2] == ["error", "4"]
        words = (there[2].replace(cross.windows_path(folder), ""), here[2].replace(str(folder), ""))
        assert words[0].replace("/", "") == words[1].replace("/", "")
    assert windows.open(tmp_path / "fehlt")[:2] == ["error", "3"]


def test_a_budget_is_refused_and_kept(elsewhere: Path) -> None:
    """By what Windows counts as resident: the working set."""
    host, budget = windows_host(), 200_000_000
    assert host.open(elsewhere, memory=40_000_000)[:2] == ["error", "10"]
    assert host.open(elsewhere, memory=budget) == ["ok", ""]
    host.generate(host.said("encode", PROMPT).split())
    stats = json.loads(host.said("stats"))
    host.close()
    assert stats["memory"]["budget_bytes"] == budget
    assert 100e6 < stats["rss_bytes"] <= stats["peak_rss_bytes"] <= budget


def test_a_runtime_that_is_none_is_named(windows: Host, tmp_path: Path) -> None:
    (tmp_path / "onnxruntime.dll").write_bytes(b"no library")
    code = windows.ask("open", MODEL, tmp_path / "onnxruntime.dll", 1, 512, 0, "off")
    assert code[:2] == ["error", "9"]
    assert "ONNX Runtime cannot be loaded" in code[2]
