"""GatedDelta and ShortConv: recurrent layers, what they keep, and the rows that a kept path moves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edgedec.backends.gpu.build.builder import FLOAT, Builder
from edgedec.backends.gpu.program import (
    CHECKPOINT,
    ONCE,
    STATE,
    STEP_WORDS,
    TRAIL,
    WORD,
    GridCount,
    KernelStep,
)
from edgedec.backends.onnx.graph import OpNode
from edgedec.core.cache_kinds import TRAIL_SLOTS, States
from edgedec.core.model_spec import ModelSpec

_THREADS = 64
_COLUMNS = 32
"""Columns of a state that a workgroup takes, where they divide it; else half as many."""
_GATES = 3
"""Numbers of a step and head beside q, k and v: beta, the decay, k q."""


def state_layers(spec: ModelSpec) -> Iterator[tuple[States, str]]:
    """Yield the kind and the name of each recurrent layer, which follows ``TRAIL``, ``STATE`` and others."""
    return ((kind, f"{kind.name}.{layer}") for kind in spec.states for layer in range(kind.layers))


def declare_states(build: Builder) -> None:
    """Declare what recurrent layers keep."""
    for kind, layer in state_layers(build.spec):
        build.scratch(f"{TRAIL}{layer}", "once", TRAIL_SLOTS * kind.trail * FLOAT)
        if kind.state:
            build.scratch(f"{STATE}{layer}", "once", kind.state * FLOAT)
        if kept := kind.tail * kind.trail + kind.state:
            build.scratch(f"{CHECKPOINT}{layer}", "once", kept * FLOAT)


def moving_trails(build: Builder) -> tuple[KernelStep, ...]:
    """Return the steps that keep a path of the last pass in the trails."""
    return tuple(
        KernelStep(
            "recurrent/move_rows",
            {"ROW": kind.trail},
            ("@kept", f"{TRAIL}{layer}"),
            (GridCount("once", kind.trail, _THREADS), ONCE, ONCE),
        )
        for kind, layer in state_layers(build.spec)
    )


def gated_delta(build: Builder, node: OpNode) -> None:
    """Build the recurrence of one layer: ingredients of each step, the trail, the steps, the norm."""
    k_heads, v_heads, k_dim, v_dim = (node.integer(name) for name in ("k_heads", "v_heads", "k_dim", "v_dim"))
    tokens, out = node.input(0), node.outputs[0]
    channels, values = 2 * k_heads * k_dim + v_heads * v_dim, v_heads * v_dim
    row, layer = channels + 2 * v_heads, _layer_name(node)
    trail, steps = f"{TRAIL}{layer}", _listed_steps(build)
    have, copies, read = (f"{out}.{name}" for name in ("ingredients", "copies", "read"))
    build.scratch(have, "step", v_heads * (2 * k_dim + v_dim + _GATES) * FLOAT)
    build.scratch(copies, "once", _most_copies(build, node) * v_heads * k_dim * v_dim * FLOAT)
    build.scratch(read, "token", values * FLOAT)
    build.made(out, "token", values)
    build.step(
        "gated_delta/ingredients",
        {
            "K_HEADS": k_heads,
            "V_HEADS": v_heads,
            "K_DIM": k_dim,
            "V_DIM": v_dim,
            "TAPS": node.integer("kernel"),
            "TRAIL_ROW": row,
            "TOKEN_ROW": row + values,
            "SCALE": float(np.float32(1) / np.sqrt(np.float32(k_dim))),
            "TILED": bool(node.integer("tiled")),
        },
        (tokens, steps, trail, *(build.weight(node.input(number)) for number in (6, 7, 8)), have),
        (GridCount("once", v_heads), GridCount("steps")),
    )
    _write_trail(build, tokens, trail, (row, channels, values))
    columns = _COLUMNS if v_dim % _COLUMNS == 0 else _COLUMNS // 2
    build.step(
        "gated_delta/gated_delta",
        {"V_HEADS": v_heads, "K_DIM": k_dim, "V_DIM": v_dim, "COLUMNS": columns},
        (steps, have, f"{STATE}{layer}", copies, read),
        (GridCount("once", v_dim, columns), GridCount("once", v_heads)),
    )
    build.step(
        "gated_delta/norm",
        {
            "V_HEADS": v_heads,
            "V_DIM": v_dim,
            "TOKEN_ROW": row + values,
            "CHANNELS": channels,
            "EPSILON": node.real("epsilon"),
        },
        (read, tokens, build.weight(node.input(9)), out),
        (GridCount("once", v_heads), GridCount("tokens")),
    )


def short_conv(build: Builder, node: OpNode) -> None:
    """Build the gated convolution of one layer: products, convolution, the trail."""
    projected, out, conv = node.input(0), node.outputs[0], build.weight(node.input(5))
    hidden = build.stored(conv).dims[0]
    products, trail = f"{out}.products", f"{TRAIL}{_layer_name(node)}"
    build.scratch(products, "token", hidden * FLOAT)
    build.made(out, "token", hidden)
    grid = (GridCount("once", hidden, _THREADS), GridCount("tokens"))
    build.step("short_conv/products", {"HIDDEN": hidden}, (projected, products), grid)
    build.step(
        "short_conv/short_conv",
        {"HIDDEN": hidden, "TAPS": node.integer("kernel"), "TRAIL_ROW": hidden, "TOKEN_ROW": hidden},
        (projected, products, _listed_steps(build), trail, conv, out),
        grid,
    )
    _write_trail(build, products, trail, (hidden, hidden, 0))


def _layer_name(node: OpNode) -> str:
    """The kind of a recurrent layer, by the name of its trail, and its number."""
    return f"{node.input(4).removesuffix('_trail')}.{node.integer('layer')}"


def _listed_steps(build: Builder) -> str:
    return build.scratch("@steps", "step", STEP_WORDS * WORD)


def _most_copies(build: Builder, node: OpNode) -> int:
    """States that steps of a tree begin from, beside those that follow the step before.

    Two tokens of a tree that branches have none below them.
    """
    undone = TRAIL_SLOTS - (node.integer("kernel") - 1)
    return max(min(undone, build.limits.max_pass) - 2, 1)


def _write_trail(build: Builder, tokens: str, trail: str, sizes: tuple[int, int, int]) -> None:
    row, first, skip = sizes
    build.step(
        "recurrent/write_trail",
        {"ROW": row, "FIRST": first, "SKIP": skip},
        (tokens, trail),
        (GridCount("once", row, _THREADS), GridCount("tokens")),
    )
