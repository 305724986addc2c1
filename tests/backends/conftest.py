"""The backends that the contract test runs against."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgedec.backends.fake import MarkovForward
from edgedec.backends.onnx import OnnxForward
from edgedec.core.manifest import Manifest
from edgedec.core.types import Forward
from edgedec.export import export_gguf
from tests.fixtures.tiny_gguf import write_tiny

Make = Callable[..., Forward]


@pytest.fixture(scope="session")
def tiny_bundle(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Export a tiny random model of an architecture, once."""
    made: dict[str, Path] = {}

    def bundle(architecture: str) -> Path:
        if architecture not in made:
            folder = tmp_path_factory.mktemp(architecture)
            made[architecture] = folder / "bundle"
            export_gguf(write_tiny(folder / "tiny.gguf", architecture), made[architecture])
        return made[architecture]

    return bundle


@pytest.fixture(params=["markov", "llama", "qwen2", "gemma2", "gemma3"])
def make(request: pytest.FixtureRequest, tiny_bundle: Callable[[str], Path]) -> Make:
    """``make(capacity=64)``: a fresh forward of the parametrised kind."""

    def fresh(capacity: int = 64) -> Forward:
        if request.param == "markov":
            return MarkovForward(capacity=capacity, vocab_size=100)
        bundle = tiny_bundle(request.param)
        return OnnxForward(bundle, Manifest.load(bundle), threads=2, capacity=capacity, spin=False)

    return fresh
