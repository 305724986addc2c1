"""The program for ONNX Runtime GenAI, without it: what it keeps, asks for, and leaves behind."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

PROGRAM = "edgedec.bench.peers.onnxruntime_genai_peer"


class Generator:
    """Gives 10, 11, 12, ... and ends where it was told to."""

    def __init__(self, model: str, params: Any) -> None:
        assert model == "model"
        self.options, self.given, self.made = params.options, 0, 0

    def append_tokens(self, tokens: list[int]) -> None:
        self.given += len(tokens)

    def generate_next_token(self) -> None:
        assert self.given + self.made < self.options["max_length"] == self.options["min_length"]
        self.made += 1

    def get_next_tokens(self) -> list[int]:
        return [9 + self.made]


class Params:
    def __init__(self, model: str) -> None:
        self.options: dict[str, Any] = {}

    def set_search_options(self, **options: Any) -> None:
        self.options |= options


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module, with a stand-in for the runtime, and conversions that write a line each."""
    fake = SimpleNamespace(__version__="1.2", Generator=Generator, GeneratorParams=Params)
    monkeypatch.setitem(sys.modules, "onnxruntime_genai", fake)
    program = importlib.import_module(PROGRAM)

    def save(gguf: Path, out: Path) -> None:
        out.mkdir(parents=True)
        (out / "weights").write_text(f"floats of {gguf.name}")

    def build(source: Path, out: Path, scratch: Path) -> None:
        scratch.mkdir()
        out.mkdir()
        (out / "model").write_text(f"int4 of {(source / 'weights').read_text()}")

    monkeypatch.setattr(program, "_save_floats", save)
    monkeypatch.setattr(program, "_build", build)
    yield program
    del sys.modules[PROGRAM]  # it knows the stand-in only


def test_a_model_is_made_once_and_floats_do_not_stay(program: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "partial" / "floats").mkdir(parents=True)  # left by one that was killed
    made = Path(program.Peer().prepare("a.gguf", str(tmp_path))["model"])
    assert list(tmp_path.iterdir()) == [made]
    assert made.name == "onnxruntime-genai-1.2-int4-block-32-level-4"
    assert (made / "model").read_text() == "int4 of floats of a.gguf"
    (made / "model").write_text("kept")
    assert program.Peer().prepare("a.gguf", str(tmp_path)) == {"model": str(made)}
    assert (made / "model").read_text() == "kept"


def test_a_conversion_that_fails_leaves_nothing(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*paths: Path) -> None:
        raise KeyError("rope_type")

    monkeypatch.setattr(program, "_build", fail)
    words = r"its model builder cannot convert a\.gguf \(KeyError: 'rope_type'\)"
    with pytest.raises(RuntimeError, match=words):
        program.Peer().prepare("a.gguf", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_exactly_the_tokens_asked_for(program: ModuleType) -> None:
    peer = program.Peer()
    peer._model = "model"
    took = peer.generate([1, 2, 3], 4)
    assert took["tokens"] == [10, 11, 12, 13]
    assert took["prefill_s"] >= 0 <= took["decode_s"]
