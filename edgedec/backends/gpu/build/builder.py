"""Collects the steps of a program, and the buffers and tensors that they bind."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from edgedec.backends.gpu.build.views import Columns
from edgedec.backends.gpu.program import (
    ONCE,
    BufferSize,
    GridCount,
    KernelStep,
    LayerEnd,
    SizeUnit,
    TensorPlace,
    When,
)
from edgedec.backends.gpu.shaders import Const
from edgedec.backends.onnx.drafting import NO_EXITS, Exits
from edgedec.backends.onnx.graph import GraphTensor, OpGraph, OpNode
from edgedec.core.cache_config import KvType
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass

_MOST_ROWS = 16
"""Rows of the head at a time, as on the CPU."""
FLOAT = 4
"""Bytes of a float, and of a word."""
Level = Literal["token", "row"]
"""A value has a row for each token of the pass, or for each of those that the head reads."""


@dataclass(frozen=True, slots=True)
class BuildLimits:
    """Sizes that a program is made for, and the most bytes that a device binds at once."""

    capacity: int
    max_pass: int
    binding: int
    kv: KvType = "fp16"
    """Format of the KV cache."""
    drafting: Exits = NO_EXITS
    """Exits and layers to tap; where there are any, the head can be trimmed too."""
    fused: bool = True
    """Whether a gated MLP is one dispatch; see ``Adapter.fuses``."""

    @property
    def max_rows(self) -> int:
        """Rows of the head at a time."""
        return min(_MOST_ROWS, self.max_pass)


@dataclass
class Builder:
    """The program so far. ``at``: the level of the op that is built now."""

    graph: OpGraph
    spec: ModelSpec
    limits: BuildLimits
    tensors: dict[str, TensorPlace] = field(default_factory=dict)
    inline: dict[str, str] = field(default_factory=dict)
    buffers: dict[str, BufferSize] = field(default_factory=dict)
    steps: list[KernelStep] = field(default_factory=list)
    levels: dict[str, Level] = field(default_factory=dict)
    rotary_scale: dict[str, str] = field(default_factory=dict)
    layers: list[LayerEnd] = field(default_factory=list)
    columns: Mapping[str, Columns] = field(default_factory=dict)
    """Values that are parts of others' rows."""

    def level(self, node: OpNode) -> Level:
        """The level of an op: that of its first input."""
        return self.levels.get(node.input(0), "token")

    def count(self, level: Level, times: int = 1, over: int = 1) -> GridCount:
        """Workgroups for all rows of a level."""
        return GridCount("tokens" if level == "token" else "rows", times, over)

    def made(self, name: str, level: Level, row: int) -> str:
        """Declare a value of ``row`` floats (or words) a row, and return its name."""
        self.levels[name] = level
        return self.scratch(name, level, row * FLOAT)

    def scratch(self, name: str, per: SizeUnit, nbytes: int) -> str:
        """Declare a buffer and return its name."""
        self.buffers[name] = BufferSize(per, nbytes)
        return name

    def stored(self, name: str) -> GraphTensor:
        """Return a weight of the graph. Raises BadFileError where there is none of that name."""
        if name not in self.graph.tensors:
            raise BadFileError(f"the graph of the bundle has no tensor {name:.80}")
        return self.graph.tensors[name]

    def weight(self, name: str) -> str:
        """Bind a weight whole, and return its name. Raises UnsupportedError where no binding is that long."""
        stored = self.stored(name)
        if stored.nbytes > self.limits.binding:
            raise UnsupportedError(
                f"{name} takes {stored.nbytes} bytes; this GPU binds at most {self.limits.binding}",
                hint="use another GPU, or the CPU",
            )
        if stored.data is None:
            self.tensors[name] = TensorPlace(stored.offset, stored.nbytes)
        else:
            self.inline[name] = base64.b64encode(stored.data).decode("ascii")
        return name

    def part(self, name: str, offset: int, nbytes: int) -> str:
        """Bind bytes of a weight, and return the part's name."""
        stored = self.stored(name)
        if (offset, nbytes) == (0, stored.nbytes):
            return self.weight(name)
        part = f"{name}#{offset}"
        self.tensors[part] = TensorPlace(stored.offset + offset, nbytes)
        return part

    def step(
        self,
        kernel: str,
        consts: Mapping[str, Const],
        bind: tuple[str, ...],
        grid: tuple[GridCount, ...],
        *,
        tokens: tuple[int, int] | None = None,
        when: When = "always",
    ) -> None:
        """Append a step. ``grid``: one to three counts; the others are 1."""
        x, y, z = (*grid, ONCE, ONCE)[:3]
        self.steps.append(KernelStep(kernel, dict(consts), bind, (x, y, z), tokens, when))
