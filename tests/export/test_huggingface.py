"""Exports of Hugging Face directories: the same bundle as from the GGUF file of the same model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.bundle.manifest import Manifest, TokenizerInfo
from edgedec.core.errors import UnsupportedError, UsageError
from edgedec.export import QUANTS, export_gguf, export_huggingface
from edgedec.export.huggingface.groups import parse_quant, show_quant
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures.nightly import diagonal
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_huggingface import F32, save_tensors, write_huggingface
from tests.fixtures.tiny_hybrid import DeltaShape
from tests.reference.graph import graph_logits
from tests.reference.model import reference_logits

TOKENS = [3, 9, 270, 41, 5, 5, 100, 17, 260, 33, 8, 64, 12, 250, 7, 90, 11, 2, 4, 6]
SHAPES = {
    "llama": TinyShape(),
    "smollm3": TinyShape(layers=5),
    "qwen2": TinyShape(),
    "qwen3": TinyShape(head_dim=32),
    "qwen3vl": TinyShape(head_dim=32),
    "mistral3": TinyShape(head_dim=32),
    "phi3": TinyShape(),
    "gemma2": TinyShape(layers=3),
    "gemma3": TinyShape(layers=7, heads=4, kv_heads=1, head_dim=32),
    "gemma4": TinyShape(layers=7),
    "qwen35": TinyShape(layers=5, head_dim=32, delta=DeltaShape(nextn=1)),
    "lfm2": TinyShape(layers=5),
}
EXACT = ["qwen2", "qwen3", "qwen3vl", "gemma2", "gemma3", "gemma4", "phi3", "qwen35", "lfm2"]
FILES = ("weights.bin", "model.onnx", "tokenizer.json", "chat_template.jinja")


def both(tmp_path: Path, architecture: str, quant: str, **options: Any) -> tuple[Path, Path, Path]:
    """(the GGUF file, its bundle, the bundle of the directory with the same weights)."""
    formats = {"*": quant, "token_embd": "q8_0", "output": "q8_0", **_of_a_row_a_head(quant)}
    tied = options.pop("tied", True)
    shape = SHAPES[architecture]
    gguf = write_tiny(tmp_path / "m.gguf", architecture, formats=formats, shape=shape, tied=tied)
    source = write_huggingface(tmp_path / "source", gguf, **options)
    export_gguf(gguf, tmp_path / "from-gguf", name="same")
    export_huggingface(source, tmp_path / "from-hf", quant=quant, name="same")
    return gguf, tmp_path / "from-gguf", tmp_path / "from-hf"


def _of_a_row_a_head(quant: str) -> dict[str, str]:
    """Formats of the small matrices of recurrent layers, which get eight bits at least."""
    return dict.fromkeys(("ssm_alpha", "ssm_beta"), quant if quant in ("bf16", "f16", "f32") else "q8_0")


@pytest.mark.parametrize(("architecture", "quant"), diagonal(list(EXACT), list(QUANTS)))
def test_values_that_a_format_can_represent_are_kept_exactly(
    architecture: str, quant: str, tmp_path: Path
) -> None:
    _, expected, got = both(tmp_path, architecture, quant, tied=architecture.startswith("gemma"))
    if quant in ("q4_1", "q5_1"):  # whose minima and scales do not determine each other exactly
        expected_logits = graph_logits(expected, TOKENS)
        np.testing.assert_allclose(graph_logits(got, TOKENS), expected_logits, atol=0.02)
        return
    for name in FILES:
        assert (got / name).read_bytes() == (expected / name).read_bytes(), name


@pytest.mark.parametrize(("architecture", "shards"), diagonal(list(SHAPES), [1, 3]))
def test_the_bundle_means_what_the_directory_means_and_its_manifest_says_so(
    architecture: str, shards: int, tmp_path: Path
) -> None:
    """Against the reference of the GGUF file: for llama, whose rows lie in another order there."""
    gguf, of_gguf, bundle = both(tmp_path, architecture, "q8_0", shards=shards)
    expected = reference_logits(gguf, TOKENS, dtype=np.float64)
    np.testing.assert_allclose(graph_logits(bundle, TOKENS), expected, atol=2e-4 * np.abs(expected).max())
    theirs, ours = Manifest.load(of_gguf), Manifest.load(bundle, verify=True)
    assert (ours.spec, ours.tokenizer) == (theirs.spec, theirs.tokenizer)
    assert ours.source["kind"] == "huggingface"
    assert ours.source["quant"] == "attn=q8_0,mlp=q8_0,head=q8_0"
    hashed = {key.removeprefix("sha256 of ") for key in ours.source if key.startswith("sha256 of ")}
    assert hashed == {path.name for path in (tmp_path / "source").iterdir()}
    assert ours.source["bytes"] == sum(path.stat().st_size for path in (tmp_path / "source").iterdir())


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_half_precision_is_read_exactly(dtype: str, tmp_path: Path) -> None:
    """Eight-bit integers times powers of two are in all three types, and in q8_0."""
    gguf = write_tiny(tmp_path / "m.gguf", "qwen3", tied=False)
    rng = np.random.default_rng(3)
    source = write_huggingface(tmp_path / "F32", gguf)
    tensors: dict[str, F32] = {}
    for name, shape in _shapes(source).items():
        values = rng.integers(-126, 127, shape).astype(np.float32)
        values[..., ::32] = 127
        tensors[name] = values * np.float32(2.0**-9)
    bundles = []
    for kind in ("F32", dtype):
        directory = write_huggingface(tmp_path / kind, gguf)
        save_tensors(directory, tensors, kind)
        export_huggingface(directory, tmp_path / f"bundle-{kind}", name="same")
        bundles.append(tmp_path / f"bundle-{kind}")
    assert (bundles[0] / "weights.bin").read_bytes() == (bundles[1] / "weights.bin").read_bytes()
    values = tensors["lm_head.weight"]
    scales = _head_scales(bundles[1], *values.shape)
    assert (scales == np.float16(2.0**-9)).all()


def _shapes(source: Path) -> dict[str, tuple[int, ...]]:
    from safetensors import safe_open

    with safe_open(source / "model.safetensors", framework="numpy") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def _head_scales(bundle: Path, rows: int, cols: int) -> np.ndarray[Any, np.dtype[np.float16]]:
    import onnx

    from edgedec.kernels.packing.layout import unpack_rows
    from tests.reference.graph import load_initialiser

    graph = onnx.load(str(bundle / "model.onnx"), load_external_data=False).graph
    head = next(tensor for tensor in graph.initializer if tensor.name == "output.weight")
    blocks = unpack_rows("q8_0", load_initialiser(bundle, head), rows, cols).reshape(rows, -1, 34)
    return np.ascontiguousarray(blocks[..., :2]).view(np.float16)[..., 0]


ROPES = {
    "theta": ({"rope_theta": 5e5}, {"rope.freq_base": 5e5}),
    "linear": (
        {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
        {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
    ),
    "linear, as transformers 5 writes it": (
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 2e4}, "rope_theta": None},
        {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0, "rope.freq_base": 2e4},
    ),
}


@pytest.mark.parametrize("name", ROPES)
def test_rotary_positions(name: str, tmp_path: Path) -> None:
    config, metadata = ROPES[name]
    plain = write_tiny(tmp_path / "plain.gguf", "qwen3")
    extra = {f"qwen3.{key}": value for key, value in metadata.items()}
    scaled = write_tiny(tmp_path / "scaled.gguf", "qwen3", extra=extra)
    export_gguf(scaled, tmp_path / "expected", name="same")
    source = write_huggingface(tmp_path / "source", plain, config=config)
    export_huggingface(source, tmp_path / "got", name="same")
    assert (tmp_path / "got/model.onnx").read_bytes() == (tmp_path / "expected/model.onnx").read_bytes()


def test_llama_3_factors(tmp_path: Path) -> None:
    """Fast frequencies stay, slow ones are divided by the factor, those between (here: two) blend."""
    rope = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    rope["original_max_position_embeddings"] = 64
    gguf = write_tiny(tmp_path / "m.gguf", "llama")
    source = write_huggingface(tmp_path / "source", gguf, config={"rope_scaling": rope})
    export_huggingface(source, tmp_path / "bundle")
    factors = np.array([1.0, 0, 0, 8, 8, 8, 8, 8])
    smooth = (64 / (2 * np.pi * 10 ** np.array([0.5, 1.0])) - 1) / 3
    factors[1:3] = 1 / ((1 - smooth) / 8 + smooth)
    extra = {"rope_freqs.weight": factors.astype(np.float32)}
    expected = write_tiny(tmp_path / "e.gguf", "llama", extra_tensors=extra)
    got, wanted = graph_logits(tmp_path / "bundle", TOKENS), reference_logits(expected, TOKENS)
    np.testing.assert_allclose(got, wanted, atol=2e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("rotated", [16, 12])
@pytest.mark.parametrize("new", [False, True])
def test_long_rope(new: bool, rotated: int, tmp_path: Path) -> None:
    """Factors for short contexts, and the one on sines and cosines. Phi-4 mini rotates a part of a head."""
    short = np.linspace(1, 2, rotated // 2, dtype=np.float32)
    rope: dict[str, Any] = {"type": "su", "short_factor": short.tolist(), "long_factor": [9.0] * 8}
    config: dict[str, Any] = {"original_max_position_embeddings": 64, "rope_scaling": rope}
    if new:
        rope |= {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 64}
        config = {"rope_parameters": rope, "rope_theta": None}
    config["partial_rotary_factor"] = rotated / 16
    source = write_huggingface(tmp_path / "a", write_tiny(tmp_path / "m.gguf", "phi3"), config=config)
    assert export_huggingface(source, tmp_path / "A").spec.context_length == 64
    extra: dict[str, float | int | str] = {
        "phi3.rope.scaling.original_context_length": 64,
        "phi3.rope.dimension_count": rotated,
        "phi3.rope.scaling.attn_factor": float(np.sqrt(1 + np.log(256 / 64) / np.log(64))),
    }
    tensors = {"rope_factors_short.weight": short}
    gguf = write_tiny(tmp_path / "e.gguf", "phi3", extra=extra, extra_tensors=tensors)
    got, expected = graph_logits(tmp_path / "A", TOKENS), reference_logits(gguf, TOKENS)
    np.testing.assert_allclose(got, expected, atol=2e-4 * np.abs(expected).max())


def test_soft_caps_of_null_are_none(tmp_path: Path) -> None:
    none = {"gemma2.attn_logit_softcapping": 0.0, "gemma2.final_logit_softcapping": 0.0}
    export_gguf(write_tiny(tmp_path / "n.gguf", "gemma2", extra=none), tmp_path / "expected", name="same")
    source = write_huggingface(tmp_path / "source", write_tiny(tmp_path / "m.gguf", "gemma2"))
    edit(source / "config.json", attn_logit_softcapping=None, final_logit_softcapping=None)
    export_huggingface(source, tmp_path / "got", name="same")
    assert (tmp_path / "got/model.onnx").read_bytes() == (tmp_path / "expected/model.onnx").read_bytes()


def test_a_window_in_every_layer(tmp_path: Path) -> None:
    plain = write_tiny(tmp_path / "m.gguf", "phi3")
    windowed = write_tiny(tmp_path / "w.gguf", "phi3", extra={"phi3.attention.sliding_window": 6})
    source = write_huggingface(tmp_path / "source", plain, config={"sliding_window": 6})
    export_huggingface(source, tmp_path / "got", name="same")
    export_gguf(windowed, tmp_path / "expected", name="same")
    assert (tmp_path / "got/model.onnx").read_bytes() == (tmp_path / "expected/model.onnx").read_bytes()


def test_windows_by_layer_types(tmp_path: Path) -> None:
    """One of three layers sees all."""
    shape = TinyShape(layers=3)
    gguf = write_tiny(tmp_path / "m.gguf", "gemma3", shape=shape)
    by_period = write_huggingface(tmp_path / "a", gguf, config={"sliding_window_pattern": 3})
    types = ["sliding_attention", "sliding_attention", "full_attention"]
    by_type = write_huggingface(tmp_path / "b", gguf, config={"layer_types": types})
    export_huggingface(by_period, tmp_path / "A", name="same")
    export_huggingface(by_type, tmp_path / "B", name="same")
    first, second = ((tmp_path / name / "model.onnx").read_bytes() for name in "AB")
    assert first == second
    export_huggingface(write_huggingface(tmp_path / "c", gguf), tmp_path / "C", name="same")
    assert (tmp_path / "C" / "model.onnx").read_bytes() != first


def test_the_tied_head_may_be_stored_all_the_same(tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "m.gguf", "qwen2")
    plain = write_huggingface(tmp_path / "a", gguf)
    twice = {"lm_head.weight": np.zeros((4, 4), dtype=np.float32)}
    export_huggingface(plain, tmp_path / "A", name="same")
    export_huggingface(write_huggingface(tmp_path / "b", gguf, tensors=twice), tmp_path / "B", name="same")
    assert (tmp_path / "A/weights.bin").read_bytes() == (tmp_path / "B/weights.bin").read_bytes()


def edit(path: Path, **changes: Any) -> None:
    document = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**document, **changes}))


def read_info(directory: Path, out: Path) -> TokenizerInfo:
    return export_huggingface(directory, out).tokenizer


def test_end_of_turn_and_beginning(tmp_path: Path) -> None:
    source = write_huggingface(tmp_path / "source", write_tiny(tmp_path / "m.gguf", "qwen3"))
    options, out = source / "tokenizer_config.json", tmp_path / "out"
    assert read_info(source, out) == TokenizerInfo(False, 1, (2, 0), "bpe", True)
    edit(options, eos_token={"content": "<|endoftext|>", "special": True})
    edit(source / "generation_config.json", eos_token_id=[5, 2, 100000])
    assert read_info(source, out).eos_ids == (0, 5, 2)
    edit(options, add_bos_token=True)
    assert read_info(source, out).add_bos
    edit(options, bos_token=None)
    assert read_info(source, out).bos_id is None
    assert not read_info(source, out).add_bos


def test_the_post_processor_says_whether_bos_comes_first(tmp_path: Path) -> None:
    source = write_huggingface(tmp_path / "source", write_tiny(tmp_path / "m.gguf", "qwen3"))
    edit(source / "tokenizer_config.json", add_bos_token=None)
    assert not read_info(source, tmp_path / "out").add_bos
    bos = {"SpecialToken": {"id": "<|im_start|>", "type_id": 0}}
    processor = {
        "type": "TemplateProcessing",
        "single": [bos, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|im_start|>": {"id": "<|im_start|>", "ids": [1], "tokens": ["<|im_start|>"]}},
    }
    edit(source / "tokenizer.json", post_processor=processor)
    assert read_info(source, tmp_path / "out").add_bos
    assert (tmp_path / "out/tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()


def test_every_part_may_have_its_format(tmp_path: Path) -> None:
    import onnx

    shape = TinyShape(hidden=64)
    gguf = write_tiny(tmp_path / "m.gguf", "qwen3", formats="f32", shape=shape, tied=False)
    source, out = write_huggingface(tmp_path / "source", gguf), tmp_path / "out"
    manifest = export_huggingface(source, out, quant="head=q4_1,q4_0, attn=q5_1")
    assert manifest.source["quant"] == "attn=q5_1,mlp=q4_0,head=q4_1"
    formats = {
        node.op_type: attribute.s.decode()
        for node in onnx.load(str(out / "model.onnx"), load_external_data=False).graph.node
        for attribute in node.attribute
        if attribute.name in ("format", "formats") and "ffn_down" not in node.name
    }
    assert formats["QuantEmbedding"] == formats["HeadTopK"] == "q4_1"
    assert set(formats["GatedMLP"].split(",")) == {"q4_0"}
    assert set(formats["QuantLinear"].split(",")) == {"q5_1"}


@pytest.mark.parametrize(
    ("text", "formats"),
    [
        ("q4_0", "attn=q4_0,mlp=q4_0,head=q8_0"),
        ("head=q4_0", "attn=q8_0,mlp=q8_0,head=q4_0"),
        ("mlp=q4_1,q5_0,head=f16", "attn=q5_0,mlp=q4_1,head=f16"),
        ("attn=q4_0,attn=bf16", "attn=bf16,mlp=q8_0,head=q8_0"),
        ("attn=q5_1,mlp=q4_0,head=q8_0", "attn=q5_1,mlp=q4_0,head=q8_0"),
    ],
)
def test_what_a_choice_of_formats_means(text: str, formats: str) -> None:
    assert show_quant(parse_quant(text)) == formats


@pytest.mark.parametrize("text", ["", "q4_0,", "=q4_0", "body=q4_0", "attn=", "attn=q9", "q4_k"])
def test_choices_that_mean_nothing(text: str) -> None:
    with pytest.raises(UsageError, match="no quantisation"):
        parse_quant(text)


@pytest.mark.parametrize("quant", ["q8_0", "f16", "q4_0"])
def test_weights_beyond_half_precision(quant: str, tmp_path: Path) -> None:
    big = np.full((160, 64), 1e5, dtype=np.float32)
    gguf = write_tiny(tmp_path / "m.gguf", "qwen3")
    shape = _shapes(write_huggingface(tmp_path / "s", gguf))["model.layers.0.mlp.up_proj.weight"]
    tensors: dict[str, F32 | None] = {"model.layers.0.mlp.up_proj.weight": np.resize(big, shape)}
    source = write_huggingface(tmp_path / "source", gguf, tensors=tensors)
    with pytest.raises(UnsupportedError, match=r"up_proj\.weight holds values above 65504"):
        export_huggingface(source, tmp_path / "out", quant=quant)
    export_huggingface(source, tmp_path / "out", quant="bf16")


def test_padding_and_truncation_of_a_training_run_go(tmp_path: Path) -> None:
    source = write_huggingface(tmp_path / "source", write_tiny(tmp_path / "m.gguf", "qwen3"))
    cut = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    edit(source / "tokenizer.json", truncation=cut)
    manifest = export_huggingface(source, tmp_path / "out")
    tokenizer = Tokenizer.load(tmp_path / "out", manifest.tokenizer)
    assert tokenizer.decode(tokenizer.encode("hello world and more")) == "hello world and more"


@pytest.mark.parametrize("scheme", ["always", "first", "never"])
def test_a_space_in_front_from_the_pre_tokenizer(scheme: str, tmp_path: Path) -> None:
    """As newer SentencePiece conversions have it; decoding takes off what encoding put there."""
    source = write_huggingface(tmp_path / "source", write_tiny(tmp_path / "m.gguf", "gemma3"))
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": False}
    edit(source / "tokenizer.json", normalizer=None, pre_tokenizer=metaspace)
    manifest = export_huggingface(source, tmp_path / "out")
    tokenizer = Tokenizer.load(tmp_path / "out", manifest.tokenizer)
    assert manifest.tokenizer.kind == "spm"
    assert tokenizer.adds_space == (scheme != "never")
    ids = tokenizer.encode("the hello", add_bos=False)
    assert tokenizer.token_text(ids[0]) == ("t" if scheme == "never" else "\u2581the")
    assert tokenizer.decode(ids) == "the hello"


def test_which_chat_template(tmp_path: Path) -> None:
    source = write_huggingface(tmp_path / "source", write_tiny(tmp_path / "m.gguf", "qwen3"))
    options, out = source / "tokenizer_config.json", tmp_path / "out"
    named = [{"name": "tool_use", "template": "tool"}, {"name": "default", "template": "plain"}]
    edit(options, chat_template=named)
    export_huggingface(source, out)
    assert (out / "chat_template.jinja").read_text() == "plain"
    (source / "chat_template.jinja").write_text("own file")
    export_huggingface(source, out)
    assert (out / "chat_template.jinja").read_text() == "own file"
    (source / "chat_template.jinja").unlink()
    edit(options, chat_template=None)
    assert not export_huggingface(source, out).tokenizer.chat_template
    assert not (out / "chat_template.jinja").exists()


@pytest.mark.parametrize("quant", ["q4_0", "q4_1"])
def test_four_bits_leave_the_tables_eight(quant: str, tmp_path: Path) -> None:
    source = write_huggingface(tmp_path / "source", write_tiny(tmp_path / "m.gguf", "qwen3", tied=False))
    export_huggingface(source, tmp_path / "eight")
    export_huggingface(source, tmp_path / "four", quant=quant)
    eight, four = ((tmp_path / name / "weights.bin").stat().st_size for name in ("eight", "four"))
    assert four < eight
    model = (tmp_path / "four" / "model.onnx").read_bytes()
    assert b"q8_0" in model
    assert quant.encode() in model
    difference = graph_logits(tmp_path / "four", TOKENS) - graph_logits(tmp_path / "eight", TOKENS)
    assert 0.01 < np.abs(difference).mean() < 0.5
