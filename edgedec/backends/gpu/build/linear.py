"""QuantLinear and GatedMLP: activations are quantised once, then each weight is a step of its own."""

from __future__ import annotations

from collections.abc import Iterator

from edgedec.backends.gpu.build.builder import Builder, Level
from edgedec.backends.gpu.formats import FLOAT_KINDS, activation_groups, constants
from edgedec.backends.gpu.program import TRIM_TILES, GridCount, When
from edgedec.backends.gpu.shaders import Const
from edgedec.backends.onnx.graph import OpNode
from edgedec.core.quick_dataclass import dataclass
from edgedec.kernels.packing.formats import FORMATS, TILE

_ROWS = 16
"""Rows of activations that share the weights of a workgroup; for one token as many as it has terms."""
_FEW = 32
"""Tokens of a pass up to which ``quant_linear`` computes it; ``tiles`` computes longer ones."""
_TILE_ROWS = 64
"""Rows of activations of a workgroup of ``tiles``."""
_TOKENS = 16
"""Tokens of a workgroup of ``float_linear``."""
_GROUPS_AT_ONCE = 8
_ACTS_BYTES = 48
"""Bytes of a quantised group of activations."""
_THREADS = 64


ACTIVATIONS = {"silu": 0, "gelu_tanh": 1, "clamped_silu": 2}
"""The constant ``ACTIVATION`` of ``gated_mlp/activation.wgsl``."""


@dataclass(frozen=True, slots=True)
class Gated:
    """The other side of a gated product: a weight of the same format and shape, and the activation."""

    up: str
    activation: int


@dataclass(frozen=True, slots=True)
class Product:
    """A weight in a product. ``first``: its first column in the output, which has ``stride`` columns.

    ``when``: the passes that have it; None: all that have its input. ``gated``: it is a gated MLP's.
    """

    weight: str
    format: str
    rows: int
    cols: int
    first: int
    stride: int
    terms: int
    when: When | None = None
    gated: Gated | None = None

    @property
    def integer(self) -> bool:
        """Whether activations are quantised for it."""
        return not FORMATS[self.format].is_float


def quant_linear(build: Builder, node: OpNode) -> None:
    """Build QuantLinear: products with each weight into columns of one output."""
    rows, cols = node.integers("rows"), node.integer("cols")
    formats = node.text("formats").split(",")
    stride, first = sum(rows), 0
    products = []
    for weight, format, count in zip(node.inputs[3:], formats, rows, strict=True):
        products.append(Product(weight, format, count, cols, first, stride, node.integer("terms", 1)))
        first += count
    out = build.made(node.outputs[0], build.level(node), stride)
    multiply(build, node.input(0), products, out, bias=node.input(1), residual=node.input(2))


def gated_mlp(build: Builder, node: OpNode) -> None:
    """Build GatedMLP: one step over both weights where they are of one format and each is bound whole.

    Two steps for devices that fuse none: one for the products, one for the activation.
    """
    level, columns, cols = build.level(node), node.integer("rows"), node.integer("cols")
    gate, up = node.text("formats").split(",")
    activation = ACTIVATIONS[node.text("activation")]
    out = node.outputs[0]
    fits = build.stored(node.inputs[1]).nbytes <= build.limits.binding
    if build.limits.fused and gate == up and fits:
        both_sides = Gated(node.inputs[2], activation)
        product = Product(node.inputs[1], gate, columns, cols, 0, columns, 1, gated=both_sides)
        multiply(build, node.input(0), [product], build.made(out, level, columns))
        return
    both = build.made(f"{out}.both", level, 2 * columns)
    products = [
        Product(weight, format, columns, cols, first, 2 * columns, 1)
        for weight, format, first in zip(node.inputs[1:3], (gate, up), (0, columns), strict=True)
    ]
    multiply(build, node.input(0), products, both)
    build.step(
        "gated_mlp/gated_mlp",
        {"COLUMNS": columns, "ACTIVATION": activation, "EACH": 1},
        (both, build.made(out, level, columns)),
        (GridCount("once", columns, _THREADS), build.count(level)),
    )


