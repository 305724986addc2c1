"""Bodies of the recurrent ops, for one sequence.

A function cannot write its inputs. Where a kernel writes the trail and the state, a body returns the rows of
all tokens of the pass, f32[1, T, row], and the state after it, f32[1, 1, state]. The caller stores the last
32 rows in the trail, slot s in row s modulo 32, and the state. ``kernels/recurrent/steps.h`` says which
tokens that state covers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from edgedec.core.cache_kinds import TRAIL_SLOTS
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.portable.body import Body

_END = np.iinfo(np.int64).max


def gated_delta(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """Compute a Gated DeltaNet layer: convolve all tokens at once, then apply them one by one."""
    projected, *_, state, conv, decay, dt_bias, norm = inputs
    v_heads, k_dim, v_dim = (attrs[name] for name in ("v_heads", "k_dim", "v_dim"))
    values = v_heads * v_dim
    channels = 2 * attrs["k_heads"] * k_dim + values
    qkv, z, gates = body.node(
        "Split", [projected, body.constant([channels, values, 2 * v_heads])], 3, "", axis=1
    )
    rows = body.op("Concat", qkv, gates, axis=1)
    path = _Path.of(body, inputs, rows, attrs["kernel"])
    heads = _qkv(body, attrs, _silu(body, path.convolved(body, conv, attrs["kernel"])))
    own = body.op("Gather", path.rows, path.own, axis=0)
    beta = body.op("Sigmoid", body.slice(own, channels, channels + v_heads, 1))
    a = body.op("Add", body.slice(own, channels + v_heads, channels + 2 * v_heads, 1), dt_bias)
    factor = body.op("Exp", body.op("Mul", decay, body.op("Softplus", a)))
    starts = body.op("Concat", body.attribute("layer"), [0], axis=0)
    before = body.op("Slice", state, starts, body.op("Add", starts, [1, 1]), [0, 1])
    before = body.reshape(before, 1, v_heads, k_dim, v_dim)
    step = _step([*path.order(body, TRAIL_SLOTS - attrs["kernel"] + 1), *heads, beta, factor])
    count = body.op("Squeeze", path.count, [0])
    stack, out = body.node("Loop", [count, "", before], 2, "", body=step)
    out = body.op("Slice", out, body.op("Neg", path.tokens), [_END], [0])
    mean = body.op("ReduceMean", body.op("Mul", out, out), [-1], keepdims=1)
    out = body.op("Div", out, body.op("Sqrt", body.op("Add", mean, float(attrs["epsilon"]))))
    out = body.reshape(body.op("Mul", out, norm), 0, values)
    after = body.reshape(body.slice(stack, 0, 1, 0), 1, 1, v_heads * k_dim * v_dim)
    return [body.op("Mul", out, _silu(body, z)), body.op("Unsqueeze", rows, [0]), after]


def _qkv(body: Body, attrs: dict[str, Any], mixed: str) -> list[str]:
    """Return q and k f32[steps, value heads, dk], normed, and v f32[steps, value heads, dv]."""
    k_heads, v_heads, k_dim, v_dim = (attrs[name] for name in ("k_heads", "v_heads", "k_dim", "v_dim"))
    keys, heads = k_heads * k_dim, np.arange(v_heads)
    order = heads % k_heads if attrs.get("tiled") else heads // (v_heads // k_heads)
    parts = []
    for first, scale in ((0, float(k_dim**0.5)), (keys, 1.0)):
        x = body.reshape(body.slice(mixed, first, first + keys, 1), 0, k_heads, k_dim)
        squares = body.op("ReduceSum", body.op("Mul", x, x), [2], keepdims=1)
        x = body.op("Div", x, body.op("Mul", body.op("Sqrt", body.op("Add", squares, 1e-6)), scale))
        parts.append(body.op("Gather", x, order, axis=1))
    return [
        *parts,
        body.reshape(body.slice(mixed, 2 * keys, 2 * keys + v_heads * v_dim, 1), 0, v_heads, v_dim),
    ]


def short_conv(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """Compute a gated short convolution, whose trail holds the products that it convolves."""
    b, gate, x = body.node("Split", [inputs[0]], 3, "", axis=1, num_outputs=3)
    rows = body.op("Mul", b, x)
    path = _Path.of(body, inputs, rows, attrs["kernel"])
    mixed = path.convolved(body, inputs[5], attrs["kernel"])
    mixed = body.op("Slice", mixed, body.op("Neg", path.tokens), [_END], [0])
    return [body.op("Mul", gate, mixed), body.op("Unsqueeze", rows, [0])]


def _silu(body: Body, x: str) -> str:
    return body.op("Mul", x, body.op("Sigmoid", x))


@dataclass(frozen=True)
class _Path:
    """The steps of a pass: tokens that the trail holds and the state does not cover, then those of the pass.

    ``rows``: those of the trail that are read, then those of the pass. ``up``: the row before each row on its
    path. ``own``: the row of each of the ``count`` steps.
    """

    parents: str
    before: str
    rows: str
    up: str
    own: str
    tokens: str
    count: str

    @classmethod
    def of(cls, body: Body, inputs: list[str], tokens: str, taps: int) -> _Path:
        _, parents, length, applied, trail, *_ = inputs
        applied = body.slice(applied, 0, 1, 0)
        layer, count = body.attribute("layer"), body.size(parents, 0)
        trail = body.op("Slice", trail, layer, body.op("Add", layer, [1]), [0])
        trail = body.op("Squeeze", trail, [0])
        slots = _range(body, body.op("Sub", applied, [taps - 1]), length)
        stored = body.op("Gather", trail, body.op("Mod", slots, [TRAIL_SLOTS]), axis=0)
        early = body.op("Unsqueeze", body.op("Less", slots, [0]), [1])
        rows = body.op("Concat", body.op("Where", early, np.float32(0), stored), tokens, axis=0)
        kept = body.size(slots, 0)
        up = body.op(
            "Concat",
            _range(body, body.constant([-1]), body.op("Sub", kept, [1])),
            body.op("Add", parents, kept),
            axis=0,
        )
        own = _range(body, body.constant([taps - 1]), body.op("Add", kept, count))
        before = body.op("Sub", length, applied)
        steps = body.op("Add", before, count)
        return cls(parents, before, rows, body.op("Max", up, [0]), own, count, steps)

    def convolved(self, body: Body, conv: str, taps: int) -> str:
        """Return f32[steps, channels] of the convolution [channels, taps] that ends at each step."""
        rows = body.op("Slice", self.rows, [0], body.size(conv, 0), [1])
        index, total = self.own, ""
        for tap in reversed(range(taps)):
            term = body.op("Mul", body.op("Gather", rows, index, axis=0), body.element(conv, tap, 1))
            total = body.op("Add", total, term) if total else term
            index = body.op("Gather", self.up, index, axis=0)
        return total

    def order(self, body: Body, undone: int) -> tuple[str, str]:
        """Return, of each step, which of the kept states it begins from, and how many of those it keeps.

        The first kept state is that of the sequence. A step of a token that cannot be undone replaces it.
        """
        chain = body.op(
            "Equal", self.parents, _range(body, body.constant([-1]), body.op("Sub", self.tokens, [1]))
        )
        chain = body.op("ReduceMin", body.cast(chain, TensorProto.INT64), [0], keepdims=1)
        sure = body.op("Mul", chain, body.op("Max", body.op("Sub", self.tokens, [undone]), [0]))
        committed = body.op("Add", self.before, sure)
        parent = body.op(
            "Concat",
            _range(body, body.constant([-1]), body.op("Sub", self.before, [1])),
            body.op("Add", self.parents, self.before),
            axis=0,
        )
        source = body.op("Max", body.op("Add", body.op("Sub", parent, committed), [1]), [0])
        steps = _range(body, body.constant([0]), self.count)
        return source, body.op("Where", body.op("Less", steps, committed), [0], [_END])


def _range(body: Body, start: str, end: str) -> str:
    start, end = (body.op("Squeeze", value, [0]) for value in (start, end))
    return body.op("Range", start, end, np.int64(1))


def _step(given: list[str]) -> onnx.GraphProto:
    """Return a step of the recurrence on the kept states, which reads ``given`` from outside."""
    body = Body("step")
    source, kept, q, k, v, beta, factor = (body.op("Gather", x, "round", axis=0) for x in given)
    state = body.op("Gather", "stack", source, axis=0)
    state = body.op("Mul", state, body.op("Unsqueeze", factor, [1, 2]))
    remembered = body.op("MatMul", body.op("Unsqueeze", k, [1]), state)
    delta = body.op("Sub", body.op("Unsqueeze", v, [1]), remembered)
    delta = body.op("Mul", delta, body.op("Unsqueeze", beta, [1, 2]))
    state = body.op("Add", state, body.op("MatMul", body.op("Unsqueeze", k, [2]), delta))
    out = body.op("Squeeze", body.op("MatMul", body.op("Unsqueeze", q, [1]), state), [1])
    others = body.op("Slice", "stack", [0], body.op("Unsqueeze", kept, [0]), [0])
    stack = body.op("Concat", others, body.op("Unsqueeze", state, [0]), axis=0)
    more = body.op("Identity", "more")
    value = helper.make_tensor_value_info
    taken = [value("round", TensorProto.INT64, []), value("more", TensorProto.BOOL, [])]
    taken.append(value("stack", TensorProto.FLOAT, ["kept", "heads", "dk", "dv"]))
    results = [value(more, TensorProto.BOOL, []), value(stack, TensorProto.FLOAT, None)]
    return helper.make_graph(body.nodes, "step", taken, [*results, value(out, TensorProto.FLOAT, None)])
