"""Sources of shaders: constants by their bits, the files of the prelude in order."""

from __future__ import annotations

import pytest

from edgedec.backends.gpu import shaders

NATIVE = dict.fromkeys(shaders.PRIMITIVES, shaders.NATIVE)


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (576, "const N: u32 = 576u;"),
        (True, "const N: bool = true;"),
        (1e-5, "const N: f32 = 0x1.4f8b580000000p-17f;"),
        (-0.0, "const N: f32 = -0x0.0p+0f;"),
    ],
)
def test_a_constant_is_one_line(value: shaders.Const, line: str) -> None:
    assert shaders.constant("N", value) == line


@pytest.mark.parametrize("primitive", shaders.PRIMITIVES)
def test_each_primitive_has_both_variants(primitive: str) -> None:
    for variant in (shaders.NATIVE, shaders.EXACT):
        files = shaders.prelude(NATIVE | {primitive: variant})
        assert f"wgsl/{primitive}_{variant}" in files
        assert all(shaders.text(name) for name in files)


def test_constants_come_first_and_the_kernel_last() -> None:
    text = shaders.source("wgsl/math", {"ROWS": 3}, NATIVE)
    assert text.startswith("const ROWS: u32 = 3u;\n// The first file")
    assert text.endswith(shaders.text("wgsl/math"))