def multiply(
    build: Builder, x: str, products: list[Product], out: str, *, bias: str = "", residual: str = ""
) -> None:
    """Build ``products`` of ``x`` into ``out``."""
    level = build.levels[out]
    terms = max((one.terms for one in products if one.integer), default=0)
    acts = quantised(build, x, products[0].cols, terms, level) if terms else ""
    for product in products:
        pieces = table_pieces(build, product.weight, product.format, product.rows, product.cols)
        for part, rows, weight in pieces:
            consts: dict[str, Const] = {
                "OUTPUTS": rows,
                "FIRST": product.first + part,
                "STRIDE": product.stride,
                "BIAS": bool(bias),
                "RESIDUAL": bool(residual),
                "HEAD": level == "row",
                "KEPT": product.when == "kept",
                "SIDES": 2 if product.gated else 1,
                "ACTIVATION": product.gated.activation if product.gated else 0,
            }
            added = TRIM_TILES if product.when == "kept" else build.weight(bias) if bias else weight
            if product.gated:
                added = build.weight(product.gated.up)
            when = product.when or _usual(level)
            made = _Made(consts, (weight, added, residual or weight, out), level, when)
            if product.integer:
                _integers(build, product, made, acts)
            else:
                _floats(build, product, made, x)


def quantised(build: Builder, x: str, cols: int, terms: int, level: Level, each: int = 1) -> str:
    """Build the quantised activations of ``x``, of ``each`` rows a token, and return their name."""
    acts = f"{x}.int8x{terms}"
    groups = activation_groups(cols)
    build.scratch(acts, level, each * terms * groups * _ACTS_BYTES)
    build.step(
        "quant_linear/quantise",
        {"COLS": cols, "GROUPS": groups, "TERMS": terms, "HEAD": level == "row", "EACH": each},
        (x, acts),
        (GridCount("once", groups, _GROUPS_AT_ONCE), build.count(level, each)),
        when=_usual(level),
    )
    return acts


@dataclass(frozen=True, slots=True)
class _Made:
    """A part of a weight in a product: constants of its kernel, and what this binds beside its input."""

    consts: dict[str, Const]
    bind: tuple[str, ...]
    level: Level
    when: When

    @property
    def tiles(self) -> GridCount:
        """Workgroups for its outputs."""
        if self.when == "kept":
            return GridCount("tiles")
        return GridCount("once", int(self.consts["OUTPUTS"]), TILE)


def _usual(level: Level) -> When:
    return "rows" if level == "row" else "always"


def _integers(build: Builder, product: Product, made: _Made, acts: str) -> None:
    weight, *rest = made.bind
    level, spec = made.level, FORMATS[product.format]
    consts = {
        **constants(product.format),
        "RECORDS": spec.records(product.cols),
        "GROUPS": activation_groups(product.cols),
        "TERMS": product.terms,
        **made.consts,
    }
    # A pass over one token has one row of the head at most; a prompt has few.
    few = min(_FEW, build.limits.max_pass) if level == "token" else build.limits.max_pass
    for tokens, rows in (((1, 1), product.terms), ((2, few), _ROWS)):
        build.step(
            "quant_linear/quant_linear",
            {**consts, "ROWS": rows},
            (weight, acts, *rest),
            (made.tiles, build.count(level, product.terms, rows)),
            tokens=tokens,
            when=made.when,
        )
    if few < build.limits.max_pass:
        build.step(
            "quant_linear/tiles",
            consts,
            (weight, acts, *rest),
            (
                GridCount("once", int(consts["OUTPUTS"]) * int(consts["SIDES"]), 2 * TILE),
                build.count(level, product.terms, _TILE_ROWS),
            ),
            tokens=(few + 1, build.limits.max_pass),
        )


def _floats(build: Builder, product: Product, made: _Made, x: str) -> None:
    weight, *rest = made.bind
    build.step(
        "quant_linear/float_linear",
        {"KIND": FLOAT_KINDS[product.format], "COLS": product.cols, **made.consts},
        (weight, x, *rest),
        (made.tiles, build.count(made.level, over=_TOKENS)),
        when=made.when,
    )


def table_pieces(
    build: Builder, name: str, format: str, rows: int, cols: int
) -> Iterator[tuple[int, int, str]]:
    """(first row, rows, name) of the parts of a weight that can be bound: whole tiles."""
    tile = FORMATS[format].packed_shape(rows, cols)[1]
    each = max(build.limits.binding // tile, 1) * TILE
    for first in range(0, rows, each):
        count = min(each, rows - first)
        yield first, count, build.part(name, first // TILE * tile, -(-count // TILE) * tile)
