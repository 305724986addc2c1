"""Models with experts: how their tensors are read and packed, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.core.errors import BadFileError, EdgeDecError, UnsupportedError
from edgedec.export import export_gguf
from edgedec.export.architectures import ARCHITECTURES
from edgedec.export.calibration.experts import expert_weights
from edgedec.export.experts import ExpertSizes
from edgedec.export.gguf_source import GgufSource, open_gguf
from edgedec.export.graph import build_graph
from edgedec.export.hyperparameters import Hyperparameters, read_hyperparameters
from edgedec.export.model import ExpertsWeight, ExportModel, PackedWeight, attributes
from edgedec.export.passes import DEFAULT_PASSES, run_passes
from edgedec.export.tensors import Tensors
from edgedec.export.writer import BundleWriter
from edgedec.kernels.packing.layout import FORMATS, pack
from edgedec.kernels.packing.recode import packed_format, recode
from tests.fixtures.tiny_experts import BASES, ExpertShape
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.reference.experts import experts as reference_experts

MIXTURE = ExpertShape()
LAYERS = {"qwen3moe": 2, "lfm2moe": 3, "granitemoe": 2, "qwen35moe": 4, "gemma4moe": 6, "gpt-oss": 2}


def shape_of(architecture: str, **changes: Any) -> TinyShape:
    return TinyShape(layers=LAYERS[architecture], experts=ExpertShape(**changes))


def read(source: GgufSource) -> tuple[Hyperparameters, ExportModel]:
    """The sizes of a model and its fused graph."""
    hyper = read_hyperparameters(ARCHITECTURES[str(source.metadata["general.architecture"])], source.metadata)
    model = build_graph(hyper, Tensors(source))
    run_passes(model, DEFAULT_PASSES)
    return hyper, model


def hyper_of(path: Path) -> Hyperparameters:
    with open_gguf(path) as source:
        return read(source)[0]


def test_the_sizes_are_those_of_the_file(tmp_path: Path) -> None:
    sizes = ExpertSizes(6, 2, 32, 0, 0, "softmax", False, True, 0.0, 1.0)
    expected = {
        "qwen3moe": sizes,
        "granitemoe": sizes,
        "gemma4moe": sizes,
        "gpt-oss": sizes,
        "qwen35moe": ExpertSizes(6, 2, 32, 0, 64, "softmax", False, True, 0.0, 1.0),
        "lfm2moe": ExpertSizes(6, 2, 32, 1, 0, "sigmoid", True, True, 1e-6, 1.0),
    }
    for architecture, found in expected.items():
        path = write_tiny(tmp_path / architecture, architecture, shape=shape_of(architecture))
        assert hyper_of(path).experts == found
    for dense in ("qwen3", "gemma4"):
        assert hyper_of(write_tiny(tmp_path / dense, dense)).experts is None


def test_a_manifest_says_what_computes_every_token(tmp_path: Path) -> None:
    """An MLP beside experts, or a shared expert; and the width of an MLP only where a layer has one."""
    widths = {"qwen3moe": (32, 0), "lfm2moe": (96, 0), "qwen35moe": (32, 64), "gemma4moe": (192, 192)}
    for architecture, (ffn, shared) in widths.items():
        path = write_tiny(tmp_path / architecture, architecture, shape=shape_of(architecture))
        spec = export_gguf(path, tmp_path / f"{architecture}.bundle").spec
        assert spec.experts is not None
        assert (spec.ffn_size, spec.experts.shared) == (ffn, shared)


@pytest.mark.parametrize("architecture", BASES)
def test_the_graph_has_a_router_and_experts_with_a_residual(architecture: str, tmp_path: Path) -> None:
    shape = shape_of(architecture)
    with open_gguf(write_tiny(tmp_path / "m.gguf", architecture, shape=shape)) as source:
        hyper, model = read(source)
    assert hyper.experts is not None
    mixtures = [node for node in model.nodes if node.op_type == "Experts"]
    layers = range(hyper.experts.dense, hyper.layers)
    routed = [node for node in mixtures if node.input[2] == f"{node.name.rpartition('.')[0]}.ffn_exps.weight"]
    assert [node.name for node in routed] == [f"blk.{layer}.ffn_exps" for layer in layers]
    producers = model.producers()
    for node in routed:
        x, scores, weight, choice, factor, residual = [*node.input, ""][:6]
        router = producers[scores]
        assert router.op_type == "QuantLinear"
        assert (router.input[0] == x) != (architecture == "gemma4moe")
        assert router.input[3].endswith("ffn_gate_inp.weight")
        assert bool(choice) == (architecture == "lfm2moe")
        assert bool(factor) == (architecture == "gemma4moe") != bool(residual)
        assert bool(router.input[1]) == (architecture == "gpt-oss")
        facts = attributes(node)
        assert (facts["experts"], facts["chosen"], facts["rows"], facts["cols"]) == (6, 2, 32, shape.hidden)
        assert facts["formats"] == "q8_0,q8_0,q8_0"
        assert model.weights[weight].shape == (6, 3 * 4096)
    counts = Counter(node.op_type for node in model.nodes)
    assert counts["GatedMLP"] == (hyper.layers if architecture == "gemma4moe" else hyper.experts.dense)
    assert counts["Add"] == 0


def test_an_mlp_beside_experts_has_norms_of_its_own(tmp_path: Path) -> None:
    """Both read the hidden states through a norm each, and so does the router, whose input is divided."""
    with open_gguf(write_tiny(tmp_path / "m.gguf", "gemma4moe", shape=shape_of("gemma4moe"))) as source:
        _, model = read(source)
        scale = source.vector(source.tensors["blk.1.ffn_gate_inp.scale"])
        factors = source.vector(source.tensors["blk.1.ffn_down_exps.scale"])
    producers = model.producers()
    nodes = {node.name: node for node in model.nodes}
    routed = nodes["blk.1.ffn_exps"]
    router, after = producers[producers[routed.input[1]].input[0]], nodes["blk.1.post_ffw_norm_2"]
    states = {
        producers[routed.input[0]].input[0],
        router.input[0],
        nodes["blk.1.ffn_norm"].input[0],
    }
    assert len(states) == 1
    assert after.input[0] == routed.output[0]
    assert producers[after.input[2]].name == "blk.1.post_ffw_norm_1"
    weights = [model.weights[name] for name in (router.input[1], routed.input[4])]
    np.testing.assert_allclose(weights[0].values, scale / 8, rtol=1e-6)  # type: ignore[union-attr]
    np.testing.assert_array_equal(weights[1].values, factors)  # type: ignore[union-attr]


def test_a_shared_expert_is_a_mixture_of_one(tmp_path: Path) -> None:
    """Its weight is the sigmoid of its gate, and it comes first: the routed ones add to its sum."""
    shape = shape_of("qwen35moe")
    with open_gguf(write_tiny(tmp_path / "m.gguf", "qwen35moe", shape=shape)) as source:
        _, model = read(source)
    producers = model.producers()
    for layer in range(shape.layers):
        shared, routed = (
            next(node for node in model.nodes if node.name == f"blk.{layer}.ffn_{kind}")
            for kind in ("shexp", "exps")
        )
        facts = attributes(shared)
        assert (facts["experts"], facts["chosen"], facts["gating"], facts["normalise"]) == (
            1,
            1,
            "sigmoid",
            0,
        )
        assert facts["rows"] == 64
        gate = producers[shared.input[1]]
        assert attributes(gate)["rows"] == [1]
        assert gate.input[3] == f"blk.{layer}.ffn_gate_inp_shexp.weight"
        assert routed.input[5] == shared.output[0]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(
    "formats",
    [
        ("q4_k", "q4_k", "q6_k"),
        ("q8_0", "q4_0", "f16"),
        ("q5_0", "mxfp4", "q4_1"),
        ("iq2_xxs", "iq2_s", "iq3_s"),
    ],
)
def test_the_row_of_an_expert_has_its_packed_matrices(
    formats: tuple[str, str, str], fused: bool, tmp_path: Path
) -> None:
    """Bytes of each are those of ``pack``, from a multiple of 64 on; a row begins at a multiple of 4096."""
    formats = (formats[0], formats[0], formats[2]) if fused else formats
    shape = TinyShape(
        hidden=256, ffn=256, heads=4, kv_heads=2, experts=ExpertShape(count=5, width=256, fused=fused)
    )
    names = ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")
    roles = {**dict(zip(names, formats, strict=True)), "ffn_gate_up_exps": formats[0]}
    gguf = write_tiny(tmp_path / "m.gguf", "qwen3moe", formats=roles, shape=shape)
    with open_gguf(gguf) as source:
        _, model = read(source)
        writer = BundleWriter(tmp_path, {})
        writer.weights(model, source, lambda *_: None)
        stored = (tmp_path / "weights.bin").read_bytes()
        for layer in range(2):
            name = f"blk.{layer}.ffn_exps.weight"
            weight, offset = model.weights[name], model.placements[name]
            assert isinstance(weight, ExpertsWeight)
            count, stride = weight.shape
            assert (offset % 4096, stride % 4096, count) == (0, 0, 5)
            for expert in range(count):
                row, at = stored[offset + expert * stride :][:stride], 0
                for part, format in enumerate(formats):
                    raw = rows_of(source, f"blk.{layer}.ffn_", part, expert, fused)
                    expected = pack(packed_format(format) or format, recode(format, raw)).tobytes()
                    at += -at % 64
                    assert row[at : at + len(expected)] == expected
                    at += len(expected)
                assert not any(row[at:])
                assert stride - at < 4096


def rows_of(source: GgufSource, begin: str, part: int, expert: int, fused: bool) -> np.ndarray[Any, Any]:
    """The rows of gate, up or down of one expert, as they lie in the file."""
    name = "gate_up" if fused and part < 2 else ("gate", "up", "down")[part]
    tensor = source.tensors[f"{begin}{name}_exps.weight"]
    _, height, _ = tensor.shape
    first = height // 2 if fused and part == 1 else 0
    rows = height // 2 if fused and part < 2 else height
    start = expert * height + first
    return source.rows(tensor, start, start + rows)


def test_experts_are_packed_a_few_tiles_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory does not grow with the number of experts: no read covers rows of two."""
    gguf = write_tiny(tmp_path / "m.gguf", "qwen3moe")
    reads: list[tuple[int, ...]] = []
    with open_gguf(gguf) as source:
        _, model = read(source)
        rows = source.rows

        def watched(tensor: Any, start: int, stop: int) -> Any:
            if tensor.name.endswith("_exps.weight"):
                assert start // tensor.shape[1] == (stop - 1) // tensor.shape[1]
                reads.append((start, stop))
            return rows(tensor, start, stop)

        monkeypatch.setattr(source, "rows", watched)
        BundleWriter(tmp_path, {}).weights(model, source, lambda *_: None)
    assert len(reads) == 2 * 3 * MIXTURE.count


