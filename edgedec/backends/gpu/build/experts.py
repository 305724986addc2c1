"""Experts: chosen on the device for each token, then a step for each matrix over all pairs of both."""

from __future__ import annotations

from collections.abc import Iterator

from edgedec.backends.gpu.build.builder import FLOAT, Builder
from edgedec.backends.gpu.build.linear import ACTIVATIONS, quantised
from edgedec.backends.gpu.formats import activation_groups, constants
from edgedec.backends.gpu.program import GridCount
from edgedec.backends.gpu.shaders import Const
from edgedec.backends.onnx.graph import OpNode
from edgedec.core.errors import UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.kernels.packing.experts import ExpertPlaces, expert_places
from edgedec.kernels.packing.formats import FORMATS, TILE

_THREADS = 64
_MOST_EXPERTS = 1024
"""Experts whose gates and keys lie in the memory of a workgroup."""


@dataclass(frozen=True, slots=True)
class _Mixture:
    """The experts of one layer: ``chosen`` of ``count`` for each token, in ``out``."""

    weight: str
    count: int
    chosen: int
    places: ExpertPlaces
    pairs: str
    """The buffer with the chosen ones."""


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A matrix of each expert, ``at`` bytes behind its begin; ``bias``: where its biases are, or 0."""

    format: str
    rows: int
    cols: int
    at: int
    bias: int
    acts: str
    """Its quantised activations: of pairs where ``own``, else of tokens."""
    own: bool
    out: str
    """It writes ``rows`` of ``stride`` columns from ``first`` on."""
    first: int
    stride: int


def experts(build: Builder, node: OpNode) -> None:
    """Build a mixture of experts. Raises UnsupportedError for formats of floats and for too many experts."""
    width, cols, chosen = node.integer("rows"), node.integer("cols"), node.integer("chosen")
    gate, up, down = node.text("formats").split(",")
    floats = [format for format in (gate, up, down) if FORMATS[format].is_float]
    if floats or node.integer("experts") > _MOST_EXPERTS:
        why = f"in {floats[0]}" if floats else f"of which there are more than {_MOST_EXPERTS}"
        raise UnsupportedError(f"experts {why} have no kernel for GPUs", hint="run the model on the CPU")
    biased = bool(node.integer("biases"))
    places = expert_places((gate, up, down), width, cols, biased=biased)
    out = node.outputs[0]
    pairs = _choose(build, node, f"{out}.chosen")
    mixture = _Mixture(node.input(2), node.integer("experts"), chosen, places, pairs)
    biases = [places.biases + FLOAT * before if biased else 0 for before in (0, width, 2 * width)]

    both = build.made(f"{out}.both", "token", chosen * 2 * width)
    x = quantised(build, node.input(0), cols, 1, "token")
    for format, at, bias, first in (
        (gate, places.gate, biases[0], 0),
        (up, places.up, biases[1], width),
    ):
        _multiply(build, mixture, _Matrix(format, width, cols, at, bias, x, False, both, first, 2 * width))
    inner = build.made(f"{out}.inner", "token", chosen * width)
    build.step(
        "gated_mlp/gated_mlp",
        {"COLUMNS": width, "ACTIVATION": ACTIVATIONS[node.text("activation")], "EACH": chosen},
        (both, inner),
        (GridCount("once", width, _THREADS), build.count("token", chosen)),
    )
    acts = quantised(build, inner, width, 1, "token", each=chosen)
    products = build.made(f"{out}.products", "token", chosen * cols)
    last = _Matrix(down, cols, width, places.down, biases[2], acts, True, products, 0, cols)
    _multiply(build, mixture, last)
    residual = node.input(5)
    build.step(
        "experts/add",
        {"CHOSEN": chosen, "COLUMNS": cols, "RESIDUAL": bool(residual)},
        (mixture.pairs, products, residual or products, build.made(out, "token", cols)),
        (GridCount("once", cols, _THREADS), build.count("token")),
    )


def _choose(build: Builder, node: OpNode, pairs: str) -> str:
    scores, choice, factor = node.input(1), node.input(3), node.input(4)
    chosen = node.integer("chosen")
    build.scratch(pairs, "token", 2 * chosen * FLOAT)
    build.step(
        "experts/choose",
        {
            "EXPERTS": node.integer("experts"),
            "CHOSEN": chosen,
            "SIGMOID": node.text("gating") == "sigmoid",
            "NORMALISE": bool(node.integer("normalise")),
            "CHOICE": bool(choice),
            "FACTOR": bool(factor),
            "EPSILON": node.real("epsilon"),
            "SCALE": node.real("scale", 1.0),
        },
        (
            scores,
            build.weight(choice) if choice else scores,
            build.weight(factor) if factor else scores,
            pairs,
        ),
        (build.count("token"),),
    )
    return pairs


def _multiply(build: Builder, mixture: _Mixture, matrix: _Matrix) -> None:
    """Build the products of ``matrix``, a step for each part of the experts."""
    spec = FORMATS[matrix.format]
    consts: dict[str, Const] = {
        **constants(matrix.format),
        "RECORDS": spec.records(matrix.cols),
        "GROUPS": activation_groups(matrix.cols),
        "OUTPUTS": matrix.rows,
        "FIRST": matrix.first,
        "STRIDE": matrix.stride,
        "CHOSEN": mixture.chosen,
        "EXPERT_WORDS": mixture.places.stride // FLOAT,
        "AT": matrix.at // FLOAT,
        "BIAS_AT": matrix.bias // FLOAT,
        "OWN": matrix.own,
    }
    for start, count, weight in _parts(build, mixture):
        build.step(
            "experts/expert_linear",
            {**consts, "BOUND": start, "COUNT": count},
            (weight, matrix.acts, mixture.pairs, matrix.out),
            (GridCount("once", matrix.rows, TILE), build.count("token", mixture.chosen)),
        )


def _parts(build: Builder, mixture: _Mixture) -> Iterator[tuple[int, int, str]]:
    """(first expert, experts, name) of the parts that can be bound: whole experts."""
    stride = mixture.places.stride
    each = max(build.limits.binding // stride, 1)
    for start in range(0, mixture.count, each):
        count = min(each, mixture.count - start)
        yield start, count, build.part(mixture.weight, start * stride, count * stride)
