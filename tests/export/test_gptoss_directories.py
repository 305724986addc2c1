"""gpt-oss in Hugging Face directories: experts in MXFP4 keep every bit, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError, EdgeDecError, UnsupportedError
from edgedec.export import export_huggingface
from edgedec.export.architectures import ARCHITECTURES
from edgedec.export.gguf_source import open_gguf
from edgedec.export.graph import build_graph
from edgedec.export.huggingface.gptoss import SidewaysTensor
from edgedec.export.hyperparameters import read_hyperparameters
from edgedec.export.tensors import Tensors
from tests.export.test_calibration import opened, seen
from tests.export.test_experts import shape_of
from tests.export.test_experts_of_directories import edit, read, weights_of
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_huggingface import write_huggingface
from tests.reference.model import reference_logits

EXPERTS = "model.layers.1.mlp.experts."
FORMATS = {"*": "q8_0", **{f"ffn_{part}_exps": "mxfp4" for part in ("gate", "up", "down")}}


def written(tmp_path: Path, **options: Any) -> tuple[Path, Path]:
    """A GGUF file and a directory of one model, as its maker publishes it."""
    gguf = write_tiny(tmp_path / "m.gguf", "gpt-oss", shape=shape_of("gpt-oss"), formats=FORMATS)
    directory = write_huggingface(tmp_path / "source", gguf, **options)
    edit(directory, quantization_config={"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]})
    return gguf, directory


def test_experts_in_mxfp4_are_those_of_the_gguf_file_to_the_bit(tmp_path: Path) -> None:
    gguf, directory = written(tmp_path, shards=2)
    found = read(directory)
    assert found.weights.tensors["blk.0.ffn_up_exps.weight"].format == "mxfp4"
    assert found.weights.tensors["blk.0.ffn_up_exps.bias"].format == "f32"
    theirs = weights_of(build_graph(found.hyper, Tensors(found.weights)), found.weights, tmp_path / "theirs")
    with open_gguf(gguf) as source:
        hyper = read_hyperparameters(ARCHITECTURES["gpt-oss"], source.metadata)
        ours = weights_of(build_graph(hyper, Tensors(source)), source, tmp_path / "ours")
    assert theirs == ours


def test_any_rows_of_experts_can_be_read(tmp_path: Path) -> None:
    """Those of calibration, as floats, are the values of the blocks; a range may cross experts."""
    _, directory = written(tmp_path)
    weights = read(directory).weights
    tensor = weights.tensors["blk.1.ffn_up_exps.weight"]
    whole = weights.floats(tensor, 0, tensor.rows)
    assert whole.shape == (6 * 32, 64)
    for start, stop in ((0, 1), (30, 70), (64, 96), (100, 192)):
        assert (weights.floats(tensor, start, stop) == whole[start:stop]).all()
        assert weights.rows(tensor, start, stop).shape == (stop - start, 2 * 17)


@pytest.mark.slow
def test_transformers_reads_the_same_values(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    mxfp4 = pytest.importorskip("transformers.integrations.mxfp4")
    _, directory = written(tmp_path)
    weights, stored = read(directory).weights, safetensors.numpy.load_file(directory / "model.safetensors")
    for part, names in (("gate_up_proj", ("gate", "up")), ("down_proj", ("down",))):
        blocks, scales = (
            torch.from_numpy(stored[f"{EXPERTS}{part}_{kind}"]) for kind in ("blocks", "scales")
        )
        theirs = mxfp4.convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).numpy()
        for first, name in enumerate(names):
            tensor = weights.tensors[f"blk.1.ffn_{name}_exps.weight"]
            expected = theirs[:, :, first :: len(names)].swapaxes(1, 2).reshape(tensor.rows, -1)
            np.testing.assert_array_equal(weights.floats(tensor, 0, tensor.rows), expected)


def test_any_rows_of_matrices_on_their_sides_can_be_read(tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "m.gguf", "gpt-oss", formats="f32")
    weights = read(write_huggingface(tmp_path / "source", gguf)).weights
    with open_gguf(gguf) as source:
        for part, rows in (("gate", 32), ("up", 32), ("down", 64)):
            name = f"blk.1.ffn_{part}_exps.weight"
            expected = source.rows(source.tensors[name], 0, 6 * rows).view(np.float32)
            assert isinstance(weights._stored[name], SidewaysTensor)
            for start, stop in ((0, 6 * rows), (rows - 1, 3 * rows + 1), (rows, rows + 5)):
                assert (weights.floats(weights.tensors[name], start, stop) == expected[start:stop]).all()


def test_the_float_run_of_calibration_is_the_model(tmp_path: Path) -> None:
    """With sinks, biases, clamps and experts that are read from MXFP4."""
    gguf, directory = written(tmp_path)
    source, model = opened(directory)
    tokens = [3, 9, 70, 41, 5, 5, 100, 17, 60, 33, 8, 64]
    found = seen(source, model, [tokens, tokens[:7]])
    head = source.tensors["token_embd.weight"]
    logits = found[head.name] @ source.floats(head, 0, head.shape[0]).T
    expected = np.concatenate([reference_logits(gguf, one) for one in (tokens, tokens[:7])])
    np.testing.assert_allclose(logits, expected, atol=2e-4 * np.abs(expected).max())


def bytes_of(*shape: int, value: int = 100) -> NDArray[np.uint8]:
    return np.full(shape, value, np.uint8)


WRONG_TENSORS: list[tuple[dict[str, Any], type[EdgeDecError], str]] = [
    ({"down_proj_scales": None}, BadFileError, "stands without its _blocks and _scales"),
    ({"down_proj_blocks": None, "down_proj_scales": None}, BadFileError, "stands without its _blocks"),
    ({"down_proj_scales": bytes_of(6, 64, 1, value=255)}, BadFileError, "values that are not finite"),
    ({"down_proj_scales": bytes_of(6, 63, 1)}, UnsupportedError, "are not MXFP4"),
    ({"down_proj_blocks": bytes_of(6, 64, 1, 15)}, UnsupportedError, "are not MXFP4"),
    ({"down_proj_blocks": np.ones((6, 64, 1, 16), np.float32)}, UnsupportedError, "are not MXFP4"),
    ({"down_proj_blocks": bytes_of(6, 64, 16)}, UnsupportedError, "which is no mixture"),
    ({"gate_up_proj_bias": np.ones((6, 63), np.float32)}, UnsupportedError, "which is no mixture"),
    ({"gate_up_proj_bias": np.ones((6, 66), np.float32)}, BadFileError, "has shape"),
    ({"down_proj_bias": None}, BadFileError, "lacks tensor"),
    (
        {"gate_up_proj_blocks": bytes_of(5, 64, 2, 16), "gate_up_proj_scales": bytes_of(5, 64, 2)},
        BadFileError,
        "shape",
    ),
]


@pytest.mark.parametrize(("tensors", "error", "message"), WRONG_TENSORS)
def test_wrong_tensors_are_refused(
    tensors: dict[str, Any], error: type[EdgeDecError], message: str, tmp_path: Path
) -> None:
    _, directory = written(tmp_path, tensors={EXPERTS + name: values for name, values in tensors.items()})
    with pytest.raises(error, match=message):
        export_huggingface(directory, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"swiglu_limit": 5.0}, "swiglu_limit .* another one than 7.0"),
        ({"swiglu_alpha": 1.0}, "swiglu_alpha .* another one than 1.702"),
        ({"attention_bias": False}, "without biases of attention"),
        ({"hidden_act": "gelu"}, "activation 'gelu'"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised already"),
        ({"quantization_config": "mxfp4"}, "quantised already"),
        ({"layer_types": ["chunked_attention"] * 2}, "another kind"),
    ],
)
def test_other_models_are_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    _, directory = written(tmp_path)
    edit(directory, **changes)
    with pytest.raises(UnsupportedError, match=message):
        read(directory)


def test_layers_without_experts_are_refused(tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "m.gguf", "gpt-oss", extra={"gpt-oss.leading_dense_block_count": 1})
    with open_gguf(gguf) as source, pytest.raises(UnsupportedError, match="layers without experts"):
        build_graph(read_hyperparameters(ARCHITECTURES["gpt-oss"], source.metadata), Tensors(source))
