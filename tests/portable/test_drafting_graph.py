"""drafting.onnx without our kernels: the values of model.onnx, for exits and for tokens half computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from edgedec.bundle import exits as names
from edgedec.bundle.manifest import Manifest
from edgedec.export import export_gguf
from edgedec.export.model import DOMAIN
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures.real_models import installed
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.portable.drafting_runner import DraftingRunner
from tests.portable.runner import Runner, options
from tests.portable.test_portable import INT8_ROUNDING

FIRST, MORE = [3, 9, 270, 41, 5, 5, 100], [17, 260, 33, 8, 64]
PARENTS = [-1, 0, 0, 1, 3, 2, 4, 0]
ORDER = 1e-4
"""Tolerance as a share of the largest value: sums in another order."""
CASES = {"llama": "q8_0", "qwen2": "q4_1", "gemma2": "q4_k", "gemma3": "q4_0"}


@pytest.fixture(scope="module", params=CASES)
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """gemma3 with both kinds of layers; a window that is shorter than the passes."""
    folder = tmp_path_factory.mktemp("drafting")
    format = CASES[request.param]
    shape = TinyShape(layers=6 if request.param == "gemma3" else 3, window=4)
    if format == "q4_k":
        shape = TinyShape(layers=3, window=4, hidden=256, ffn=256, heads=4, kv_heads=2, head_dim=64)
    gguf = write_tiny(
        folder / "model.gguf", request.param, formats={"*": format, "token_embd": "q8_0"}, shape=shape
    )
    export_gguf(gguf, folder / "bundle")
    return folder / "bundle"


@pytest.fixture(scope="module")
def standard(bundle: Path) -> DraftingRunner:
    return DraftingRunner(bundle)


def begun(runner: DraftingRunner) -> DraftingRunner:
    """The runner behind ``FIRST``, as if nothing had come after that."""
    runner.length = 0
    runner.run(FIRST)
    runner.length = len(FIRST)
    return runner


def near(got: np.ndarray, expected: np.ndarray, share: float) -> None:
    np.testing.assert_allclose(got, expected, atol=share * np.abs(expected).max())


def test_a_whole_pass_is_that_of_the_model(bundle: Path, standard: DraftingRunner) -> None:
    plain = Runner(bundle)
    plain.run(FIRST)
    expected, got = plain.run(MORE), begun(standard).run(MORE)
    for name in ("logits", "values", "logsumexp", "entropy"):
        near(got[name], expected[name], ORDER)
    for name, cache in plain.caches.items():
        near(standard.caches[name].astype(np.float32), cache.astype(np.float32), 1e-2)
    kernels = DraftingRunner(bundle, options(kernels=True))
    found = begun(kernels).run(MORE)
    near(got["logits"], found["logits"], INT8_ROUNDING)
    assert np.abs(got["logits"] - found["logits"]).max() > 0, "else the kernels ran both"
    for layer in range(kernels.spec.n_layers):
        if names.out(layer) in found:
            near(got[names.out(layer)], found[names.out(layer)], INT8_ROUNDING)
    for name, cache in kernels.caches.items():
        near(standard.caches[name].astype(np.float32), cache.astype(np.float32), INT8_ROUNDING)


def test_tokens_that_went_through_some_layers_go_on_above_them(
    bundle: Path, standard: DraftingRunner
) -> None:
    """From every exit, with other tokens behind them and alone; the rows are those of one whole pass."""
    tokens = [*MORE, 12, 250, 7]
    whole = begun(standard).run(tokens, PARENTS)
    for exit in standard.exits[:-1]:
        begun(standard)
        peeked = standard.run(tokens[:5], PARENTS[:5], end=exit)
        rows = peeked[names.out(exit - 1)]
        assert len(rows) == 5
        near(rows, whole[names.out(exit - 1)][:5], ORDER)
        got = standard.run(tokens[5:], PARENTS, warm=(exit, rows))
        near(got["logits"], whole["logits"], ORDER)
        got = standard.run([], PARENTS[:5], warm=(exit, rows))
        near(got["logits"], whole["logits"][:5], ORDER)


def test_the_head_shows_rows_of_an_exit_and_keeps_ids(bundle: Path, standard: DraftingRunner) -> None:
    kernels = DraftingRunner(bundle, options(kernels=True))
    keep = [5, 17, 40, 41, 100, 260]
    for exit in standard.exits[:-1]:
        got, expected = (begun(runner).run(MORE, end=exit) for runner in (standard, kernels))
        near(got["logits"], expected["logits"], 2 * INT8_ROUNDING)
        kept = begun(standard).run(MORE, end=exit, keep=keep, rows=[1, 4])
        near(kept["logits"][:, keep], got["logits"][[1, 4]][:, keep], ORDER)
        assert set(kept["ids"].ravel().tolist()) == {*keep, -1}
        none = begun(standard).run(MORE, end=exit, rows=[])
        assert none["values"].shape[0] == 0


def test_registered_kernels_return_the_same_bits_with_and_without_bodies(bundle: Path) -> None:
    model = onnx.load(str(bundle / "drafting.onnx"), load_external_data=False)
    del model.functions[:]
    for node in model.graph.node:
        if node.domain == DOMAIN:
            node.ClearField("overload")
    onnx.save(model, str(bundle / "bare.onnx"))
    outputs = []
    for graph in ("drafting.onnx", "bare.onnx"):
        runner = begun(DraftingRunner(bundle, options(kernels=True), graph=graph))
        exit = runner.exits[0]
        peeked = runner.run(MORE, end=exit)
        outputs.append([peeked, runner.run([], warm=(exit, peeked[names.out(exit - 1)])), runner.caches])
    for got, expected in zip(*outputs, strict=True):
        for name, array in expected.items():
            np.testing.assert_array_equal(got[name], array)


def test_bodies_cost_little_room(bundle: Path) -> None:
    sizes = [(bundle / graph).stat().st_size for graph in ("model.onnx", "drafting.onnx")]
    assert sizes[1] < sizes[0] + 20_000


@pytest.mark.slow
def test_a_real_model_drafts_the_same_without_kernels() -> None:
    bundle = installed("smollm2-135m")
    prompt = Tokenizer.load(bundle, Manifest.load(bundle).tokenizer).encode("The capital of France is")
    runners = [DraftingRunner(bundle, options(kernels=kernels)) for kernels in (False, True)]
    for exit in (runners[0].exits[0], runners[0].exits[-2]):
        found = []
        for runner in runners:
            peeked = runner.run(prompt, end=exit)
            whole = runner.run([], warm=(exit, peeked[names.out(exit - 1)]))
            found.append((peeked["logits"], whole["logits"], whole["ids"][:, 0]))
        near(found[0][0], found[1][0], 2 * INT8_ROUNDING)
        near(found[0][1], found[1][1], 2 * INT8_ROUNDING)
        assert found[0][2][-1] == found[1][2][-1]