def test_packed_rows_are_what_the_op_reads(tmp_path: Path) -> None:
    """The definition of the op, over the bytes of weights.bin, is the experts of the file."""
    gguf = write_tiny(tmp_path / "m.gguf", "qwen3moe", formats="f32")
    rng = np.random.default_rng(3)
    x = rng.normal(0, 1, (4, 64)).astype(np.float32)
    scores = rng.normal(0, 1, (4, MIXTURE.count)).astype(np.float32)
    with open_gguf(gguf) as source:
        _, model = read(source)
        BundleWriter(tmp_path, {}).weights(model, source, lambda *_: None)
        gate, up, down = (
            np.stack([rows_of(source, "blk.1.ffn_", part, e, False).view(np.float32) for e in range(6)])
            for part in range(3)
        )
    node = next(node for node in model.nodes if node.name == "blk.1.ffn_exps")
    weight = model.weights["blk.1.ffn_exps.weight"]
    data = np.fromfile(tmp_path / "weights.bin", np.uint8)[model.placements["blk.1.ffn_exps.weight"] :]
    packed = data[: weight.nbytes].reshape(weight.shape)
    facts: dict[str, Any] = {
        key: value.encode() if isinstance(value, str) else value for key, value in attributes(node).items()
    }
    got = reference_experts(facts, x, scores, packed)
    weights = expert_weights({**attributes(node)}, scores, None)
    inner = np.einsum("ehk,tk->teh", gate, x)
    active = inner / (1 + np.exp(-inner)) * np.einsum("ehk,tk->teh", up, x)
    expected = np.einsum("te,teh,ekh->tk", weights, active, down)
    np.testing.assert_allclose(got, expected, atol=1e-5)


