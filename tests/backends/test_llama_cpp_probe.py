"""The probe of llama.cpp: programs of a few lines stand in for builds that crash, hang, lack or work."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from edgedec.backends.llama_cpp import probe_worker
from edgedec.backends.llama_cpp.probe import probe
from edgedec.core.errors import BackendError, EdgeDecError, UnsupportedError
from edgedec.disk.installing import pip_install
from tests.fixtures.pretended_llama import FACTS, answers, pretend

BINDING = "edgedec.backends.llama_cpp.binding"
Worker = Callable[[str], Path]


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    """``worker(program)``: that is what loads models from now on; returns a model."""
    monkeypatch.setenv("EDGEDEC_HOME", str(tmp_path / "home"))
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")

    def use(program: str) -> Path:
        pretend(monkeypatch, tmp_path, program)
        return model

    return use


def refused(model: Path, error: type[EdgeDecError], *words: str) -> None:
    with pytest.raises(error) as caught:
        probe(model, "ab")
    assert type(caught.value) is error
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text


@pytest.mark.parametrize("name", ["SIGILL", "SIGSEGV", "SIGABRT"])
def test_a_build_that_crashes(worker: Worker, name: str) -> None:
    model = worker(f"print('GGML_ASSERT', file=sys.stderr, flush=True); os.kill(os.getpid(), signal.{name})")
    refused(model, BackendError, f"llama.cpp crashed ({name}): GGML_ASSERT", "-fno-tree-dse", "pip install")


def test_one_that_the_system_kills(worker: Worker) -> None:
    refused(worker("os.kill(os.getpid(), signal.SIGKILL)"), BackendError, "was killed", "more memory")


def test_one_that_hangs(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedec.backends.llama_cpp.probe.PATIENCE_S", 0.3)
    refused(worker("time.sleep(60)"), BackendError, "did not load model.gguf and run 8 tokens within 0 s")


def test_one_that_ends_without_an_answer(worker: Worker) -> None:
    refused(worker("print('[1]'); sys.exit(3)"), BackendError, "ended with status 3")
    refused(worker("print('Killed', file=sys.stderr)"), BackendError, "status 0: Killed")


def test_one_that_lacks_a_module(worker: Worker) -> None:
    model = worker(answers(missing="diskcache"))
    refused(model, UnsupportedError, "no module diskcache", pip_install("gguf"))


def test_one_that_is_too_old(worker: Worker) -> None:
    model = worker(answers(old="0.2.1", lacks="kv_unified"))
    refused(model, UnsupportedError, "0.2.1 is too old", "no kv_unified", "--upgrade")


def test_a_model_that_it_refuses(worker: Worker) -> None:
    model = worker(answers(error="llama.cpp cannot load model.gguf: unknown architecture"))
    refused(model, UnsupportedError, "cannot load model.gguf: unknown architecture")
    refused(
        worker(answers(facts={**FACTS, "generates": False})), UnsupportedError, "none that continues text"
    )
    refused(worker(answers(facts={"vocab": "many"})), UnsupportedError, "no answer that can be read")


def test_none_installed(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    model = worker(answers(facts=FACTS))
    monkeypatch.setattr("edgedec.backends.llama_cpp.probe.MODULE", "no_such_llama")
    refused(model, UnsupportedError, "takes llama-cpp-python", pip_install("gguf"))


def test_what_works_is_kept_until_something_changes(worker: Worker, tmp_path: Path) -> None:
    model = worker(answers(facts=FACTS))
    library = tmp_path / "library" / "pretended_llama" / "lib" / "libllama.so"
    seen = tmp_path / "runs"
    for expected, change in [
        (1, lambda: None),
        (1, lambda: None),
        (2, lambda: library.write_bytes(b"another")),
        (3, lambda: os.utime(model, (1, 1))),
        (3, lambda: None),
        (4, lambda: [kept.write_text("{") for kept in (tmp_path / "home" / "llama.cpp").iterdir()]),
    ]:
        change()
        assert probe(model, "ab") == FACTS
        assert len(seen.read_text()) == expected
    assert probe(model, "cd") == FACTS
    assert len(seen.read_text()) == 5


def test_what_fails_is_tried_again(worker: Worker) -> None:
    refused(worker("sys.exit(1)"), BackendError, "status 1")
    assert probe(worker(answers(facts=FACTS)), "ab") == FACTS


def test_a_home_that_cannot_be_written_only_costs_time(worker: Worker, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    for runs in (1, 2):
        assert probe(worker(answers(facts=FACTS)), "ab") == FACTS
        assert len((tmp_path / "runs").read_text()) == runs


def forget_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next import load the binding again; the undo removes it, also where none was loaded before."""
    monkeypatch.setitem(sys.modules, BINDING, types.ModuleType(BINDING))
    del sys.modules[BINDING]
    monkeypatch.setattr(BINDING, None, raising=False)
    monkeypatch.delattr(BINDING)


def test_the_worker_says_what_is_missing_or_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_binding(monkeypatch)
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    assert probe_worker.examine(tmp_path / "model.gguf") == {"missing": "llama_cpp"}
    old = types.ModuleType("llama_cpp")
    old.__version__ = "0.1.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "llama_cpp", old)
    answer = probe_worker.examine(tmp_path / "model.gguf")
    assert answer == {"old": "0.1.0", "lacks": "llama_model_load_from_file"}


def test_a_binding_to_a_pretended_llama_cpp_does_not_outlive_its_test(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delitem(sys.modules, BINDING, raising=False)
    with pytest.MonkeyPatch.context() as inner:
        test_the_worker_says_what_is_missing_or_old(inner, tmp_path)
    assert BINDING not in sys.modules
