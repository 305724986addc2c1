"""The native engine for Windows, in Wine with ONNX Runtime's Windows library: Linux's tokens, and refusals.

Needs SmolLM2-135M in the store, and EDGEDEC_ORT_WINDOWS (CONTRIBUTING.md has the commands).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from edgedec.disk.home import default_home
from tests.windows import cross
from tests.windows.hosts import Host, windows_host

MODEL = default_home() / "models" / "smollm2-135m"
LACKS = cross.missing(wine=True, runtime=True) or (
    None if MODEL.is_dir() else "needs `edgedec pull smollm2-135m`"
)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(LACKS is not None, reason=str(LACKS))]

PROMPT = "def fibonacci(n):  # The first numbers are 0, 1, 1, 2, 3, 5, 8. The first numbers are 0, 1, 1,"
TEXTS = ("Grüße aus Köln, 42 €", "naïve 日本語 \U0001f600 text", "  two  blanks")
TOKENS = 64


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
