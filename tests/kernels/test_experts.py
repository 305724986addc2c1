"""Experts: whom the router chooses, and the sum over them, with the same bits everywhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgedec.kernels import library
from tests.kernels.experts import (
    Inputs,
    Layer,
    choose,
    defined,
    dense,
    expected,
    random_inputs,
    random_layer,
    run,
)
from tests.kernels.float_rows import float_rows, library_for
from tests.kernels.quant_rows import ACTIVATIONS, FORMATS, SCALAR, Runner, runner_id, runners
from tests.kernels.test_threads import threads

RUNNERS = [SCALAR, *runners()]
EVERY_RUNNER = pytest.mark.parametrize("runner", RUNNERS, ids=runner_id)
MIXED = ("q4_k", "q4_k", "q6_k")
SOFTMAX = {"normalise": True}
RULES = {
    "softmax over the chosen": SOFTMAX,
    "softmax over all": {"normalise": False},
    "sigmoid": {"sigmoid": True, "normalise": True, "epsilon": 1e-6, "scale": 1.5},
    "sigmoid as it is": {"sigmoid": True, "normalise": False},
}
EVERY_RULE = pytest.mark.parametrize("rules", RULES.values(), ids=RULES)


def router(experts: int, chosen: int, **rules: object) -> Layer:
    """A layer of which only the router matters."""
    return random_layer(("f32", "f32", "f32"), experts, 16, 16, chosen=chosen, **rules)


@EVERY_RULE
@pytest.mark.parametrize("extras", [False, True])
@pytest.mark.parametrize(("experts", "chosen"), [(1, 1), (8, 2), (32, 4), (100, 7), (256, 8), (512, 64)])
def test_the_router_chooses_as_it_is_defined(
    experts: int, chosen: int, extras: bool, rules: dict[str, object]
) -> None:
    layer = router(experts, chosen, **rules)
    for seed in range(20):
        inputs = random_inputs(layer, 1, seed, extras)
        found, weights = choose("scalar", layer, inputs)
        chosen_ones, their_weights = expected(layer, inputs)
        assert found.tolist() == chosen_ones
        np.testing.assert_allclose(weights, their_weights, rtol=3e-6)


@EVERY_RULE
@pytest.mark.parametrize("row", float_rows())
def test_every_row_chooses_alike(row: str, rules: dict[str, object]) -> None:
    if library_for(row) is not library.load():
        pytest.skip("a modelled row: its whole op is compared below")
    for experts, chosen in ((5, 3), (64, 6), (130, 8)):
        layer = router(experts, chosen, **rules)
        inputs = random_inputs(layer, 1, experts, extras=True)
        for ours, scalar in zip(choose(row, layer, inputs), choose("scalar", layer, inputs), strict=True):
            assert ours.tobytes() == scalar.tobytes()


def test_of_equal_scores_the_lower_index_is_chosen() -> None:
    scores = np.array([[1, 3, 2, 3, 2, 2, 0, 3, 2]], np.float32)
    layer = router(9, 5)
    x = np.zeros((1, 16), np.float32)
    found, weights = choose("scalar", layer, Inputs(x, scores))
    assert found.tolist() == [1, 2, 3, 4, 7]
    assert weights[0] == weights[2] == weights[4] > weights[1] == weights[3]
    assert choose("scalar", layer, Inputs(x, np.zeros_like(scores)))[0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("sigmoid", [False, True])
def test_scores_that_are_no_numbers_still_choose_different_experts(sigmoid: bool, wrong: float) -> None:
    layer = router(9, 4, sigmoid=sigmoid)
    for where in ([0], [3, 8], range(9)):
        scores = np.arange(9, dtype=np.float32)[None]
        scores[0, list(where)] = wrong
        found, _ = choose("scalar", layer, Inputs(np.zeros((1, 16), np.float32), scores))
        assert len(set(found.tolist())) == 4
        assert sorted(found.tolist()) == found.tolist()
        assert set(found.tolist()) <= set(range(9))


@EVERY_RULE
@EVERY_RUNNER
def test_every_row_has_the_bits_of_the_definition(runner: Runner, rules: dict[str, object]) -> None:
    layer = random_layer(MIXED, 6, 256, 512, chosen=3, **rules)
    for m, extras in ((1, True), (5, False), (9, True)):
        inputs = random_inputs(layer, m, m, extras)
        assert run(runner, layer, inputs).tobytes() == defined(layer, inputs).tobytes(), m


@pytest.mark.parametrize("format", FORMATS)
@EVERY_RUNNER
def test_every_format_has_the_bits_of_the_definition(runner: Runner, format: str) -> None:
    other = "q8_0" if format != "q8_0" else "f16"
    for formats in ((format, other, format), (other, format, other)):
        layer = random_layer(formats, 4, 256, 256, chosen=2, activation="gelu_tanh")
        inputs = random_inputs(layer, 3, 3)
        assert run(runner, layer, inputs).tobytes() == defined(layer, inputs).tobytes(), formats


@pytest.mark.parametrize("format", ["mxfp4", "q8_0", "bf16", "q4_0"])
@EVERY_RUNNER
def test_biases_and_clamps_have_the_bits_of_the_definition(runner: Runner, format: str) -> None:
    rules = {"biased": True, "activation": "clamped_silu"}
    layer = random_layer((format, format, format), 5, 96, 160, chosen=2, **rules)
    for m in (1, 6):
        inputs = random_inputs(layer, m, m, extras=True)
        inputs.x[0] *= 40  # beyond the limits
        got = run(runner, layer, inputs)
        assert got.tobytes() == defined(layer, inputs).tobytes(), m
        assert got.tobytes() != run(runner, replace(layer, activation="silu"), inputs).tobytes()
        assert got.tobytes() == run(runner, layer, inputs, pairs=3).tobytes()


@pytest.mark.parametrize(("width", "cols"), [(32, 64), (96, 160), (736, 320)])
@EVERY_RUNNER
def test_sizes_that_fill_no_tile_and_no_record(runner: Runner, width: int, cols: int) -> None:
    layer = random_layer(("q8_0", "q4_0", "q5_0"), 5, width, cols, chosen=2)
    inputs = random_inputs(layer, 4, width, extras=True)
    assert run(runner, layer, inputs).tobytes() == defined(layer, inputs).tobytes()


@EVERY_RUNNER
def test_a_token_has_the_same_bits_among_any_others(runner: Runner) -> None:
    layer = random_layer(MIXED, 8, 256, 256, chosen=3)
    many = random_inputs(layer, 70, 1, extras=True)
    together = run(runner, layer, many)
    for t in (0, 1, 33, 69):
        assert run(runner, layer, many.token(t))[0].tobytes() == together[t].tobytes()


@EVERY_RUNNER
def test_the_bits_do_not_depend_on_how_many_experts_are_computed_together(runner: Runner) -> None:
    layer = random_layer(MIXED, 8, 256, 256, chosen=3)
    inputs = random_inputs(layer, 40, 2, extras=True)
    results = {run(runner, layer, inputs, pairs).tobytes() for pairs in (1, 15, 16, 40, 119, 120, 1000)}
    assert len(results) == 1


@EVERY_RUNNER
def test_the_bits_do_not_depend_on_threads(runner: Runner) -> None:
    layer = random_layer(MIXED, 8, 256, 512, chosen=3)
    for m in (1, 2, 7, 40):
        inputs, results = random_inputs(layer, m, m, extras=True), []
        for count in (1, 2, 3, 4):
            with threads(library.load(runner.path), count):
                results.append(run(runner, layer, inputs, 50).tobytes())
        assert len(set(results)) == 1, m


def test_tokens_that_all_choose_one_expert() -> None:
    layer = random_layer(MIXED, 4, 256, 256, chosen=1)
    inputs = random_inputs(layer, 50, 3)
    inputs.scores[:] = [0, 0, 5, 0]
    assert run(SCALAR, layer, inputs, 8).tobytes() == defined(layer, inputs).tobytes()


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_weighted_sum_is_right(activation: str, biased: bool) -> None:
    layer = random_layer(("f32", "f32", "f32"), 5, 48, 64, chosen=2, activation=activation, biased=biased)
    inputs = random_inputs(layer, 6, 4, extras=True)
    np.testing.assert_allclose(run(SCALAR, layer, inputs), dense(layer, inputs), rtol=2e-4, atol=2e-6)
