"""Whole models without our kernels: model.onnx in a plain session says what the GGUF file means."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from edgedec.bundle.manifest import Manifest
from edgedec.core.rows import Rows
from edgedec.export import export_gguf
from edgedec.export.portable import with_float_cache
from edgedec.kernels.packing.layout import FORMATS
from edgedec.kernels.packing.recode import packed_format, readable_types
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures.nightly import diagonal
from tests.fixtures.opened import onnx_forward
from tests.fixtures.real_models import installed
from tests.fixtures.tiny_experts import ExpertShape
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.portable import agreement
from tests.portable.runner import Runner, options
from tests.reference.graph import graph_logits
from tests.reference.model import reference_logits

TOKENS = [3, 9, 270, 41, 5, 5, 100, 17, 260, 33, 8, 64, 12, 250]
WIDE = TinyShape(layers=1, hidden=256, ffn=256, heads=4, kv_heads=2, head_dim=64)
FLOAT_ROUNDING = 5e-4
"""Of the largest logit: float32, sums in another order, and what that moves across a step of fp16."""
CACHE_ROUNDING = 1e-2
"""Of the largest logit: what it costs that keys and values are kept as fp16. Seen: 4e-3."""
INT8_ROUNDING = 0.05
"""Of the largest logit, between a body and the kernels, which round inputs to 8 bits. Seen: 0.02."""
FUSED_ROUNDING = 0.1
"""The same, when ONNX Runtime rounds them: scaled quants apart from their minima. Seen: 0.054, with q4_1."""
TREE = [-1, 0, 0, 1, 1, 2, 5, -1, 7, 6]


def make(tmp_path: Path, architecture: str, **choices: Any) -> tuple[Path, Path]:
    """(the GGUF file, the bundle)."""
    gguf = write_tiny(tmp_path / "model.gguf", architecture, **choices)
    export_gguf(gguf, tmp_path / "bundle")
    return gguf, tmp_path / "bundle"


@pytest.mark.parametrize(
    ("architecture", "format"), diagonal(["llama", "qwen2", "gemma2", "gemma3"], list(readable_types()))
)
def test_token_by_token_as_the_file_means(architecture: str, format: str, tmp_path: Path) -> None:
    shape = WIDE if FORMATS[packed_format(format) or ""].block == 256 else TinyShape(layers=1)
    gguf, bundle = make(tmp_path, architecture, formats=format, shape=shape, tied=False)
    runner = Runner(bundle, ring=TinyShape().window - 1 + 6)  # as few as the longest pass allows
    prompt = runner.run(TOKENS[:6])["logits"]
    steps = [runner.run([token])["logits"] for token in TOKENS[6:]]
    got, expected = np.concatenate([prompt, *steps]), reference_logits(gguf, TOKENS, dtype=np.float64)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        got, graph_logits(bundle, TOKENS, cache=np.float16), atol=FLOAT_ROUNDING * scale
    )
    np.testing.assert_allclose(got, expected, atol=CACHE_ROUNDING * scale)
    assert expected.std() > 0.1


def test_experts_with_biases_sinks_and_windows_as_the_file_means(tmp_path: Path) -> None:
    shape = TinyShape(layers=4, experts=ExpertShape(count=5, chosen=3, width=96))
    formats = {"*": "q8_0", **{f"ffn_{part}_exps": "mxfp4" for part in ("gate", "up", "down")}}
    gguf, bundle = make(tmp_path, "gpt-oss", formats=formats, shape=shape, tied=False)
    runner = Runner(bundle, ring=TinyShape().window - 1 + 6)
    parts = [TOKENS[:6], *([token] for token in TOKENS[6:])]
    got = np.concatenate([runner.run(part)["logits"] for part in parts])
    scale = np.abs(got).max()
    np.testing.assert_allclose(
        got, graph_logits(bundle, TOKENS, cache=np.float16), atol=FLOAT_ROUNDING * scale
    )
    np.testing.assert_allclose(got, reference_logits(gguf, TOKENS), atol=CACHE_ROUNDING * scale)


PART = {"phi3.rope.dimension_count": 12, "phi3.rope.scaling.attn_factor": 1.2}


@pytest.mark.parametrize(("architecture", "extra"), [("smollm3", {}), ("phi3", PART)])
def test_layers_without_positions_and_heads_rotated_in_part(
    architecture: str, extra: dict[str, Any], tmp_path: Path
) -> None:
    gguf, bundle = make(tmp_path, architecture, shape=TinyShape(layers=4), extra=extra)
    got = Runner(bundle).run(TOKENS)["logits"]
    expected = reference_logits(gguf, TOKENS, dtype=np.float64)
    np.testing.assert_allclose(got, expected, atol=CACHE_ROUNDING * np.abs(expected).max())


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_every_node_of_a_tree_sees_its_own_path(architecture: str, tmp_path: Path) -> None:
    """gemma3 with both kinds of layers, its window shorter than the paths."""
    layers = 6 if architecture == "gemma3" else 2
    _, bundle = make(tmp_path, architecture, shape=TinyShape(layers=layers, window=4))
    runner = Runner(bundle)
    runner.run(TOKENS[:3])
    resident = {name: cache.copy() for name, cache in runner.caches.items()}
    got = runner.run(TOKENS[4:14], TREE)["logits"]
    for leaf in range(len(TREE)):
        path, node = [], leaf
        while node >= 0:
            path.insert(0, TOKENS[4 + node])
            node = TREE[node]
        runner.caches.update((name, cache.copy()) for name, cache in resident.items())
        runner.length = 3
        chain = runner.run(path)["logits"][-1]
        np.testing.assert_allclose(got[leaf], chain, atol=1e-4 * np.abs(chain).max())


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gemma2", "gemma3"])
def test_the_kernels_agree_up_to_their_rounding(architecture: str, tmp_path: Path) -> None:
    _, bundle = make(tmp_path, architecture, formats="q8_0")
    manifest = Manifest.load(bundle)
    plain, forward = Runner(bundle), onnx_forward(bundle, manifest, capacity=64)
    got = plain.run(TOKENS)["logits"]
    rows = forward.extend(TOKENS, rows=Rows(full=True))
    assert rows.logits is not None
    np.testing.assert_allclose(got, rows.logits, atol=INT8_ROUNDING * np.abs(got).max())
    assert np.abs(got - rows.logits).max() > 0  # else the kernels ran both


@pytest.mark.parametrize("architecture", ["gemma2", "gemma3"])
def test_rings_go_round_without_a_trace(architecture: str, tmp_path: Path) -> None:
    """In bodies and in kernels, with chains and trees: as in rings so large that none begins anew."""
    _, bundle = make(tmp_path, architecture, shape=TinyShape(layers=6, window=4))
    passes = [(TOKENS, None), (TOKENS[:10], TREE), *[([token], None) for token in TOKENS], (TOKENS[4:], TREE)]
    for kernels in (False, True):
        small, large = (Runner(bundle, options(kernels=kernels), ring=ring) for ring in (3 + 14, 64))
        for tokens, parents in passes:
            got, expected = small.run(tokens, parents), large.run(tokens, parents)
            for name, array in expected.items():
                np.testing.assert_array_equal(got[name], array)
        assert small.length > 2 * 17
        assert small.caches["kv_cache"].shape[0] > 0


@pytest.mark.parametrize("format", ["q4_0", "q4_1", "q6_k", "iq4_nl"])
def test_runtimes_may_round_inputs_as_the_kernels_do(format: str, tmp_path: Path) -> None:
    """What ONNX Runtime does unless told otherwise: products of 8-bit weights and 8-bit inputs."""
    _, bundle = make(tmp_path, "llama", formats=format, shape=WIDE)
    plain, rounded = (Runner(bundle, options(rounded=each)).run(TOKENS)["logits"] for each in (False, True))
    np.testing.assert_allclose(rounded, plain, atol=FUSED_ROUNDING * np.abs(plain).max())


def test_registered_kernels_are_preferred_and_write_the_cache_themselves(tmp_path: Path) -> None:
    _, bundle = make(tmp_path, "llama")
    plain, kernels = Runner(bundle), Runner(bundle, options(kernels=True))
    forward = onnx_forward(bundle, Manifest.load(bundle), capacity=64)
    rows = forward.extend(TOKENS, rows=Rows(full=True))
    out = kernels.run(TOKENS)
    np.testing.assert_array_equal(out["logits"], rows.logits)
    np.testing.assert_array_equal(out["values"], rows.values)
    assert out["kv_new"].shape[3] == 0
    plain.run(TOKENS)
    written, expected = (runner.caches["kv_cache"].astype(np.float32) for runner in (kernels, plain))
    assert np.abs(written[:, :, :, : len(TOKENS)]).max(axis=(1, 2, 3, 4)).min() > 0
    np.testing.assert_allclose(written, expected, atol=INT8_ROUNDING * np.abs(expected).max())


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_only_kernels_say_what_attention_fell_on(architecture: str, tmp_path: Path) -> None:
    """Of the layers without a window; all else is as if they were not asked."""
    _, bundle = make(tmp_path, architecture, shape=TinyShape(layers=6))
    for kernels in (False, True):
        asked, plain = (Runner(bundle, options(kernels=kernels)) for _ in range(2))
        layers, _, heads = asked.caches["kv_cache"].shape[:3]
        attention = np.full((layers, heads, 64), 7, np.float32)
        outputs = asked.run(TOKENS[:10], TREE, attention=attention), plain.run(TOKENS[:10], TREE)
        for name in outputs[0]:
            np.testing.assert_array_equal(outputs[0][name], outputs[1][name])
        said, rest = np.split(attention, [10], axis=2)
        assert (rest == 7).all()
        assert ((said > 0) & (said <= 1)).all() if kernels else (said == 7).all()
        assert layers == (1 if architecture == "gemma3" else 6)


def test_bodies_cost_little_room(tmp_path: Path) -> None:
    _, bundle = make(tmp_path, "gemma3", shape=TinyShape(layers=6))
    assert (bundle / "model.onnx").stat().st_size < 60_000


@pytest.mark.slow
def test_a_real_model_says_the_same_without_kernels() -> None:
    bundle = installed("smollm2-135m")
    manifest = Manifest.load(bundle)
    prompt = Tokenizer.load(bundle, manifest.tokenizer).encode("The capital of France is")
    plain, forward = Runner(bundle, capacity=64), onnx_forward(bundle, manifest, capacity=64)
    got, expected, worst = list(prompt), list(prompt), 0.0
    for count in [len(prompt), *[1] * 15]:
        out, rows = plain.run(got[-count:]), forward.extend(expected[-count:])
        worst = max(worst, float(np.abs(out["logits"][-1][rows.ids[-1]] - rows.values[-1]).max()))
        got.append(int(out["ids"][-1, 0]))
        expected.append(int(rows.ids[-1, 0]))
    assert got == expected
    assert worst < 1.0, "of logits about 20"


def test_agreement_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In all modes; logits of a tiny model may be too close together for equal choices when rounded."""
    _, bundle = make(tmp_path, "llama", formats="q8_0")
    for mode in ("float", "packed", "rounded"):
        monkeypatch.setattr(sys, "argv", ["agreement", str(bundle), "--mode", mode, "--tokens", "5"])
        agreement.main()
        load, token, _, kernels, reference = capsys.readouterr().out.splitlines()
        assert load.startswith("load: ")
        assert "peak: " in token
        assert kernels.startswith("kernels: ")
        assert mode == "rounded" or reference.startswith("float reference: 5 of 5 tokens equal")


def test_a_float_cache_rounds_nothing(tmp_path: Path) -> None:
    _, bundle = make(tmp_path, "gemma3", shape=TinyShape(layers=6))
    model = onnx.load(str(bundle / "model.onnx"), load_external_data=False)
    onnx.save(with_float_cache(model), str(bundle / "float.onnx"))
    runner = Runner(bundle, model="float.onnx")
    got = np.concatenate([runner.run(TOKENS[:6])["logits"], runner.run(TOKENS[6:])["logits"]])
    expected = graph_logits(bundle, TOKENS)
    np.testing.assert_allclose(got, expected, atol=2e-5 * np.abs(expected).max())


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    """Its first piece of code, on a tiny model, prints what the runner finds."""
    _, bundle = make(tmp_path, "llama")
    bundle.rename(tmp_path / "my-model")
    page = (Path(__file__).parents[2] / "docs" / "portable.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    runner, tokens = Runner(tmp_path / "my-model"), [40, 71, 10, 65, 7]
    expected: list[int] = []
    assert f"tokens = {tokens}" in code
    for _ in range(16):
        tokens = [int(runner.run(tokens)["ids"][-1, 0])]
        expected += tokens
    assert [int(line) for line in done.stdout.split()] == expected
