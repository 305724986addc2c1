"""Exports of tiny models: the bundle computes what the GGUF file means, and is written whole or not at
all.
"""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from edgedec.bundle.manifest import TOKENIZER, WEIGHTS, Manifest
from edgedec.core.errors import BadFileError, EdgeDecError, StorageError, UnsupportedError, UsageError
from edgedec.export import ModelCard, export_gguf
from edgedec.kernels.packing.recode import readable_types
from tests.fixtures.tiny_experts import ExpertShape, stated
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import DeltaShape
from tests.patience import PATIENCE_S
from tests.reference.graph import graph_logits
from tests.reference.model import reference_logits

TOKENS = [3, 9, 270, 41, 5, 5, 100, 17, 260, 33, 8, 64, 12, 250, 7, 90, 11, 2, 4, 6]
WIDE = TinyShape(hidden=256, ffn=512, heads=4, kv_heads=2, head_dim=64)
LLAMA3_FACTORS = np.linspace(1, 8, 8, dtype=np.float32)
UNCAPPED = {"gemma2.attn_logit_softcapping": 0.0, "gemma2.final_logit_softcapping": 0.0}
HUGE_HEADS: dict[str, Any] = {
    "phi3.attention.head_count": 1 << 23,
    "phi3.attention.head_count_kv": 1 << 23,
    "phi3.attention.key_length": 1 << 20,
    "phi3.attention.value_length": 1 << 20,
    "phi3.rope.dimension_count": 1 << 19,
}
PHI3_LONG: dict[str, Any] = {
    "extra": {
        "phi3.rope.scaling.attn_factor": 1.19,
        "phi3.rope.scaling.original_context_length": 64,
        "phi3.rope.scaling.type": "longrope",
    },
    "extra_tensors": {
        "rope_factors_long.weight": 7 * LLAMA3_FACTORS,
        "rope_factors_short.weight": LLAMA3_FACTORS,
    },
}


class Case(NamedTuple):
    architecture: str
    options: dict[str, Any]


