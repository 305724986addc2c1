"""GatedDelta and ShortConv in WGSL have the bits of the scalar row: cuts, trees, trails and states."""

from __future__ import annotations

import numpy as np
import pytest

from edgedec.backends.gpu import shaders
from edgedec.backends.gpu.device import Dispatch, GpuDevice, Slice
from tests.fixtures.nightly import diagonal
from tests.gpu import cases
from tests.gpu.recurrent import OnDevice
from tests.kernels.float_rows import F32, call, same_bits
from tests.kernels.gated_delta import Layer
from tests.kernels.recurrent import Memory, undone
from tests.kernels.short_conv import ShortConvLayer
from tests.kernels.test_tree_attention import random_tree

LAYERS: list[Layer | ShortConvLayer] = [
    Layer(),
    Layer(k_heads=1, v_heads=1, v_dim=16),
    Layer(k_heads=2, v_heads=6, k_dim=32, v_dim=32, tiled=True, seed=1),
    Layer(k_heads=2, v_heads=2, k_dim=16, v_dim=64, taps=1, seed=3),
    Layer(k_heads=1, v_heads=2, k_dim=48, v_dim=80, taps=8, seed=4),
    ShortConvLayer(),
    ShortConvLayer(hidden=80, taps=1, seed=2),
    ShortConvLayer(hidden=32, taps=8, seed=3),
]


class Both:
    """The same passes on the scalar row and on a device, which must leave the same bits."""

    def __init__(self, device: GpuDevice, layer: Layer | ShortConvLayer) -> None:
        self.layer = OnDevice(device, layer)
        self.memories = [Memory(self.layer), Memory(self.layer)]

    def run(self, tokens: F32, parents: list[int] | None = None) -> F32:
        pairs = zip(self.memories, ("scalar", "gpu"), strict=True)
        expected, got = (memory.run(row, tokens, parents) for memory, row in pairs)
        first, second = self.memories
        assert same_bits(got, expected)
        assert same_bits(second.state, first.state)
        assert same_bits(second.trail, first.trail)
        return got

    def keep(self, path: list[int]) -> None:
        for memory in self.memories:
            memory.keep(path)

    @property
    def length(self) -> int:
        return self.memories[0].length


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_a_text_in_pieces_and_trees_whose_paths_are_kept(
    layer: Layer | ShortConvLayer, device: GpuDevice
) -> None:
    both, text = Both(device, layer), layer.tokens(140)
    for count in (1, 5, 25, 70):
        both.run(text[both.length :][:count])
    both.run(text[both.length :][:7], [-1, -1, 0, 0, 2, 1, 4])
    both.keep([0, 2, 4])
    both.run(text[both.length :][:16], random_tree(3, 16))
    both.keep([0])
    both.run(text[both.length :][:2])


@pytest.mark.parametrize(("layer", "length"), diagonal(LAYERS[:4], [0, 2, 31]), ids=str)
def test_a_tree_by_levels_has_a_copy_of_each_state_above_the_last(
    layer: Layer, length: int, device: GpuDevice
) -> None:
    """Chains side by side: no step follows the one before."""
    both, width = Both(device, layer), 2
    text = layer.tokens(length + undone(layer))
    if length:
        both.run(text[:length])
    tokens = text[length:]
    both.run(tokens, [-1] * width + list(range(len(tokens) - width)))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, -3e38])
def test_strange_numbers_do_the_same_harm(value: float, device: GpuDevice) -> None:
    layer = Layer()
    for place in (0, layer.channels, layer.width - layer.v_heads - 1, layer.width - 1):
        tokens = layer.tokens(4)
        tokens[2, place] = np.float32(value)
        Both(device, layer).run(tokens)


@pytest.mark.slow
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_thousands_of_steps_in_trees_of_any_shape(layer: Layer | ShortConvLayer, device: GpuDevice) -> None:
    for seed in range(12):
        rng, both, text = np.random.default_rng(seed), Both(device, layer), layer.tokens(260)
        while both.length < 160:
            both.run(text[both.length :][: int(rng.choice([1, 2, 29, 30, 33, 64]))])
            tree = random_tree(seed, int(rng.integers(1, undone(layer))))
            both.run(text[both.length :][: len(tree)], tree)
            both.keep([0])


_LOGARITHMS = """
@group(0) @binding(1) var<storage, read> given: array<u32>;
@group(0) @binding(2) var<storage, read_write> found: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  found[id.x] = log_one_plus(bitcast<f32>(given[id.x]));
}
"""


def test_the_logarithm_of_the_gate_is_that_of_the_cpu(device: GpuDevice) -> None:
    """Two numbers are on the other side of the middle between two floats, which the kernel knows."""
    bits = np.random.default_rng(0).integers(0x24000000, 0x3F800001, 64 * 500).astype(np.uint32)
    bits[:5] = 0x3710001B, 0x3EFD81AD, 0, 1, 0x3F800000
    wide = 1.0 + bits.view(np.float32).astype(np.float64)
    expected = np.empty_like(wide)
    assert call("edgedec_math_log", "scalar", wide, expected, len(wide)) == 0
    variants = cases.arithmetic(device).variants
    parts = [shaders.text(name) for name in (*shaders.prelude(variants), "gated_delta/log")]
    kernel = device.kernel("logarithms", "\n".join([*parts, _LOGARITHMS]))
    uniform = device.uniform(cases.PASS.itemsize)
    device.write(uniform, bytes(cases.PASS.itemsize))
    given, found = (Slice(device.buffer(bits.nbytes), 0, bits.nbytes) for _ in range(2))
    device.write(given.buffer, bits)
    group = device.bound(kernel, uniform, [given, found])
    (answer,) = device.run([Dispatch(kernel, group, (len(bits) // 64, 1, 1))], [found])
    assert same_bits(np.frombuffer(answer, np.float32), expected.astype(np.float32))
