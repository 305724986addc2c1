"""GatedDelta and ShortConv through ONNX Runtime: several sequences at once, and inputs that do not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from edgedec.core.cache_kinds import TRAIL_SLOTS
from edgedec.core.errors import BackendError
from edgedec.kernels import library
from tests.fixtures.op_sessions import called, session_of
from tests.fuzz.op_cases import graph, tensor
from tests.kernels.gated_delta import Layer
from tests.kernels.short_conv import ShortConvLayer
from tests.kernels.test_tree_attention import random_tree

LAYER = Layer(k_heads=2, v_heads=4, k_dim=32, v_dim=32)
CONV = ShortConvLayer(hidden=272)
LAYERS, PARTS = 3, 4
SIZES = {"k_heads": 2, "v_heads": 4, "k_dim": 32, "v_dim": 32, "kernel": 4, "epsilon": 1e-6, "layer": 1}
CONV_KINDS = ("f32", "i64", "i64", "i64", "f32", "f32")
KINDS = ("f32", "i64", "i64", "i64", "f32", "f32", "f32", "f32", "f32", "f32")


@dataclass(frozen=True)
class One:
    """A sequence: ``tokens`` more in ``part``, behind ``length``, of which the state covers ``applied``."""

    tokens: int
    part: int
    length: int
    applied: int
    tree: bool = False


MIXES = {
    "one in the last part": [One(4, 3, 7, 0)],
    "short ones": [One(1, 2, 40, 40), One(3, 0, 0, 0, tree=True), One(2, 3, 17, 9)],
    "plain decoding": [One(1, part, 30 + part, 29 + part) for part in range(4)],
    "a prompt among them": [
        One(1, 1, 90, 80),
        One(128, 3, 70, 70),
        One(16, 0, 33, 30, tree=True),
        One(1, 2, 0, 0),
    ],
}


def session(op: str = "GatedDelta", **more: Any) -> ort.InferenceSession:
    sizes, kinds = (SIZES, KINDS) if op == "GatedDelta" else ({"layer": 1, "kernel": 3}, CONV_KINDS)
    model = graph(op, sizes | more, [tensor(kind, 1) for kind in kinds])
    return session_of(model)


def memory(parts: int, layer: Layer | ShortConvLayer = LAYER) -> list[NDArray[Any]]:
    """A trail, and a state where the layer has one."""
    rng = np.random.default_rng(4)
    trail = rng.standard_normal((LAYERS, parts * TRAIL_SLOTS, layer.trail), dtype=np.float32)
    state = rng.standard_normal((LAYERS, parts, layer.state), dtype=np.float32)
    return [trail, state] if layer.state else [trail]


@pytest.mark.parametrize("row", library.available())
@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("op", ["GatedDelta", "ShortConv"])
def test_each_sequence_has_the_bits_of_a_pass_of_its_own(
    op: str, mix: str, row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEDEC_ISA", row)
    layer: Layer | ShortConvLayer = LAYER if op == "GatedDelta" else CONV
    made, weights, ones = session(op), list(layer.weights()), MIXES[mix]
    shared, alone = memory(PARTS, layer), memory(PARTS, layer)
    rng = np.random.default_rng(1)
    tokens = [rng.standard_normal((one.tokens, layer.width), dtype=np.float32) for one in ones]
    parents = [
        np.array(random_tree(i, one.tokens) if one.tree else range(-1, one.tokens - 1), np.int64)
        for i, one in enumerate(ones)
    ]
    lengths = np.array([PARTS, *(n for one in ones for n in (one.tokens, one.part, one.length))])
    applied = np.zeros(PARTS, np.int64)
    for one in ones:
        applied[one.part] = one.applied
    out = called(made, np.concatenate(tokens), np.concatenate(parents), lengths, applied, *shared, *weights)
    first = 0
    for one, own, tree in zip(ones, tokens, parents, strict=True):
        slots = slice(one.part * TRAIL_SLOTS, (one.part + 1) * TRAIL_SLOTS)
        places = [slots, slice(one.part, one.part + 1)]
        part = [np.ascontiguousarray(a[:, place]) for a, place in zip(alone, places, strict=False)]
        before = [own, tree, np.array([one.length]), np.array([one.applied])]
        expected = called(made, *before, *part, *weights)
        for whole, place, own_part in zip(alone, places, part, strict=False):
            whole[:, place] = own_part
        assert np.isfinite(expected).all()
        assert out[first : first + one.tokens].tobytes() == expected.tobytes()
        first += one.tokens
    assert [a.tobytes() for a in shared] == [a.tobytes() for a in alone]


def inputs() -> list[NDArray[Any]]:
    """A tree of three tokens behind ten, of which the state covers eight."""
    tokens, parents = LAYER.tokens(3), np.array([-1, 0, 0])
    return [tokens, parents, np.array([10]), np.array([8]), *memory(1), *LAYER.weights()]


WRONG: list[tuple[int, NDArray[Any], str]] = [
    (0, np.zeros((3, LAYER.width - 1), np.float32), "input 0 must be a matrix of"),
    (0, np.zeros((3, LAYER.width, 1), np.float32), "input 0 must be a matrix of"),
    (0, np.zeros((2, LAYER.width), np.float32), "parents do not fit the tokens"),
    (1, np.array([-1, 0, 2]), r"parents\[i\] must lie in \[-1, i\)"),
    (1, np.array([-2, 0, 1]), r"parents\[i\] must lie in \[-1, i\)"),
    (2, np.array([-1]), "negative length"),
    (2, np.array([1 << 62]), "not a possible number of tokens"),
    (2, np.array([7]), "applied exceeds length"),
    (2, np.array([38]), "applied is too far behind length"),
    (2, np.array([10, 11]), "length must have one number"),
    (2, np.array([2, 3, 1, 10]), "the trail has too few sequences"),
    (2, np.array([1, 3, 1, 10]), "part that does not exist"),
    (2, np.array([1, 2, 0, 10]), "as many as the pass in all"),
    (3, np.array([-1]), "negative applied"),
    (3, np.array([8, 8]), "applied must have a number for each sequence"),
    (3, np.zeros(0, np.int64), "applied must have a number for each sequence"),
    (4, np.zeros((LAYERS, 31, LAYER.trail), np.float32), "the trail must be"),
    (4, np.zeros((LAYERS, 0, LAYER.trail), np.float32), "the trail must be"),
    (4, np.zeros((LAYERS, 32, LAYER.trail + 1), np.float32), "the trail must be"),
    (4, np.zeros((1, 32, LAYER.trail), np.float32), "the trail must be"),
    (4, np.zeros((32, LAYER.trail), np.float32), "the trail must be"),
    (5, np.zeros((1, 1, LAYER.state), np.float32), "the state must be"),
    (5, np.zeros((LAYERS, 2, LAYER.state), np.float32), "the state must be"),
    (5, np.zeros((LAYERS, 1, LAYER.state - 1), np.float32), "the state must be"),
    (6, np.zeros((4, LAYER.channels), np.float32), "input 6 must be a matrix of 4 columns"),
    (6, np.zeros((LAYER.channels - 1, 4), np.float32), "conv_weight must have 256 rows"),
    (7, np.zeros(3, np.float32), "decay must have 4 numbers"),
    (8, np.zeros(5, np.float32), "dt_bias must have 4 numbers"),
    (9, np.zeros(33, np.float32), "norm_weight must have 32 numbers"),
]


@pytest.mark.parametrize(("place", "value", "what"), WRONG)
def test_inputs_that_do_not_fit_are_refused_in_one_line(place: int, value: NDArray[Any], what: str) -> None:
    values = inputs()
    values[place] = value
    before = [part.tobytes() for part in values[4:6]]
    with pytest.raises(BackendError, match=what) as refused:
        called(session(), *values)
    assert "\n" not in refused.value.message
    assert [part.tobytes() for part in values[4:6]] == before


def test_a_tree_that_the_trail_cannot_hold_is_refused() -> None:
    values = inputs()
    values[0], values[1] = LAYER.tokens(30), np.full(30, -1)
    with pytest.raises(BackendError, match="a tree has more tokens than the trail has rows for"):
        called(session(), *values)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"k_heads": 0}, "heads and their sizes must be 1 to 65536"),
        ({"v_heads": 1 << 60}, "heads and their sizes must be 1 to 65536"),
        ({"k_dim": -16}, "heads and their sizes must be 1 to 65536"),
        ({"v_heads": 3}, "v_heads must be a multiple of k_heads"),
        ({"v_dim": 24}, "k_dim and v_dim must be multiples of 16"),
        ({"kernel": 9}, "kernel must be 1 to 8"),
        ({"kernel": -1}, "kernel must be 1 to 8"),
    ],
)
def test_impossible_sizes_are_refused_when_a_model_is_loaded(more: dict[str, int], what: str) -> None:
    with pytest.raises(Exception, match=what):
        session(**more)


@pytest.mark.parametrize("layer", [-1, LAYERS, 1 << 62])
def test_layers_that_the_trail_lacks_are_refused(layer: int) -> None:
    with pytest.raises(BackendError, match="the trail must be"):
        called(session(layer=layer), *inputs())


CONV_WRONG: list[tuple[int, NDArray[Any], str]] = [
    (0, np.zeros((3, CONV.width - 1), np.float32), "input 0 must be a matrix of 816 columns"),
    (1, np.array([-1, 0, 2]), r"parents\[i\] must lie in \[-1, i\)"),
    (2, np.array([39]), "applied is too far behind length"),
    (4, np.zeros((LAYERS, 32, CONV.trail + 16), np.float32), "the trail must be"),
    (4, np.zeros((1, 32, CONV.trail), np.float32), "the trail must be"),
    (5, np.zeros((CONV.hidden, 4), np.float32), "conv_weight must be a matrix of 3 columns"),
    (5, np.zeros((0, 3), np.float32), "conv_weight must be a matrix of 3 columns"),
    (5, np.zeros((CONV.hidden - 1, 3), np.float32), "hidden must be a multiple of 16"),
    (5, np.zeros((CONV.hidden - 16, 3), np.float32), "input 0 must be a matrix of 768 columns"),
]


@pytest.mark.parametrize(("place", "value", "what"), CONV_WRONG)
def test_inputs_that_do_not_fit_a_convolution_are_refused(place: int, value: NDArray[Any], what: str) -> None:
    values = [CONV.tokens(3), np.array([-1, 0, 0]), np.array([10]), np.array([8])]
    values += [*memory(1, CONV), *CONV.weights()]
    values[place] = value
    before = values[4].tobytes()
    with pytest.raises(BackendError, match=what) as refused:
        called(session("ShortConv"), *values)
    assert "\n" not in refused.value.message
    assert values[4].tobytes() == before


def test_an_impossible_width_is_refused_when_a_model_is_loaded() -> None:
    with pytest.raises(Exception, match="kernel must be 1 to 8"):
        session("ShortConv", kernel=0)
