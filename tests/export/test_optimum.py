"""Architectures that EdgeDec does not build: what is refused, and what becomes of what optimum makes.

A program of a few lines stands in for optimum here; tests/reference/test_optimum.py runs the real one.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from edgedec.backends.open import open_backend
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError, EdgeDecError, NotFoundError, UnsupportedError, UsageError
from edgedec.core.rows import Rows
from edgedec.disk.installing import pip_install
from edgedec.export import export_huggingface
from edgedec.export.optimum import exporter
from edgedec.export.optimum.graph import cache_shape
from edgedec.export.optimum.worker import difference
from edgedec.export.tokenizer import build_tokenizer
from tests.fixtures.tiny_decoder import (
    CONTEXT,
    HEADS,
    HIDDEN,
    VOCAB,
    decoder,
    random_weights,
    reference_logits,
)
from tests.fixtures.tiny_huggingface import save_tensors
from tests.fixtures.tiny_tokenizers import bpe_metadata

TOKENS = [5, 17, 3, 250, 42, 8, 5, 61, 299, 11]
CONFIG = {"model_type": "mpt", "vocab_size": VOCAB}
FACTS = {"heads": HEADS, "hidden": HIDDEN, "vocab": VOCAB, "context": CONTEXT}
_WORKER = """
import os, pathlib, shutil, sys, time
source, made = map(pathlib.Path, sys.argv[1:])
print("noise"); print("noise", file=sys.stderr)
if (source / "made" / "slow").exists():
    (source / "pid.new").write_text(str(os.getpid())); (source / "pid.new").rename(source / "pid")
    time.sleep(100)
for name in ("model.onnx", "facts.json"):
    if (source / "made" / name).exists():
        shutil.copy(source / "made" / name, made / name)