def test_equal_scores_choose_the_lower_index() -> None:
    attrs = {"gating": "softmax", "chosen": 2, "normalise": 1, "epsilon": 0.0, "scale": 3.0}
    weights = expert_weights(attrs, np.zeros((1, 5), np.float32), None)
    assert weights.tolist() == [[1.5, 1.5, 0.0, 0.0, 0.0]]
    bias = np.array([0, 0, 0, 1, 1], np.float32)
    weights = expert_weights({**attrs, "gating": "sigmoid", "scale": 1.0}, np.zeros((1, 5), np.float32), bias)
    assert weights.tolist() == [[0.0, 0.0, 0.0, 0.5, 0.5]]


HOSTILE: list[tuple[str, dict[str, Any], type[EdgeDecError], str]] = [
    ("qwen3moe", {"expert_count": 0}, BadFileError, "expert_count .* is 0, not a size"),
    ("qwen3moe", {"expert_count": 10**9}, BadFileError, "expert_count .* is 1000000000, not a size"),
    (
        "qwen3moe",
        {"expert_count": 7},
        BadFileError,
        r"ffn_gate_inp.weight has shape \[6, 64\], not \[7, 64\]",
    ),
    ("qwen3moe", {"expert_used_count": 0}, BadFileError, "expert_used_count .* is 0"),
    ("qwen3moe", {"expert_used_count": 7}, BadFileError, "chooses 7 of 6 experts"),
    ("qwen3moe", {"expert_used_count": "two"}, BadFileError, "expert_used_count .* is 'two'"),
    ("qwen3moe", {"expert_feed_forward_length": 33}, BadFileError, r"ffn_gate_exps.weight has shape \[6, 32"),
    ("qwen3moe", {"expert_gating_func": 3}, UnsupportedError, "expert_gating_func is 3"),
    ("qwen3moe", {"expert_weights_norm": 2}, BadFileError, "expert_weights_norm .* is 2, not true or false"),
    ("qwen3moe", {"expert_weights_scale": -1.0}, BadFileError, "expert_weights_scale .* is -1.0"),
    ("qwen3moe", {"expert_group_count": 4}, UnsupportedError, "expert_group_count = 4"),
    ("qwen3moe", {"leading_dense_block_count": 2}, BadFileError, "2 layers, of which 2 have no experts"),
    ("qwen3moe", {"leading_dense_block_count": 1}, BadFileError, "lacks tensor blk.0.ffn_gate.weight"),
    ("qwen3moe", {"expert_shared_feed_forward_length": 64}, UnsupportedError, "shared expert in qwen3moe"),
    (
        "granitemoe",
        {"expert_shared_feed_forward_length": 64},
        UnsupportedError,
        "shared expert in granitemoe",
    ),
    ("qwen35moe", {"expert_shared_feed_forward_length": 0}, UnsupportedError, "shexp.* does not use"),
    ("qwen35moe", {"expert_shared_feed_forward_length": 96}, BadFileError, "ffn_gate_shexp.weight has shape"),
    ("granitemoe", {"residual_scale": -1.0}, BadFileError, "residual_scale .* is -1.0"),
    ("lfm2moe", {"leading_dense_block_count": 0}, BadFileError, "lacks tensor blk.0.ffn_gate_inp"),
]


