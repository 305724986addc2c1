"""The reference forward pass: causal, windowed, and (slow suite) equal to llama.cpp's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.reference.model import reference_logits

TOKENS = [3, 9, 270, 41, 5, 5, 100, 17, 260, 33, 8, 64, 12, 250, 7, 90, 11, 2, 4, 6, 201, 202, 77, 30]
SHAPES = {
    "llama": TinyShape(layers=3),
    "smollm3": TinyShape(layers=5),
    "qwen2": TinyShape(layers=3),
    "qwen3": TinyShape(layers=3),
    "qwen3vl": TinyShape(layers=3),
    "mistral3": TinyShape(layers=3),
    "gemma2": TinyShape(layers=3),
    "gemma3": TinyShape(layers=7),
    "gemma4": TinyShape(layers=7),
    "phi3": TinyShape(layers=3),
    "qwen35": TinyShape(layers=5, head_dim=32),
    "lfm2": TinyShape(layers=5),
}


@pytest.mark.parametrize("architecture", SHAPES)
def test_a_token_sees_only_what_came_before(architecture: str, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", architecture, shape=SHAPES[architecture])
    whole = reference_logits(path, TOKENS, dtype=np.float64)
    np.testing.assert_allclose(reference_logits(path, TOKENS[:7], dtype=np.float64), whole[:7], atol=1e-10)
    changed = reference_logits(path, [*TOKENS[:6], 99, *TOKENS[7:]], dtype=np.float64)
    np.testing.assert_allclose(changed[:6], whole[:6], atol=1e-10)
    assert np.abs(changed[7] - whole[7]).max() > 1e-3


def test_a_window_hides_what_is_behind_it(tmp_path: Path) -> None:
    """One local layer with window 8: position 8 no longer sees token 0, position 7 does."""
    path = write_tiny(tmp_path / "m.gguf", "gemma3", shape=TinyShape(layers=1, window=8))
    whole = reference_logits(path, TOKENS, dtype=np.float64)
    changed = reference_logits(path, [99, *TOKENS[1:]], dtype=np.float64)
    assert np.abs(changed[7] - whole[7]).max() > 1e-3
    np.testing.assert_allclose(changed[8:], whole[8:], atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["llama", "qwen3", "mistral3", "qwen3vl"])
def test_llama_cpp_agrees(architecture: str, tmp_path: Path) -> None:
    """It rounds keys and values to fp16."""
    llama = pytest.importorskip("llama_cpp")
    path = write_tiny(
        tmp_path / "m.gguf", architecture, formats="f32", shape=TinyShape(layers=3, head_dim=32)
    )
    model = llama.Llama(str(path), n_ctx=256, n_threads=1, logits_all=True, verbose=False)
    tokens = TOKENS * 4
    model.eval(tokens)
    got, expected = model.scores[: len(tokens)], reference_logits(path, tokens, dtype=np.float64)
    np.testing.assert_allclose(got, expected, atol=2e-3 * np.abs(expected).max())
    assert (got.argmax(axis=1) == expected.argmax(axis=1)).all()
