"""What is particular to the backend of bundles made with optimum: arithmetic, limits, hostile graphs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgedec.backends.optimum import DecoderForward
from edgedec.bundle.manifest import MODEL, WEIGHTS, Manifest
from edgedec.core.errors import BadFileError, UnsupportedError, UsageError
from edgedec.core.rows import Rows
from edgedec.decode.engine import Engine
from edgedec.loaded_model import load_model
from edgedec.sampling import DrawParams
from tests.fixtures.opened import decoder_forward
from tests.fixtures.tiny_decoder import VOCAB, random_weights, reference_logits, write_decoder_bundle

PROMPT = [5, 17, 3, 250, 42, 8, 5, 61, 299, 11, 0, 77]
Change = Callable[[onnx.GraphProto], None]


def opened(bundle: Path, manifest: Manifest | None = None, **options: int) -> DecoderForward:
    return decoder_forward(bundle, manifest or Manifest.load(bundle), threads=2, spin=False, **options)


@pytest.mark.parametrize("pieces", [(12,), (1,) * 12, (5, 1, 6)])
def test_logits_are_those_of_numpy(decoder_bundle: Path, pieces: tuple[int, ...]) -> None:
    expected = reference_logits(random_weights(), PROMPT)
    forward, start = opened(decoder_bundle), 0
    for size in pieces:
        got = forward.extend(PROMPT[start : start + size], rows=Rows(full=True)).logits
        np.testing.assert_allclose(got, expected[start : start + size], atol=1e-5 * np.abs(expected).max())
        start += size


def test_greedy_tokens_are_those_of_numpy(decoder_bundle: Path) -> None:
    steps = Engine(opened(decoder_bundle)).generate(PROMPT, DrawParams(), max_tokens=20, stop_ids=())
    got = [step.token for step in steps]
    text = list(PROMPT)
    for _ in range(20):
        text.append(int(reference_logits(random_weights(), text)[-1].argmax()))
    assert got == text[len(PROMPT) :]
    assert len(set(got)) > 5


def test_a_tree_is_refused_and_a_chain_is_not(decoder_bundle: Path) -> None:
    forward = opened(decoder_bundle)
    forward.extend(PROMPT)
    with pytest.raises(UnsupportedError, match="cannot run a tree of tokens") as caught:
        forward.extend([1, 2, 3], parents=[-1, -1, 0])
    assert "\n" not in str(caught.value)
    assert (forward.caps.trees, forward.length) == (False, len(PROMPT))
    got = forward.extend([1, 2], parents=[-1, 0], rows=Rows(last=True, full=True)).logits
    expected = reference_logits(random_weights(), [*PROMPT, 1, 2])[-1:]
    np.testing.assert_allclose(got, expected, atol=1e-5 * np.abs(expected).max())


def test_nbytes(decoder_bundle: Path) -> None:
    forward = opened(decoder_bundle)
    weights = (decoder_bundle / WEIGHTS).stat().st_size
    assert forward.nbytes() == {"weights": weights, "kv_cache": 0}
    forward.extend(PROMPT)
    spec = forward.spec
    token = spec.n_layers * 2 * spec.n_kv_heads * spec.head_dim * 4
    assert forward.nbytes() == {"weights": weights, "kv_cache": token * len(PROMPT)}


def test_arguments_are_checked(decoder_bundle: Path) -> None:
    manifest = Manifest.load(decoder_bundle)
    assert opened(decoder_bundle).capacity == manifest.spec.context_length
    with pytest.raises(UsageError, match="257 tokens"):
        opened(decoder_bundle, capacity=257)
    with pytest.raises(UsageError, match="0 threads"):
        decoder_forward(decoder_bundle, manifest, threads=0)


def test_the_manifest_chooses_the_backend(decoder_bundle: Path) -> None:
    model = load_model(decoder_bundle, threads=1)
    assert isinstance(model.backend.forward(), DecoderForward)
    assert model.isa == "onnxruntime"


@pytest.mark.parametrize(
    "changes",
    [
        {"n_layers": 1},
        {"n_layers": 3},
        {"n_layers": 2**31 - 1},
        {"head_dim": 2**31 - 1},
        {"n_kv_heads": 1},
        {"head_dim": 8},
        {"head_k": 7},
        {"vocab_size": 400},
    ],
)
def test_a_graph_of_another_model_is_a_bad_file(decoder_bundle: Path, changes: dict[str, int]) -> None:
    manifest = Manifest.load(decoder_bundle)
    manifest = replace(manifest, spec=replace(manifest.spec, **changes))  # type: ignore[arg-type]
    with pytest.raises(BadFileError, match="not the model that its manifest describes"):
        opened(decoder_bundle, manifest).extend([1], rows=Rows(full=True))


def answer(name: str, value: np.ndarray) -> Change:  # type: ignore[type-arg]
    """An output that is always this."""

    def change(graph: onnx.GraphProto) -> None:
        node = next(node for node in graph.node if name in node.output)
        node.CopyFrom(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value)))

    return change


def retype(graph: onnx.GraphProto) -> None:
    """An id as a float."""
    node = next(node for node in graph.node if "ids" in node.output)
    node.op_type = "Cast"
    node.attribute.append(helper.make_attribute("to", TensorProto.FLOAT))
    next(o for o in graph.output if o.name == "ids").type.tensor_type.elem_type = TensorProto.FLOAT


def more_inputs(graph: onnx.GraphProto) -> None:
    graph.input.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, [1]))


def contributed(graph: onnx.GraphProto) -> None:
    """ONNX Runtime's own op with the same meaning."""
    node = next(node for node in graph.node if node.op_type == "Tanh")
    node.op_type, node.domain = "BiasGelu", "com.microsoft"