CASES = {
    "llama": Case("llama", {"formats": {"*": "q4_1", "token_embd": "q8_0"}}),
    "llama-untied": Case("llama", {"formats": "q5_0", "tied": False}),
    "llama-rope-factors": Case("llama", {"extra_tensors": {"rope_freqs.weight": LLAMA3_FACTORS}}),
    "llama-linear-rope": Case(
        "llama", {"extra": {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}}
    ),
    "llama-odd-ffn": Case("llama", {"shape": TinyShape(ffn=96, hidden=96, heads=6, kv_heads=3)}),
    "qwen2": Case("qwen2", {"formats": {"*": "q4_0", "attn_v": "q8_0"}, "tied": False}),
    "qwen2-k": Case(
        "qwen2",
        {"formats": {"*": "q4_k", "attn_v": "q6_k", "ffn_down": "q5_k", "output": "q6_k"}, "shape": WIDE},
    ),
    "qwen2-floats": Case(
        "qwen2", {"formats": {"*": "f16", "attn_k": "q4_0", "ffn_up": "bf16", "ffn_down": "f32"}}
    ),
    "qwen3": Case("qwen3", {"formats": {"*": "q5_1", "attn_v": "q8_0"}}),
    "qwen3-narrow-heads": Case(
        "qwen3", {"shape": TinyShape(heads=2, kv_heads=1, head_dim=48), "tied": False}
    ),
    "phi3": Case("phi3", {"formats": {"*": "q4_0", "ffn_up": "q5_1"}, "tied": False}),
    "phi3-odd-ffn": Case("phi3", {"shape": TinyShape(ffn=160, heads=2, kv_heads=2, head_dim=48)}),
    "phi3-window": Case("phi3", {"extra": {"phi3.attention.sliding_window": 6}}),
    "phi3-long-rope": Case("phi3", PHI3_LONG),
    "phi3-part-of-a-head": Case("phi3", {"extra": {"phi3.rope.dimension_count": 12}}),
    "phi4": Case(
        "phi3",
        {
            "formats": {"*": "q4_k", "attn_qkv": "q5_k", "ffn_down": "q6_k", "token_embd": "q6_k"},
            "shape": WIDE,
            "extra": {**PHI3_LONG["extra"], "phi3.rope.dimension_count": 48},
            "extra_tensors": {
                "rope_factors_long.weight": np.linspace(1, 40, 24, dtype=np.float32),
                "rope_factors_short.weight": np.linspace(1, 2, 24, dtype=np.float32),
            },
        },
    ),
    "smollm3": Case("smollm3", {"shape": TinyShape(layers=9)}),
    "smollm3-k": Case(
        "smollm3",
        {
            "formats": {"*": "q4_k", "attn_v": "q6_k", "ffn_down": "q6_k", "token_embd": "q6_k"},
            "shape": TinyShape(layers=4, hidden=256, ffn=512, heads=4, kv_heads=1, head_dim=64),
        },
    ),
    "qwen3vl": Case("qwen3vl", {"formats": {"*": "q5_1", "attn_v": "q8_0"}, "tied": False}),
    "mistral3": Case("mistral3", {"formats": {"*": "q4_0", "attn_v": "q8_0"}}),
    "mistral3-without-yarn": Case(
        "mistral3", {"extra": {"mistral3.rope.scaling.type": "none", "mistral3.rope.scaling.factor": 1.0}}
    ),
    "mistral3-strong-yarn": Case(
        "mistral3",
        {
            "extra": {
                "mistral3.rope.freq_base": 40.0,
                "mistral3.rope.scaling.factor": 16.0,
                "mistral3.rope.scaling.yarn_beta_fast": 8.0,
            }
        },
    ),
    "gemma2": Case("gemma2", {"formats": {"*": "q5_0", "ffn_down": "q4_1"}, "shape": TinyShape(layers=4)}),
    "gemma2-uncapped": Case("gemma2", {"extra": UNCAPPED}),
    "gemma3": Case("gemma3", {"formats": {"*": "q5_1", "attn_output": "q4_0"}, "shape": TinyShape(layers=7)}),
    "gemma3-wide-heads": Case("gemma3", {"shape": TinyShape(layers=6, heads=4, kv_heads=1, head_dim=32)}),
    "gemma4": Case(
        "gemma4", {"formats": {"*": "q4_0", "per_layer_token_embd": "q5_0"}, "shape": TinyShape(layers=7)}
    ),
    "gemma4-odd": Case(
        "gemma4",
        {"shape": TinyShape(layers=9, hidden=96, ffn=160, heads=6, kv_heads=3, head_dim=48), "tied": False},
    ),
    "qwen3moe": Case("qwen3moe", {"formats": {"*": "q4_0", "ffn_down_exps": "q8_0"}, "tied": False}),
    "qwen3moe-fused": Case(
        "qwen3moe", {"shape": TinyShape(experts=ExpertShape(count=9, chosen=4, width=96, fused=True))}
    ),
    "lfm2moe": Case(
        "lfm2moe", {"formats": {"*": "q5_1", "ffn_up_exps": "q4_1"}, "shape": TinyShape(layers=5)}
    ),
    "granitemoe": Case("granitemoe", {"shape": TinyShape(layers=3)}),
    "granitemoe-without-positions": Case(
        "granitemoe", {"extra": {"granitemoe.rope.scaling.finetuned": False}}
    ),
    "qwen35moe": Case("qwen35moe", {"shape": TinyShape(layers=5, head_dim=32)}),
    "gemma4moe": Case(
        "gemma4moe", {"formats": {"*": "q4_0", "ffn_down_exps": "q5_0"}, "shape": TinyShape(layers=7)}
    ),
    "gpt-oss": Case(
        "gpt-oss",
        {
            "formats": dict.fromkeys(("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"), "mxfp4"),
            "shape": TinyShape(layers=4, experts=ExpertShape(count=5, chosen=3, width=96)),
            "tied": False,
        },
    ),
    "gpt-oss-strong-yarn": Case(
        "gpt-oss", {"extra": {"gpt-oss.rope.freq_base": 40.0, "gpt-oss.rope.scaling.factor": 32.0}}
    ),
    "gemma4-nothing-shared": Case("gemma4", {"shape": TinyShape(layers=3)}),
}