sys.exit(3)
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model directory of an unknown architecture, and a stand-in that finds its results in there."""
    worker = tmp_path / "worker.py"
    worker.write_text(_WORKER)
    monkeypatch.setattr(exporter, "WORKER", [sys.executable, str(worker)])
    monkeypatch.setattr(metadata, "version", lambda package: "1.2.3")
    directory = tmp_path / "tiny-llm"
    (directory / "made").mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(CONFIG))
    (directory / "tokenizer.json").write_text(build_tokenizer(bpe_metadata())[0])
    save_tensors(directory, {"weight": np.ones((2, 2), np.float32)})
    onnx.save_model(decoder(random_weights()), directory / "made" / "model.onnx")
    (directory / "made" / "facts.json").write_text(json.dumps(FACTS))
    return directory


def refused(source: Path, error: type[EdgeDecError], message: str, **options: Any) -> None:
    out = source.parent / "out"
    with pytest.raises(error, match=message) as caught:
        export_huggingface(source, out, **options)
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)
    assert not list(source.parent.glob("out*"))


def test_the_bundle(source: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = source.parent / "out"
    stages = set()
    manifest = export_huggingface(source, out, progress=lambda stage, done, total: stages.add(stage))
    assert capfd.readouterr() == ("", "")
    assert Manifest.load(out, verify=True) == manifest
    others = ["manifest.json", "tokenizer.table"]
    assert sorted(file.name for file in out.iterdir()) == sorted([*manifest.files, *others])
    assert len({file.stat().st_mode for file in out.iterdir()}) == 1
    assert (manifest.kind, manifest.name, manifest.spec.architecture) == ("optimum", "tiny-llm", "mpt")
    assert manifest.versions["optimum-onnx"] == "1.2.3"
    assert "sha256 of model.safetensors" in manifest.source
    assert stages == {"optimum", "source"}
    got = open_backend(out, manifest, threads=1).forward().extend(TOKENS, rows=Rows(full=True)).logits
    expected = reference_logits(random_weights(), TOKENS)
    np.testing.assert_allclose(got, expected, atol=1e-5 * np.abs(expected).max())


def test_without_optimum(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str) -> str:
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(metadata, "version", missing)
    refused(
        source, UnsupportedError, rf"'mpt' is not one .* llama, qwen2.* {re.escape(pip_install('optimum'))}"
    )


def test_what_stands_in_the_way(source: Path) -> None:
    refused(source, UsageError, "cannot be quantised to q4_0 .* in float32", quant="q4_0")
    (source / "config.json").write_text(json.dumps({**CONFIG, "quantization_config": {}}))
    refused(source, UnsupportedError, "quantised already")
    (source / "config.json").write_text(json.dumps(CONFIG))
    (source / "model.safetensors").rename(source / "pytorch_model.bin")
    refused(source, UnsupportedError, "pickled weights only")
    (source / "pytorch_model.bin").unlink()
    refused(source, NotFoundError, r"has no model\.safetensors")
    (source / "tokenizer.json").rename(source / "tokenizer.model")
    refused(source, UnsupportedError, r"has no tokenizer\.json")
    (source / "config.json").write_text(json.dumps({"model_type": "mpt"}))
    refused(source, BadFileError, r"config\.json lacks vocab_size")


def test_what_optimum_refuses(source: Path) -> None:
    facts = source / "made" / "facts.json"
    facts.write_text(json.dumps({"error": "ValueError: no\nsuch\x1b architecture"}))
    refused(
        source, UnsupportedError, "optimum cannot export this mpt model: ValueError: no such. architecture"
    )
    facts.unlink()
    refused(source, UnsupportedError, "its process ended with status 3")


def test_an_interrupted_export_leaves_no_process_and_no_files(source: Path) -> None:
    (source / "made" / "slow").touch()

    def interrupt(stage: str, done: int, total: int) -> None:
        if (source / "pid").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_huggingface(source, source.parent / "out", progress=interrupt)
    assert not list(source.parent.glob("out*"))
    with pytest.raises(ProcessLookupError):
        os.kill(int((source / "pid").read_text()), 0)


def four(graph: onnx.GraphProto) -> None:
    for node in graph.input:
        if node.name == "past_key_values.1.key":
            node.type.tensor_type.shape.dim[1].dim_value = 4


def flat(graph: onnx.GraphProto) -> None:
    for node in graph.input:
        if node.name.startswith("past"):
            del node.type.tensor_type.shape.dim[3]


CACHES: list[tuple[Callable[[onnx.GraphProto], object], str]] = [
    (four, "another cache"),
    (flat, "a cache of shape"),
    (lambda g: g.input.pop(), "another cache"),
    (lambda g: setattr(g.input[-1], "name", "past_conv.1"), "another cache"),
    (lambda g: [g.input.pop() for _ in range(4)], "another cache"),
]


@pytest.mark.parametrize(("change", "message"), CACHES)
def test_caches_that_the_backend_does_not_have(
    change: Callable[[onnx.GraphProto], object], message: str
) -> None:
    graph = decoder(random_weights()).graph
    assert cache_shape(graph).layers == 2
    change(graph)
    with pytest.raises(UnsupportedError, match=message):
        cache_shape(graph)


def test_the_worker_sees_a_graph_that_computes_something_else(source: Path) -> None:
    """As it compares a graph with its model: in passes of several sizes, so that positions count."""
    path, tokens = source / "made" / "model.onnx", np.array([*TOKENS, *TOKENS])
    expected = reference_logits(random_weights(), tokens.tolist()).astype(np.float32)
    assert difference(path, tokens, expected) < 1e-5
    wrong = decoder(random_weights())
    for node in wrong.graph.node:
        if node.input[:1] == ["positions"]:
            node.input[1] = "nowhere"
    nowhere = onnx.helper.make_node("Mul", ["position_ids", "zero"], ["nowhere"])
    wrong.graph.node.insert(0, nowhere)
    wrong.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(1, np.int64), "zero"))
    onnx.save_model(wrong, path)
    assert difference(path, tokens[:1], expected[:1]) < 1e-5
    assert difference(path, tokens, expected) > 1e-2
