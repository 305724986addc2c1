"""Recurrent ops on a GPU, called as the kernels' tests call a row: by the steps of a program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from edgedec.backends.gpu import inputs, shaders
from edgedec.backends.gpu.build.builder import Builder, BuildLimits
from edgedec.backends.gpu.build.recurrent import declare_states, gated_delta, short_conv
from edgedec.backends.gpu.device import GpuDevice
from edgedec.backends.gpu.inputs import GpuPass
from edgedec.backends.gpu.program import STATE, TRAIL, Grid, PassSizes
from edgedec.backends.onnx.graph import GraphTensor, OpGraph, OpNode
from edgedec.core.cache_kinds import States
from edgedec.core.model_spec import ModelSpec
from tests.gpu.cases import Array, KernelCase, empty
from tests.gpu.chain import ChainStep, follow
from tests.kernels.float_rows import F32
from tests.kernels.gated_delta import Layer
from tests.kernels.recurrent import Memory
from tests.kernels.short_conv import ShortConvLayer

LONGEST = 128
_WRITTEN = re.compile(r"@binding\((\d+)\)\s*var<storage, read_write>")


@dataclass
class OnDevice:
    """A layer whose row "gpu" is a device; ``cases``: the kernels that ran, for other runners."""

    device: GpuDevice
    layer: Layer | ShortConvLayer
    cases: list[KernelCase] = field(default_factory=list)

    @property
    def taps(self) -> int:
        return self.layer.taps

    @property
    def trail(self) -> int:
        return self.layer.trail

    @property
    def state(self) -> int:
        return self.layer.state

    @property
    def outputs(self) -> int:
        return self.layer.outputs

    def tokens(self, count: int) -> F32:
        return self.layer.tokens(count)

    def rows(self, tokens: F32) -> F32:
        return self.layer.rows(tokens)

    def call(self, row: str, memory: Memory, tokens: F32, parents: Sequence[int], out: F32) -> int:
        if row != "gpu":
            return self.layer.call(row, memory, tokens, parents, out)
        build = self._built()
        behind = memory.length - memory.applied if self.state else 0
        fed = GpuPass(range(len(tokens)), (), list(parents), memory.length, (), behind=behind)
        sizes = PassSizes(len(tokens), 0, steps=behind + len(tokens))
        names = dict(zip(build.graph.tensors, self.layer.weights(), strict=True))
        buffers: dict[str, Array] = {name: empty(self._floats(build, name, sizes)) for name in build.buffers}
        trail, state = f"{TRAIL}kind.0", f"{STATE}kind.0"
        buffers |= {**names, "tokens": tokens, "@steps": inputs.steps(fed, self.taps), trail: memory.trail}
        if self.state:
            buffers[state] = memory.state
        steps = [
            ChainStep(one.kernel, one.consts, one.bind, written(one.kernel, one.bind), _grid(one.grid, sizes))
            for one in build.steps
        ]
        facts = {"tokens": len(tokens), "length": memory.length, "behind": behind}
        self.cases += follow(self.device, steps, buffers, facts)
        memory.trail[:], out[:] = buffers[trail], buffers["out"].reshape(out.shape)
        if self.state:
            memory.state[:] = buffers[state]
        return 0

    def _built(self) -> Builder:
        layer, attributes = self.layer, {"layer": 0, "kernel": self.layer.taps}
        weights = {f"weight{i}": one for i, one in enumerate(layer.weights())}
        tensors = {
            name: GraphTensor(one.shape, nbytes=one.nbytes, data=one.tobytes())
            for name, one in weights.items()
        }
        names = ("tokens", "parents", "length", "applied", "kind_trail")
        kind = States("kind", 1, layer.trail, layer.taps - 1, layer.state)
        build = Builder(
            OpGraph((), tensors),
            ModelSpec("toy", "toy", 8, 1, 1, 1, 16, 16, 64, caches=(kind,)),
            BuildLimits(64, LONGEST, 1 << 27),
        )
        declare_states(build)
        if isinstance(layer, ShortConvLayer):
            short_conv(build, OpNode("ShortConv", (*names, *weights), ("out",), attributes))
            return build
        sizes = {name: getattr(layer, name) for name in ("k_heads", "v_heads", "k_dim", "v_dim")}
        node = attributes | sizes | {"tiled": int(layer.tiled), "epsilon": 1e-6}
        gated_delta(build, OpNode("GatedDelta", (*names, "kind_state", *weights), ("out",), node))
        return build

    @staticmethod
    def _floats(build: Builder, name: str, sizes: PassSizes) -> int:
        size = build.buffers[name]
        return size.bytes // 4 * {"once": 1, "token": sizes.tokens, "step": sizes.steps}[size.per]


def written(kernel: str, bind: Sequence[str]) -> list[str]:
    """Names of the buffers that a kernel writes."""
    text = "".join(map(shaders.text, shaders.parts(kernel)))
    return [bind[int(number) - 1] for number in _WRITTEN.findall(text)]


def _grid(grid: Grid, sizes: PassSizes) -> tuple[int, int, int]:
    x, y, z = (count.of(sizes) for count in grid)
    return x, y, z