@pytest.mark.parametrize(("architecture", "keys", "error", "message"), HOSTILE)
def test_refused(
    architecture: str, keys: Mapping[str, Any], error: type[EdgeDecError], message: str, tmp_path: Path
) -> None:
    extra = {f"{architecture}.{key}": value for key, value in keys.items()}
    path = write_tiny(tmp_path / "m.gguf", architecture, shape=shape_of(architecture), extra=extra)
    with pytest.raises(error, match=message) as caught:
        hyper_of(path)
    assert "\n" not in str(caught.value)


def test_a_bias_for_choosing_must_be_there(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "lfm2moe", shape=shape_of("lfm2moe"))
    path.write_bytes(path.read_bytes().replace(b"blk.1.exp_probs_b.bias", b"blk.1.exp_probs_x.bias"))
    with pytest.raises(BadFileError, match=r"lacks tensor blk\.1\.exp_probs_b\.bias"):
        hyper_of(path)


def test_tensors_of_experts_without_a_kernel(tmp_path: Path) -> None:
    shape = TinyShape(hidden=256, ffn=256, heads=4, kv_heads=2, experts=ExpertShape(width=256))
    path = write_tiny(
        tmp_path / "m.gguf", "qwen3moe", shape=shape, formats={"*": "q8_0", "ffn_up_exps": "q1_0"}
    )
    with pytest.raises(UnsupportedError, match=r"blk\.0\.ffn_up_exps\.weight is Q1_0, which has no kernel"):
        hyper_of(path)


