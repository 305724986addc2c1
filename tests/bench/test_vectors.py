"""Vectors of texts beside other runtimes: figures, the recipes of the others, and wrong places."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import Result
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer

from edgedec.bench.peers.onnxruntime_embed_peer import Peer
from edgedec.bench.studies.vectors import TEXTS, WORDS, drawn_texts
from edgedec.cli.services import Services
from edgedec.embed.encoder import load_encoder
from edgedec.export import export_gguf, export_huggingface
from edgedec.models import Store
from tests.cli.support import assert_one_line, run
from tests.fixtures.tiny_bert import CONFIG, write_bert
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_modern import MODERN, write_modern, write_modern_gguf

TABLE = np.random.default_rng(5).standard_normal((CONFIG["vocab_size"], 64)).astype(np.float32)


def bench(folder: Path, *args: str) -> Result:
    return run(Services(store=lambda: Store(folder / "home")), "bench", "embed", *args)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny encoder's bundle, and an ONNX model of its tokens that looks rows up."""
    folder = tmp_path_factory.mktemp("vectors")
    export_huggingface(write_bert(folder / "model"), folder / "bundle", name="tiny-bert")
    names = ("input_ids", "attention_mask")
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "t"]) for name in names]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["n", "t", 64])
    rows = helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])
    tables = [numpy_helper.from_array(TABLE, "table")]
    graph = helper.make_graph([rows], "rows", inputs, [output], tables)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    (folder / "onnx").mkdir()
    onnx.save(model, folder / "onnx/model.onnx")
    (folder / "onnx/tokenizer.json").write_bytes((folder / "bundle/tokenizer.json").read_bytes())
    return folder


def test_texts_are_the_same_ones_each_time() -> None:
    texts = drawn_texts()
    assert texts == drawn_texts()
    assert len(texts) == TEXTS
    assert {len(text.split()) for text in texts} == {*WORDS}


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_onnxruntime_pools_tokens_and_no_padding(places: Path, pooling: str) -> None:
    peer, texts = Peer(), ["the cat", "why is the sky blue . " * 20, "a dog"]
    opened = peer.open(str(places / "onnx"), threads=1, longest=40, pooling=pooling, normalised=True)
    assert opened["version"].startswith("onnxruntime ")
    library = Tokenizer.from_file(str(places / "onnx/tokenizer.json"))
    library.enable_truncation(40)
    expected = []
    for text in texts:
        rows = TABLE[library.encode(text).ids]
        one = {"mean": rows.mean(0), "cls": rows[0], "last": rows[-1]}[pooling]
        expected.append(one / np.linalg.norm(one))
    np.testing.assert_allclose(peer.vectors(texts)["vectors"], expected, atol=1e-5)
    assert peer.embed(texts)["seconds"] > 0


def test_sides_take_turns_and_are_compared(places: Path) -> None:
    asked = (str(places / "bundle"), f"onnxruntime={places / 'onnx'}", "--threads", "1")
    result = bench(places, *asked, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["model"], found["threads"], found["texts"]) == ("tiny-bert", 1, TEXTS)
    own, other = (found["sides"][name] for name in ("edgedec", "onnxruntime"))
    assert own["ratio"] is None
    assert own["least_cosine"] is None
    assert 0 < other["ratio_low"] <= other["ratio"] <= other["ratio_high"]
    assert -1 <= other["least_cosine"] < 0.99  # it is another model
    for side in (own, other):
        assert 0 < side["texts_per_s_low"] <= side["texts_per_s"] <= side["texts_per_s_high"]
        assert side["peak_rss_bytes"] > 10e6
    shown = bench(places, *asked).stdout
    assert "tiny-bert, 1 threads: 200 texts" in shown
    assert "least cosine" in shown


@pytest.mark.slow
def test_llama_cpp_makes_the_same_vectors(tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp")
    gguf = write_modern_gguf(write_modern(tmp_path / "model", MODERN), tmp_path / "tiny.gguf")
    export_gguf(gguf, tmp_path / "bundle")
    peer = import_module("edgedec.bench.peers.llama_cpp_embed_peer").Peer()
    peer.open(str(gguf), threads=1, normalised=True)
    texts = ["the cat sat on the mat .", "why is the sky blue"]
    own = load_encoder(tmp_path / "bundle").embed(texts).vectors
    assert (own * np.array(peer.vectors(texts)["vectors"])).sum(1).min() > 0.9999


@pytest.mark.parametrize(("given", "status", "message"), [
    (["tensorrt=x"], 2, "'tensorrt=x' is no runtime with a model"),
    (["llama.cpp"], 2, "'llama.cpp' is no runtime with a model"),
    (["onnxruntime=nowhere"], 3, "no such file: nowhere/model.onnx"),
    (["llama.cpp=nowhere.gguf"], 3, "no such file: nowhere.gguf"),
])  # fmt: skip
def test_other_runtimes_and_places_are_refused(
    places: Path, given: list[str], status: int, message: str
) -> None:
    assert_one_line(bench(places, str(places / "bundle"), *given), status, message)


def test_a_model_that_replies_is_refused(places: Path) -> None:
    export_gguf(write_tiny(places / "tiny.gguf"), places / "replies")
    assert_one_line(bench(places, str(places / "replies")), 5, "makes no vectors of texts")
