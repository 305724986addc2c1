"""The attention of one layer in standard ops, over a cache whose rows of the pass are written first.

Keys lie in their slots before they are read. So a token's sums run over the same slots in the same order,
however the text was cut into passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from edgedec.core.errors import UnsupportedError
from edgedec.export.model import PackedWeight
from edgedec.export.npu.static_graph import (
    LOCAL_MASK,
    MASK,
    SLOTS,
    Matrix,
    StaticGraph,
    cache_names,
    new_names,
)

Norm = Callable[[str, str, str, float], str]
"""Adds a norm of a value by a weight under a name, with an epsilon, and returns its name."""


class Heads:
    """The attention of the next layer of ``graph``.

    ``joined``: the values of which queries, keys and values were concatenated, if they were.
    """

    def __init__(
        self,
        graph: StaticGraph,
        node: onnx.NodeProto,
        attrs: dict[str, Any],
        joined: list[str] | None,
        norm: Norm,
    ) -> None:
        self.graph, self.node, self.attrs, self.joined, self.norm = graph, node, attrs, joined, norm
        self.layer = graph.layers
        self.heads, self.kv, self.dim = attrs["num_heads"], attrs["num_kv_heads"], attrs["head_dim"]
        self.name = node.output[0]

    def build(self) -> None:
        """Add the nodes."""
        graph, name = self.graph, self.name
        tokens, slots, group = graph.tokens, graph.slots, self.heads // self.kv
        q, k, v = self._inputs()
        q = self._rotated(q, "q", self.heads)
        k = self._rotated(k, "k", self.kv)
        v = graph.reshape(v, f"{name}.v.rows", tokens, self.kv, self.dim)
        names = new_names(self.layer)
        keys, values = (
            self._cached(x, cached, new)
            for x, cached, new in zip((k, v), cache_names(self.layer), names, strict=True)
        )
        graph.outputs += names
        q = graph.op("Transpose", [q], f"{name}.q.heads", perm=[1, 0, 2])
        q = graph.reshape(q, f"{name}.q.groups", self.kv, group * tokens, self.dim)
        across = graph.op("Transpose", [keys], f"{name}.keys.across", perm=[0, 2, 1])
        scores = graph.op("MatMul", [q, across], f"{name}.scores")
        if cap := float(self.attrs.get("softcap", 0.0)):
            scores = graph.capped(scores, f"{name}.capped", cap)
        mask = LOCAL_MASK if self.attrs["window"] else MASK
        graph.take(mask, TensorProto.FLOAT, [1, group * tokens, slots])
        scores = graph.op("Add", [scores, mask], f"{name}.masked")
        weights = graph.op("Softmax", [scores], f"{name}.weights", axis=-1)
        mixed = graph.op("MatMul", [weights, values], f"{name}.mixed")
        mixed = graph.reshape(mixed, f"{name}.mixed.heads", self.heads, tokens, self.dim)
        mixed = graph.op("Transpose", [mixed], f"{name}.mixed.rows", perm=[1, 0, 2])
        graph.reshape(mixed, name, tokens, self.heads * self.dim)

    def _inputs(self) -> list[str]:
        """Return q, k and v; matrices give q scaled, and pairs of rotated elements half a head apart."""
        found = self.joined or self._split()
        normed = bool(len(self.node.input) > 5 and self.node.input[5])
        producers = {made.output[0]: made for made in self.graph.nodes}
        for value, count, scale in ((found[0], self.heads, self.attrs["scale"]), (found[1], self.kv, 1.0)):
            gemm = producers[value]
            order = self._order(count) if self.attrs["interleaved"] else None
            factor = 1.0 if normed else float(scale)
            old = self.graph.matrices[gemm.input[1]]
            self.graph.matrices[gemm.input[1]] = Matrix(old.weight, order, factor)
            if len(gemm.input) > 2:
                bias = self.graph.vectors[gemm.input[2]]
                ordered = bias if order is None else bias[order]
                self.graph.vector(gemm.input[2], ordered * np.float32(factor))
        return found

    def _split(self) -> list[str]:
        """Replace one matrix of queries, keys and values by three."""
        gemm = self.graph.nodes.pop()
        whole = self.graph.matrices.pop(gemm.input[1]).weight
        found, first = [], 0
        for part, heads in (("q", self.heads), ("k", self.kv), ("v", self.kv)):
            rows, name = heads * self.dim, f"{gemm.output[0]}.{part}"
            order = None if whole.order is None else whole.order[first : first + rows]
            start = whole.first + (first if order is None else 0)
            self.graph.matrices[f"{name}.weight"] = Matrix(PackedWeight(whole.tensor, start, rows, order))
            found.append(self.graph.op("Gemm", [gemm.input[0], f"{name}.weight"], name, transB=1))
            first += rows
        return found

    def _order(self, heads: int) -> NDArray[np.int64]:
        """Return the order of rows in which the pairs (2i, 2i + 1) of each head become (i, i + d/2)."""
        head = np.concatenate([np.arange(0, self.dim, 2), np.arange(1, self.dim, 2)])
        rows: NDArray[np.int64] = (np.arange(heads)[:, None] * self.dim + head).ravel()
        return rows

    def _rotated(self, x: str, part: str, heads: int) -> str:
        """Return rows of heads, normed where the model does so, and rotated: [N, heads, d]."""
        graph, name, tokens = self.graph, f"{self.name}.{part}", self.graph.tokens
        x = graph.reshape(x, f"{name}.rows", tokens, heads, self.dim)
        norms = dict(zip("qk", self.node.input[5:7], strict=False))
        if norms.get(part):
            if self.attrs["interleaved"]:
                raise UnsupportedError(
                    "heads that are normed and rotated in neighbours have no form for an NPU"
                )
            # As a matrix: the HTP computes norms of three dimensions wrongly, and says nothing.
            flat = graph.reshape(x, f"{name}.flat", tokens * heads, self.dim)
            flat = self.norm(flat, norms[part], f"{name}.normed", self.attrs["epsilon"])
            x = graph.reshape(flat, f"{name}.normed.rows", tokens, heads, self.dim)
            if part == "q":
                graph.vector(norms[part], graph.vectors[norms[part]] * np.float32(self.attrs["scale"]))
        table = self.node.input[1]
        cos, sin = (
            graph.take(f"{table}.{kind}", TensorProto.FLOAT, [tokens, 1, self.dim]) for kind in ("cos", "sin")
        )
        halves = [f"{name}.first", f"{name}.second"]
        half = graph.whole("half", [self.dim // 2, self.dim // 2])
        graph.nodes.append(helper.make_node("Split", [x, half], halves, f"{name}.split", axis=2))
        swapped = graph.op("Concat", halves[::-1], f"{name}.swapped", axis=2)
        straight = graph.op("Mul", [x, cos], f"{name}.straight")
        crossed = graph.op("Mul", [swapped, sin], f"{name}.crossed")
        return graph.op("Add", [straight, crossed], f"{name}.rotated")

    def _cached(self, x: str, cached: str, new: str) -> str:
        """Return the cache with the rows of the pass in their slots; the rows are an output."""
        graph = self.graph
        graph.within = f"{self.name}."
        rows = graph.op("Transpose", [x], new, perm=[1, 0, 2])
        graph.take(cached, TensorProto.FLOAT, [self.kv, graph.slots, self.dim])
        graph.take(SLOTS, TensorProto.INT64, [self.kv, graph.tokens, 2])
        both = graph.op("ScatterND", [cached, SLOTS, rows], f"{cached}.all")
        graph.within = ""
        return both