def export(tmp_path: Path, architecture: str = "llama", **options: Any) -> tuple[Path, Path]:
    """(the GGUF file, the bundle)."""
    gguf = write_tiny(tmp_path / "model.gguf", architecture, **options)
    export_gguf(gguf, tmp_path / "bundle")
    return gguf, tmp_path / "bundle"


@pytest.mark.parametrize("name", CASES)
def test_the_bundle_means_what_the_file_means_and_is_complete(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    gguf, bundle = export(tmp_path, case.architecture, **case.options)
    expected = reference_logits(gguf, TOKENS, dtype=np.float64)
    got = graph_logits(bundle, TOKENS)
    assert got.shape == expected.shape
    assert expected.std() > 0.1
    np.testing.assert_allclose(got, expected, atol=2e-4 * np.abs(expected).max())
    manifest = Manifest.load(bundle, verify=True)
    others = ["chat_template.program", "manifest.json", "tokenizer.table"]
    assert sorted(path.name for path in bundle.iterdir()) == sorted([*manifest.files, *others])
    assert manifest.spec.architecture == stated(case.architecture)
    assert manifest.spec.head_k == 64
    assert manifest.spec.eos_ids == manifest.tokenizer.eos_ids != ()
    assert manifest.source["bytes"] == gguf.stat().st_size
    assert manifest.source["licence"] == "apache-2.0"
    onnx.checker.check_model(str(bundle / "model.onnx"))


def test_layers_with_a_window_have_a_cache_of_their_own(tmp_path: Path) -> None:
    _, bundle = export(tmp_path, "gemma3", shape=TinyShape(layers=7, window=6))
    graph = onnx.load(str(bundle / "model.onnx"), load_external_data=False).graph
    layers = {value.name: value.type.tensor_type.shape.dim[0].dim_value for value in graph.input}
    assert (layers["kv_cache"], layers["kv_window"]) == (1, 6)
    places = []
    for node in (node for node in graph.node if node.op_type == "TreeAttention"):
        found = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        places.append((node.input[4], found["layer"], found["window"], found.get("ring")))
    rings = [("kv_window", place, 6, 1) for place in range(6)]
    assert places == [*rings[:5], ("kv_cache", 0, 0, 0), rings[5]]
    spec = Manifest.load(bundle).spec
    assert (spec.n_window_layers, spec.window) == (6, 6)


def test_a_graph_without_windows_has_one_cache(tmp_path: Path) -> None:
    _, bundle = export(tmp_path)
    graph = onnx.load(str(bundle / "model.onnx"), load_external_data=False).graph
    assert "kv_window" not in {value.name for value in graph.input}
    assert {a.i for node in graph.node for a in node.attribute if a.name == "ring"} == {0}
    assert (Manifest.load(bundle).spec.n_window_layers, Manifest.load(bundle).spec.window) == (0, 0)


@pytest.mark.parametrize("type", readable_types())
def test_every_type_alone(type: str, tmp_path: Path) -> None:
    wide = GGML_QUANT_SIZES[GGMLQuantizationType[type.upper()]][0] > 32
    gguf, bundle = export(tmp_path, formats=type, shape=WIDE if wide else TinyShape())
    expected = reference_logits(gguf, TOKENS[:4])
    np.testing.assert_allclose(graph_logits(bundle, TOKENS[:4]), expected, atol=2e-4 * np.abs(expected).max())


def test_same_input_same_bytes(tmp_path: Path) -> None:
    _, bundle = export(tmp_path)
    first = {path.name: path.read_bytes() for path in bundle.iterdir()}
    export(tmp_path)
    assert first == {path.name: path.read_bytes() for path in bundle.iterdir()}


def test_notes_of_an_importance_matrix_change_nothing(tmp_path: Path) -> None:
    keys = {"file": "imatrix.dat", "dataset": "calibration.txt", "entries_count": 224, "chunks_count": 125}
    notes = {f"quantize.imatrix.{key}": value for key, value in keys.items()}
    plain = export(tmp_path)[1]
    (tmp_path / "noted").mkdir()
    noted = export(tmp_path / "noted", extra=notes)[1]
    for name in (WEIGHTS, "model.onnx", TOKENIZER):
        assert (plain / name).read_bytes() == (noted / name).read_bytes()


def test_name_provenance_and_progress(tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "model.gguf")
    calls: list[tuple[str, int, int]] = []
    manifest = export_gguf(
        gguf,
        tmp_path / "out",
        name="mine",
        card=ModelCard({"package": "some-model==1.0", "licence": "mit"}),
        progress=lambda *call: calls.append(call),
    )
    assert manifest.name == manifest.spec.name == "mine"
    assert manifest.source["package"] == "some-model==1.0"
    assert manifest.source["licence"] == "mit"
    assert {stage for stage, _, _ in calls} == {"source", "weights"}
    for stage in ("source", "weights"):
        done = [(d, t) for s, d, t in calls if s == stage]
        assert done == sorted(done)
        assert done[-1][0] == done[-1][1]


def test_base_model_has_no_template(tmp_path: Path) -> None:
    _, bundle = export(tmp_path, chat_template=False)
    assert not (bundle / "chat_template.jinja").exists()
    assert not Manifest.load(bundle).tokenizer.chat_template


def test_long_rope_ends_with_the_original_context(tmp_path: Path) -> None:
    _, bundle = export(tmp_path, "phi3", **PHI3_LONG)
    assert Manifest.load(bundle).spec.context_length == 64


@pytest.mark.parametrize(("temperature", "context"), [(0.1, 128), (0.0, 512)])
def test_queries_with_a_temperature_end_with_the_original_context(
    temperature: float, context: int, tmp_path: Path
) -> None:
    extra = {"mistral3.attention.temperature_scale": temperature}
    _, bundle = export(tmp_path, "mistral3", shape=TinyShape(context=128), extra=extra)
    assert Manifest.load(bundle).spec.context_length == context


def test_a_window_that_holds_the_whole_context_is_none(tmp_path: Path) -> None:
    """Phi-3.5 and Phi-4 mini state a window of 262,144 tokens."""
    whole = {**PHI3_LONG["extra"], "phi3.attention.sliding_window": 64}
    _, bundle = export(tmp_path, "phi3", **{**PHI3_LONG, "extra": whole})
    assert (Manifest.load(bundle).spec.n_window_layers, Manifest.load(bundle).spec.window) == (0, 0)


REFUSED: list[tuple[str, dict[str, Any], type[EdgeDecError], str]] = [
    (
        "mamba",
        {},
        UnsupportedError,
        "architecture 'mamba' .* llama, qwen2, qwen3, .*gemma2, gemma3, phi3, smollm3",
    ),
    ("granitehybrid", {}, UnsupportedError, "granitehybrid' is not .* no op for Mamba-2 layers"),
    ("gemma3n", {}, UnsupportedError, "gemma3n' is not .* no op for AltUp layers"),
    ("llama", {"formats": "q1_0", "shape": WIDE}, UnsupportedError, "token_embd.weight is Q1_0, .* q4_k"),
    ("llama", {"formats": {"attn_q": "q1_0"}, "shape": WIDE}, UnsupportedError, "attn_q.weight is Q1_0"),
    ("llama", {"extra": {"llama.rope.scaling.type": "yarn"}}, UnsupportedError, "rope scaling 'yarn'"),
    ("llama", {"extra": {"llama.attention.temperature_scale": 0.1}}, UnsupportedError, "temperature_scale"),
    ("mistral3", {"extra": {"mistral3.attention.temperature_length": 9}}, UnsupportedError, "_length = 9"),
    ("mistral3", {"extra": {"mistral3.rope.scaling.yarn_ext_factor": 0.5}}, UnsupportedError, "ext_factor"),
    (
        "mistral3",
        {"extra": {"mistral3.rope.scaling.factor": 0.5}},
        BadFileError,
        "YaRN parameters contradict",
    ),
    ("mistral3", {"extra": {"mistral3.rope.freq_base": 1.0}}, BadFileError, "YaRN parameters contradict"),
    (
        "llama",
        {"extra": {"llama.rope.dimension_count": 8}},
        UnsupportedError,
        "partial rotary positions .8 of 16.",
    ),
    ("llama", {"shape": TinyShape(heads=8, head_dim=8)}, UnsupportedError, "a head size of 8"),
    ("llama", {"extra": {"llama.expert_count": 8}}, UnsupportedError, "expert_count = 8"),
    ("llama", {"extra": {"split.count": 2}}, BadFileError, "part 1 of 2 of a model, and has not the name"),
    ("llama", {"extra": {"llama.attn_logit_softcapping": 50.0}}, UnsupportedError, "softcapping"),
    ("llama", {"extra": {"llama.final_logit_softcapping": 30.0}}, UnsupportedError, "final_logit"),
    ("llama", {"extra": {"llama.block_count": 3}}, BadFileError, "lacks tensor blk.2"),
    ("llama", {"extra": {"llama.block_count": 1}}, UnsupportedError, "blk.1.* its architecture does not use"),
    ("llama", {"extra": {"llama.block_count": 0}}, BadFileError, "block_count .* is 0"),
    ("llama", {"extra": {"llama.feed_forward_length": 128}}, BadFileError, "ffn_gate.weight has shape"),
    ("llama", {"extra": {"llama.attention.head_count": "four"}}, BadFileError, "head_count .* is 'four'"),
    ("llama", {"extra": {"llama.rope.freq_base": 0.0}}, BadFileError, "freq_base .* is 0.0, below 1"),
    ("llama", {"extra": {"llama.attention.layer_norm_rms_epsilon": float("nan")}}, BadFileError, "is nan"),
    ("llama", {"extra_tensors": {"rope_freqs.weight": -LLAMA3_FACTORS}}, BadFileError, "not positive"),
    ("llama", {"extra": {"llama.rope.scaling.attn_factor": 1.5}}, UnsupportedError, "attn_factor = 1.5"),
    (
        "llama",
        {"extra": {"llama.rope.scaling.type": "longrope"}},
        UnsupportedError,
        "rope scaling 'longrope'",
    ),
    ("llama", {"extra_tensors": PHI3_LONG["extra_tensors"]}, UnsupportedError, "'rope_factors_long.weight'"),
    ("phi3", {"extra_tensors": {"rope_factors_short.weight": -LLAMA3_FACTORS}}, BadFileError, "not positive"),
    ("phi3", {"extra": HUGE_HEADS}, BadFileError, "attn_qkv.weight has shape"),
    ("llama", {"extra": {"llama.attention.head_count_kv": 3}}, BadFileError, "4 query heads"),
    ("gemma3", {"extra": {"gemma3.attention.sliding_window": 0}}, BadFileError, "sliding_window .* is 0"),
    ("llama", {"extra_tensors": {"blk.0.attn_q.bias": LLAMA3_FACTORS}}, UnsupportedError, "attn_q.bias"),
    (
        "llama",
        {"extra_tensors": {"rope_freqs.weight": np.full(8, np.nan, np.float32)}},
        BadFileError,
        "not finite",
    ),
]


@pytest.mark.parametrize(("architecture", "options", "error", "message"), REFUSED)
def test_refused(
    architecture: str, options: dict[str, Any], error: type[EdgeDecError], message: str, tmp_path: Path
) -> None:
    gguf = write_tiny(tmp_path / "model.gguf", architecture, **options)
    with pytest.raises(error, match=message) as caught:
        export_gguf(gguf, tmp_path / "out", backend="edgedec")
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]