OTHER = "not the model that its manifest describes"
CHANGES: dict[str, tuple[Change, str]] = {
    "cache that does not grow": (
        answer("present.0.key", np.zeros((1, 2, 1, 16), np.float32)), OTHER
    ),
    "ids outside": (answer("ids", np.full((1, 64), VOCAB, np.int32)), OTHER),
    "negative ids": (answer("ids", np.full((1, 64), -1, np.int32)), OTHER),
    "fewer values": (answer("values", np.zeros((1, 63), np.float32)), OTHER),
    "not a number": (answer("logsumexp", np.full(1, np.nan, np.float32)), "not numbers"),
    "another type": (retype, OTHER),
    "another input": (more_inputs, OTHER),
    "an input fewer": (lambda g: g.input.remove(g.input[3]), "refused the model|not the model"),
    "another domain": (contributed, "ops of the domain 'com.microsoft'"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_tampered_graph_is_refused_in_one_line(name: str, decoder_bundle: Path, tmp_path: Path) -> None:
    change, message = CHANGES[name]
    copy = Path(shutil.copytree(decoder_bundle, tmp_path / "copy"))
    model = onnx.load(str(copy / MODEL), load_external_data=False)
    change(model.graph)
    (copy / MODEL).write_bytes(model.SerializeToString())
    manifest = Manifest.load(decoder_bundle)
    with pytest.raises(BadFileError, match=message) as caught:
        opened(copy, manifest).extend([1, 2])
    assert "\n" not in str(caught.value)


def test_weights_outside_the_bundle_are_refused(decoder_bundle: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(decoder_bundle, tmp_path / "copy"))
    model = onnx.load(str(copy / MODEL), load_external_data=False)
    entries = next(w for w in model.graph.initializer if w.external_data).external_data
    next(entry for entry in entries if entry.key == "location").value = "../weights.bin"
    (copy / MODEL).write_bytes(model.SerializeToString())
    with pytest.raises(BadFileError, match=r"a weight is not in weights\.bin"):
        opened(copy, Manifest.load(decoder_bundle))


def test_weights_that_are_no_numbers_are_a_bad_file(tmp_path: Path) -> None:
    weights = random_weights()
    weights.layers[1][2][:] = np.nan
    forward = opened(write_decoder_bundle(tmp_path / "bundle", weights))
    with pytest.raises(BadFileError, match="not numbers"):
        forward.extend(PROMPT)
    assert forward.length == 0


@pytest.mark.parametrize(("kind", "message"), [("edgedec", OTHER), ("optimum", "domain 'ai.edgedec'")])
def test_a_bundle_of_one_kind_under_the_name_of_the_other(
    kind: str,
    message: str,
    decoder_bundle: Path,
    tiny_bundle: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    bundle = decoder_bundle if kind == "edgedec" else tiny_bundle("llama")
    copy = Path(shutil.copytree(bundle, tmp_path / "copy"))
    replace(Manifest.load(copy), kind=kind).save(copy)
    with pytest.raises(BadFileError, match=message):
        load_model(copy)
