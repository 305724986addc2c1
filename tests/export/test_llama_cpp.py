"""GGUF files that llama.cpp is to run: what becomes of them, and what is said where there is no llama.cpp.

A program of a few lines answers for llama.cpp; tests/integration/test_llama_cpp_backend.py asks the real one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgedec.backends.open import open_backend, runtime_of
from edgedec.bundle.manifest import Manifest
from edgedec.cli.services import Services
from edgedec.core.errors import BackendError, BadFileError, EdgeDecError, UnsupportedError
from edgedec.disk.installing import pip_install
from edgedec.export import ModelCard, export_gguf
from edgedec.models import Store
from edgedec.text.tokenizer import Tokenizer
from tests.cli.support import run
from tests.fixtures.foreign_gguf import write_foreign
from tests.fixtures.pretended_llama import FACTS, answers, pretend
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_vocab import BPE_SPECIALS, bpe_pieces

VOCAB = len(BPE_SPECIALS) + len(bpe_pieces()[0])
GOOD = answers(facts={**FACTS, "vocab": VOCAB})
NONE = "no_such_llama"


@pytest.fixture
def pretended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """``pretended(program)``: a llama.cpp for which the program answers."""
    monkeypatch.setenv("EDGEDEC_HOME", str(tmp_path / "home"))
    return lambda program: pretend(monkeypatch, tmp_path, program)


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no llama.cpp."""
    monkeypatch.setattr("edgedec.backends.llama_cpp.probe.MODULE", NONE)


def refused(gguf: Path, error: type[EdgeDecError], *words: str, **options: Any) -> None:
    out = gguf.with_name("out")
    with pytest.raises(error) as caught:
        export_gguf(gguf, out, **options)
    assert type(caught.value) is error
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert not out.exists()
    assert not list(gguf.parent.glob("out.*"))


def test_an_unknown_architecture_is_kept_as_it_is(tmp_path: Path, pretended: Callable[[str], None]) -> None:
    pretended(GOOD)
    gguf = write_foreign(tmp_path / "tiny.gguf", "gpt2")
    manifest = export_gguf(gguf, tmp_path / "out", card=ModelCard({"origin": "here"}))
    assert (tmp_path / "out" / "tokenizer.table").is_file()
    assert manifest == Manifest.load(tmp_path / "out", verify=True)
    assert sorted(manifest.files) == ["chat_template.jinja", "model.gguf", "tokenizer.json"]
    assert os.path.samefile(gguf, tmp_path / "out" / "model.gguf"), "no second copy of the weights"
    assert (manifest.kind, runtime_of(manifest)) == ("gguf", "llama.cpp")
    assert manifest.source["sha256"] == manifest.files["model.gguf"].sha256
    assert manifest.source["origin"] == "here"
    spec = manifest.spec
    assert (spec.name, spec.architecture, spec.vocab_size, spec.head_dim) == ("Tiny gpt2", "gpt2", VOCAB, 16)
    tokenizer = Tokenizer.load(tmp_path / "out", manifest.tokenizer)
    assert tokenizer.decode(tokenizer.encode("hello world")) == "hello world"