def test_an_existing_bundle_is_replaced_only_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gguf, bundle = export(tmp_path)
    before = {path.name: path.read_bytes() for path in bundle.iterdir()}
    write_tiny(gguf, seed=1)

    def fail_after(calls: int) -> Callable[[str, int, int], None]:
        def progress(stage: str, _done: int, _total: int) -> None:
            nonlocal calls
            calls -= stage == "weights"
            if calls == 0:
                raise KeyboardInterrupt

        return progress

    with pytest.raises(KeyboardInterrupt):
        export_gguf(gguf, bundle, progress=fail_after(3))
    assert before == {path.name: path.read_bytes() for path in bundle.iterdir()}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "model.gguf"]
    export_gguf(gguf, bundle)
    assert before["weights.bin"] != (bundle / "weights.bin").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "model.gguf"]


def test_other_peoples_directories_are_left_alone(tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "model.gguf")
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter").write_text("dear")
    with pytest.raises(UsageError, match="is not empty and is no EdgeDec bundle"):
        export_gguf(gguf, home)
    with pytest.raises(UsageError, match="exists and is not a directory"):
        export_gguf(gguf, home / "letter")
    assert (home / "letter").read_text() == "dear"


@pytest.mark.parametrize("out", [".", "", "/", "sub/.."])
def test_a_directory_without_a_name_is_refused(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gguf = write_tiny(tmp_path / "model.gguf")
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    monkeypatch.chdir(inside)
    with pytest.raises(UsageError, match="can not be replaced from inside"):
        export_gguf(gguf, Path(out))
    assert [path.name for path in inside.iterdir()] == ["sub"]


def test_full_disk_is_noticed_before_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gguf = write_tiny(tmp_path / "model.gguf")
    monkeypatch.setattr("shutil.disk_usage", lambda _: _Usage(free=1000))
    with pytest.raises(StorageError, match="needs 17 MB, 0 MB are free"):
        export_gguf(gguf, tmp_path / "deep" / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]


@pytest.mark.parametrize("architecture", ["qwen35", "qwen35moe"])
def test_the_layer_for_further_tokens_is_counted_before_writing(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights are a file of their own."""
    experts = ExpertShape(width=256)
    shape = TinyShape(layers=4, hidden=256, ffn=256, delta=DeltaShape(nextn=1), experts=experts)
    gguf, seen = write_tiny(tmp_path / "model.gguf", architecture, shape=shape), list[int]()
    monkeypatch.setattr("edgedec.export.bundle.check_space", lambda out, needed: seen.append(needed))
    export_gguf(gguf, tmp_path / "out")
    layer = (tmp_path / "out" / "drafters" / "mtp" / WEIGHTS).stat().st_size
    other = Manifest.load(tmp_path / "out").files
    assert seen[0] - other[WEIGHTS].bytes - other[TOKENIZER].bytes == pytest.approx(layer, rel=0.05)


class _Usage(NamedTuple):
    free: int


def test_disk_that_fills_up_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gguf = write_tiny(tmp_path / "model.gguf")

    def no_space(*_args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("edgedec.export.writer.pack", no_space)
    with pytest.raises(StorageError, match="no space left on the disk"):
        export_gguf(gguf, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]


_SLOW_EXPORT = """
import signal, sys, time
from edgedec.export import export_gguf
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is born without it
def progress(stage, done, total):
    if stage == "weights":
        print("writing", flush=True)
        time.sleep(3600)
export_gguf(Path(sys.argv[1]), Path(sys.argv[2]), progress=progress)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "model.gguf")
    command = [sys.executable, "-c", _SLOW_EXPORT, str(gguf), str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        assert any(path.name.startswith("out.partial-") for path in tmp_path.iterdir())
        process.send_signal(number)
        assert process.wait(timeout=PATIENCE_S) != 0
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]


def test_importing_export_is_cheap() -> None:
    code = "import sys, edgedec.export; print(*{'onnx', 'gguf', 'onnxruntime'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []
