"""Formats chosen matrix by matrix within a size: derivatives, the choice, and bundles of it."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from edgedec.bench.studies.faithful import log_softmax
from edgedec.cli.app import app
from edgedec.core.errors import UnsupportedError, UsageError
from edgedec.export import export_huggingface
from edgedec.export.calibration.choice import LADDER, choose, show_formats
from edgedec.export.calibration.evaluate import F32, Run
from edgedec.export.calibration.gradients import Backward, Slopes
from edgedec.export.calibration.harm import harms
from edgedec.export.model import PackedWeight
from edgedec.export.stored import GraphWeights
from tests.export.test_calibration import TEXT, opened
from tests.export.test_huggingface import SHAPES, TOKENS
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_huggingface import write_huggingface
from tests.reference.graph import graph_logits

PLAIN = ("llama", "smollm3", "qwen2", "qwen3", "mistral3", "phi3", "gemma2", "gemma3")


@pytest.mark.parametrize("architecture", PLAIN)
def test_derivatives_are_those_of_finite_differences(architecture: str, tmp_path: Path) -> None:
    """The largest of each matrix, for a fixed mix of the logits of one window."""
    gguf = write_tiny(
        tmp_path / "m.gguf", architecture, formats="f32", shape=SHAPES[architecture], tied=False
    )
    config = {"tie_word_embeddings": False}
    source, model = opened(write_huggingface(tmp_path / "source", gguf, config=config))
    mix = np.random.default_rng(3).standard_normal((len(TOKENS), 400)).astype(np.float32)
    moved: tuple[str, int, int, float] = ("", 0, 0, 0.0)

    def floats(weight: PackedWeight, start: int, stop: int) -> F32:
        values = source.floats(weight.tensor, start, stop).copy()
        name, row, col, step = moved
        if weight.tensor.name == name and start <= row < stop:
            values[row - start, col] += np.float32(step)
        return values

    def mixed() -> float:
        run = Run(model, floats, [TOKENS], lambda weight, x: None)
        for node in model.nodes:
            run.step(node)
        head = model.nodes[-1]
        logits = run.linear(run.matrix(head.input[1]), run.values[head.input[0]], "")
        if cap := next((a.f for a in head.attribute if a.name == "softcap"), 0.0):
            logits = cap * np.tanh(logits / cap)
        return float(np.vdot(logits.astype(np.float64), mix[:, : logits.shape[1]]))

    found: list[Slopes] = []
    Backward(model, floats, [TOKENS], lambda z: mix[:, : z.shape[1]].copy(), found.append).go(
        lambda done, total: None
    )
    assert {one.weight.tensor.name for one in found} == {
        one.tensor.name for one in model.weights.values() if isinstance(one, PackedWeight)
    }
    for one in found:
        row, col = np.unravel_index(int(one.squares.argmax()), one.squares.shape)
        tensor = one.weight.tensor
        whole = source.floats(tensor, 0, tensor.shape[0])
        place = int(np.flatnonzero((whole == one.rows[row]).all(axis=1))[0])
        step = 3e-3
        moved = (tensor.name, place, int(col), step)
        above = mixed()
        moved = (tensor.name, place, int(col), -step)
        slope = (above - mixed()) / (2 * step)
        moved = ("", 0, 0, 0.0)
        np.testing.assert_allclose(abs(slope), np.sqrt(one.squares[row, col]), rtol=0.02)


SIZES = {"q4_0": 18.0, "q4_1": 20.0, "q5_0": 22.0, "q5_1": 24.0, "q8_0": 34.0}


@given(
    st.lists(st.lists(st.floats(0, 10), min_size=5, max_size=5), min_size=1, max_size=4),
    st.integers(72, 140),
)
def test_a_choice_fits_and_depends_on_no_order(rows: list[list[float]], limit: int) -> None:
    harms = {f"m{at}": dict(zip(LADDER, row, strict=True)) for at, row in enumerate(rows)}
    sizes = {name: dict(SIZES) for name in harms}
    chosen = choose(harms, sizes, limit)
    used = sum(SIZES[format] for format in chosen.values())
    assert used <= limit
    total = math.fsum(harms[name][chosen[name]] for name in harms)
    for format in LADDER:  # an optimiser elsewhere did worse than one format for all
        if SIZES[format] * len(harms) <= limit:
            assert total <= math.fsum(harms[name][format] for name in harms)
    assert choose(dict(reversed(harms.items())), sizes, limit) == chosen
    roomy = choose(harms, sizes, 34 * len(harms))
    assert math.fsum(harms[name][roomy[name]] for name in harms) == math.fsum(min(row) for row in rows)


def test_bytes_go_where_they_remove_most_harm() -> None:
    mild = {"q4_0": 1.0, "q4_1": 0.9, "q5_0": 0.8, "q5_1": 0.7, "q8_0": 0.6}
    harms = {"a": mild, "b": {name: 100 * harm for name, harm in mild.items()}}
    sizes = {"a": SIZES, "b": SIZES}
    assert choose(harms, sizes, 36) == {"a": "q4_0", "b": "q4_0"}
    assert choose(harms, sizes, 42) == {"a": "q4_0", "b": "q5_1"}
    assert choose(harms, sizes, 68) == {"a": "q8_0", "b": "q8_0"}


def test_a_larger_format_that_rounds_worse_is_passed_over() -> None:
    harms = {"a": {"q4_0": 5.0, "q4_1": 6.0, "q5_0": 4.9, "q5_1": 1.0, "q8_0": 2.0}}
    assert choose(harms, {"a": SIZES}, 21) == {"a": "q4_0"}
    assert choose(harms, {"a": SIZES}, 1000) == {"a": "q5_1"}


def test_the_line_about_formats() -> None:
    formats = {f"blk.{i}.attn_q.weight": "q4_0" if i in (0, 1, 4) else "q5_1" for i in range(5)}
    line = show_formats({**formats, "token_embd.weight": "q8_0"})
    assert line == "attn_q: q4_0 0-1 4, q5_1 2-3; token_embd: q8_0"


def directory(tmp_path: Path, architecture: str = "qwen3") -> Path:
    gguf = write_tiny(tmp_path / "m.gguf", architecture, formats="f32", shape=SHAPES.get(architecture))
    return write_huggingface(tmp_path / "source", gguf)


def bytes_of(bundle: Path) -> int:
    return sum(file.stat().st_size for file in bundle.rglob("*") if file.is_file())


def test_a_bundle_has_at_most_that_size_and_says_which_formats(tmp_path: Path) -> None:
    source, stages = directory(tmp_path), list[str]()
    export_huggingface(source, tmp_path / "eight")
    export_huggingface(source, tmp_path / "four", quant="q4_0,head=q4_0")
    most, least = bytes_of(tmp_path / "eight"), bytes_of(tmp_path / "four")
    limit = (least + most) // 2 + (16 << 10)

    def noted(stage: str, done: int, total: int) -> None:
        stages.append(stage)

    made = [
        export_huggingface(
            source, tmp_path / name, quant=limit, calibration=text, name="same", progress=noted
        )
        for name, text in (("a", None), ("b", None), ("c", TEXT))
    ]
    for name in "abc":
        assert limit - (40 << 10) < bytes_of(tmp_path / name) <= limit
        assert np.isfinite(graph_logits(tmp_path / name, TOKENS)).all()
    assert (tmp_path / "a/weights.bin").read_bytes() == (tmp_path / "b/weights.bin").read_bytes()
    assert made[0].source == made[1].source
    assert made[0].source["formats"] != made[2].source["formats"], "another text, another choice"
    assert "formats" in stages
    stored = GraphWeights(tmp_path / "a", "model.onnx").matrices
    formats = {name: matrix.format for name, matrix in stored.items()}
    assert len(set(formats.values())) > 1
    assert made[0].source["formats"] == show_formats(formats)
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "a")])
    assert "formats" in shown.output
    assert "token_embd: " in shown.output


def test_the_estimate_is_near_what_rounding_does(tmp_path: Path) -> None:
    """The sum over matrices beside the KL divergence of a bundle in one format from the float model."""
    source = directory(tmp_path, "llama")
    weights, model = opened(source)
    ids = np.random.default_rng(0).integers(3, 280, (8, 32)).tolist()

    def floats(weight: PackedWeight, start: int, stop: int) -> F32:
        return weights.floats(weight.tensor, start, stop)

    found = harms(model, floats, ids, {}, lambda done, total: None)
    for format in ("q4_0", "q5_1"):
        export_huggingface(source, tmp_path / format, quant=f"{format},head={format}")
    export_huggingface(source, tmp_path / "f32", quant="f32,head=f32")
    for format in ("q4_0", "q5_1"):
        expected = sum(one[format] for one in found.values())
        pairs = [[log_softmax(graph_logits(tmp_path / one, row)) for one in ("f32", format)] for row in ids]
        measured = float(np.mean([(np.exp(p) * (p - q)).sum(axis=1).mean() for p, q in pairs]))
        assert measured / 3 < expected < 3 * measured, format


def test_a_size_that_cannot_be_is_refused_with_those_that_can(tmp_path: Path) -> None:
    source = directory(tmp_path)
    with pytest.raises(UsageError, match=r"no formats .* as small as 20\.0 kB") as refused:
        export_huggingface(source, tmp_path / "out", quant=20_000)
    assert re.search(r"between [\d.]+ kB \(q4_0\) and [\d.]+ kB \(q8_0\)", str(refused.value.hint))
    assert not (tmp_path / "out").exists()


def test_room_for_eight_bits_takes_them_everywhere(tmp_path: Path) -> None:
    source = directory(tmp_path)
    stages: list[str] = []

    def noted(stage: str, done: int, total: int) -> None:
        stages.append(stage)

    manifest = export_huggingface(source, tmp_path / "out", quant=10_000_000, name="same", progress=noted)
    assert "formats" not in stages, "nothing is measured for it"
    export_huggingface(source, tmp_path / "plain", name="same")
    assert (tmp_path / "out/weights.bin").read_bytes() == (tmp_path / "plain/weights.bin").read_bytes()
    assert set(re.findall(r"q\d_\d", str(manifest.source["formats"]))) == {"q8_0"}


def test_matrices_of_zeros_and_inputs_that_never_occur(tmp_path: Path) -> None:
    """Weights by which nothing is multiplied gave others blocks that are not numbers."""
    gguf = write_tiny(tmp_path / "m.gguf", "qwen3", formats="f32")
    source = write_huggingface(tmp_path / "source", gguf)
    weights, _ = opened(source)
    shape = weights.tensors["blk.0.attn_output.weight"].shape
    zeros: dict[str, F32 | None] = {"model.layers.0.self_attn.o_proj.weight": np.zeros(shape, np.float32)}
    source = write_huggingface(tmp_path / "source", gguf, tensors=zeros)
    weights, model = opened(source)

    def floats(weight: PackedWeight, start: int, stop: int) -> F32:
        return weights.floats(weight.tensor, start, stop)

    unused = {name: np.zeros(tensor.shape[-1]) for name, tensor in weights.tensors.items()}
    found = harms(model, floats, [TOKENS], unused, lambda done, total: None)
    assert all(np.isfinite(list(one.values())).all() for one in found.values())
    assert set(found["blk.0.attn_output.weight"].values()) == {0.0}
    assert set(found["blk.0.attn_q.weight"].values()) == {0.0}, "its output goes nowhere"
    assert found["blk.0.ffn_up.weight"]["q4_0"] > found["blk.0.ffn_up.weight"]["q8_0"] > 0


@pytest.mark.parametrize("architecture", ["lfm2", "gemma4", "qwen3moe"])
def test_layers_of_other_kinds_are_refused(architecture: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="a size is for models of plain layers"):
        export_huggingface(directory(tmp_path, architecture), tmp_path / "out", quant=300_000)
    assert not (tmp_path / "out").exists()


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    def interrupted(stage: str, done: int, total: int) -> None:
        if stage == "formats" and done:
            raise KeyboardInterrupt

    source = directory(tmp_path)
    export_huggingface(source, tmp_path / "four", quant="q4_0,head=q4_0")
    limit = bytes_of(tmp_path / "four") + (32 << 10)
    with pytest.raises(KeyboardInterrupt):
        export_huggingface(source, tmp_path / "out", quant=limit, progress=interrupted)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("out")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--size", "90MB", "--quant", "q4_0"], "--size chooses the formats, --quant states them"),
        (["--size", "90MB", "--for", "npu"], "--for npu goes without --backend, --quant and --size"),
        (["--size", "90MB"], "--size is for Hugging Face directories"),
    ],
)
def test_options_that_do_not_go_together(options: list[str], message: str, tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "m.gguf", "qwen3")
    result = CliRunner().invoke(app, ["export", str(gguf), "-o", str(tmp_path / "out"), *options])
    assert result.exit_code != 0
    assert message in result.output