def test_where_files_cannot_have_two_names_it_is_copied(
    tmp_path: Path, pretended: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*paths: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    pretended(GOOD)
    monkeypatch.setattr(os, "link", refuse)
    gguf = write_foreign(tmp_path / "tiny.gguf", "gpt2")
    assert export_gguf(gguf, tmp_path / "out") == Manifest.load(tmp_path / "out", verify=True)
    assert not os.path.samefile(gguf, tmp_path / "out" / "model.gguf")
    assert (tmp_path / "out" / "model.gguf").read_bytes() == gguf.read_bytes()


@pytest.mark.usefixtures("absent")
def test_without_llama_cpp_the_refusal_says_what_would_help(tmp_path: Path) -> None:
    gguf = write_foreign(tmp_path / "tiny.gguf", "gpt2")
    help = f"llama.cpp may run it: {pip_install('gguf')}"
    refused(gguf, UnsupportedError, "architecture 'gpt2' is not supported", "supported are llama", help)
    refused(gguf, UnsupportedError, "llama-cpp-python is not installed", backend="llama.cpp")
    partial = write_tiny(tmp_path / "partial.gguf", extra={"llama.rope.dimension_count": 8})
    refused(partial, UnsupportedError, "partial rotary", help)


def test_what_no_tokenizer_fits_is_not_for_llama_cpp(
    tmp_path: Path, pretended: Callable[[str], None]
) -> None:
    pretended("raise SystemExit('never asked')")
    gguf = write_tiny(
        tmp_path / "tiny.gguf", extra={"general.architecture": "rwkv", "tokenizer.ggml.model": "rwkv"}
    )
    with pytest.raises(UnsupportedError) as caught:
        export_gguf(gguf, tmp_path / "out")
    assert "llama.cpp" not in str(caught.value)


def test_formats_without_a_kernel_go_to_llama_cpp_too(
    tmp_path: Path, pretended: Callable[[str], None]
) -> None:
    pretended(GOOD)
    gguf = write_tiny(tmp_path / "tiny.gguf", extra={"llama.expert_count": 4})
    refused(gguf, UnsupportedError, "llama.expert_count = 4", backend="edgedec")
    assert export_gguf(gguf, tmp_path / "out").kind == "gguf"


def test_a_known_architecture_stays_with_our_kernels_unless_asked(
    tmp_path: Path, pretended: Callable[[str], None]
) -> None:
    pretended(GOOD)
    gguf = write_tiny(tmp_path / "tiny.gguf")
    assert export_gguf(gguf, tmp_path / "ours").kind == "edgedec"
    assert not (tmp_path / "runs").exists()
    assert export_gguf(gguf, tmp_path / "theirs", backend="llama.cpp").kind == "gguf"


def test_a_llama_cpp_that_crashes_or_refuses_is_named(
    tmp_path: Path, pretended: Callable[[str], None]
) -> None:
    gguf = write_foreign(tmp_path / "tiny.gguf", "gpt2")
    both = "architecture 'gpt2' is not supported; and llama.cpp "
    pretended("os.kill(os.getpid(), signal.SIGILL)")
    refused(gguf, BackendError, both + "crashed (SIGILL)", "-fno-tree-dse")
    pretended(answers(error="llama.cpp cannot load tiny.gguf: unknown model architecture"))
    refused(gguf, UnsupportedError, both + "cannot load tiny.gguf", "supported are")


def test_a_truncated_file_never_gets_there(tmp_path: Path, pretended: Callable[[str], None]) -> None:
    pretended(GOOD)
    gguf = write_foreign(tmp_path / "tiny.gguf", "gpt2")
    whole = gguf.read_bytes()
    for size in (0, 3, 20, 1000, len(whole) // 2, len(whole) - 40):
        gguf.write_bytes(whole[:size])
        refused(gguf, BadFileError, backend="llama.cpp")
    assert not (tmp_path / "runs").exists()


def test_a_bundle_whose_file_is_another_model(tmp_path: Path, pretended: Callable[[str], None]) -> None:
    pretended(GOOD)
    manifest = export_gguf(write_foreign(tmp_path / "tiny.gguf", "gpt2"), tmp_path / "out")
    model = tmp_path / "out" / "model.gguf"
    os.utime(model, (1, 1))  # changed: what was found out about it does not count any more
    pretended(answers(facts={**FACTS, "vocab": VOCAB + 1}))
    with pytest.raises(BadFileError, match=r"model\.gguf of the bundle is not the model"):
        open_backend(tmp_path / "out", manifest)
    model.write_bytes(b"GGUF")
    with pytest.raises(BadFileError, match="has 4 bytes, not"):
        Manifest.load(tmp_path / "out")


def test_the_user_is_told(tmp_path: Path, pretended: Callable[[str], None]) -> None:
    pretended(GOOD)
    gguf = write_foreign(tmp_path / "tiny.gguf", "gpt2")
    note = "is run by llama.cpp, not by EdgeDec's kernels"
    result = run(Services(), "export", str(gguf), "-o", str(tmp_path / "out"), "--json")
    assert result.stderr == f"note: Tiny gpt2 {note}\n"
    assert json.loads(result.stdout)["architecture"] == "gpt2"
    told: list[str] = []
    bundle = Store(tmp_path / "home", notice=told.append).ensure(str(gguf))
    assert told == [f"note: {bundle.name} {note}"]
    wrong = run(Services(), "export", str(tmp_path / "out"), "-o", str(tmp_path), "--backend", "llama.cpp")
    assert wrong.exit_code == 2
    assert "--backend is for GGUF files" in wrong.stderr