def test_granites_factors_are_folded(tmp_path: Path) -> None:
    """Into norms, the scale of scores, the look-up and the weights of experts; nothing is quantised again."""
    path = write_tiny(tmp_path / "m.gguf", "granitemoe")
    with open_gguf(path) as source:
        hyper, model = read(source)
        norm = source.vector(source.tensors["blk.0.attn_norm.weight"])
        last = source.vector(source.tensors["output_norm.weight"])
    assert (hyper.embedding_scale, hyper.attention_scale) == (6.0, pytest.approx(0.2))
    facts = {node.name: attributes(node) for node in model.nodes}
    assert facts["embedding"]["scale"] == 6.0
    assert facts["blk.0.attention"]["scale"] == pytest.approx(0.2 / 0.4**2)
    assert facts["blk.0.ffn_exps"]["scale"] == pytest.approx(0.4)
    np.testing.assert_allclose(model.weights["blk.0.attn_norm.weight"].values, norm * 0.4, rtol=1e-6)  # type: ignore[union-attr]
    np.testing.assert_allclose(model.weights["output_norm.weight"].values, last * 2.0, rtol=1e-6)  # type: ignore[union-attr]


def test_the_gate_of_a_shared_expert_may_be_a_vector_or_a_row(tmp_path: Path) -> None:
    """GGUF files have a vector; what is packed is one row either way."""
    with open_gguf(write_tiny(tmp_path / "m.gguf", "qwen35moe", shape=shape_of("qwen35moe"))) as source:
        found = Tensors(source).row("blk.0.ffn_gate_inp_shexp.weight", 64)
        assert isinstance(found, PackedWeight)
        assert (found.rows, found.cols, found.shape) == (1, 64, FORMATS["f32"].packed_shape(1, 64))
        raw = source.rows(found.tensor, 0, 1)
        np.testing.assert_array_equal(raw.view(np.float32)[0], source.vector(found.tensor))
