"""The backends that the contract test runs against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.decoder import DecoderForward
from edgedec.backends.fake import MarkovForward
from edgedec.backends.onnx import OnnxForward
from edgedec.core.manifest import Manifest
from edgedec.core.types import Forward, HeadRows
from edgedec.export import export_gguf
from tests.fixtures.tiny_decoder import write_decoder_bundle
from tests.fixtures.tiny_gguf import write_tiny

EXACT = ("markov", "llama", "qwen2", "gemma2", "gemma3")


@dataclass(frozen=True)
class Make:
    """``make(capacity=64)``: a fresh forward of one kind."""

    fresh: Callable[[int], Forward]
    exact: bool = True

    def __call__(self, capacity: int = 64) -> Forward:
        return self.fresh(capacity)

    def same(self, a: HeadRows, b: HeadRows) -> bool:
        """Equal in every bit; nearly, for a forward that does not claim to be exact."""
        fields = ("values", "ids", "logsumexp", "entropy")
        pairs = [(getattr(a, name), getattr(b, name)) for name in fields]
        if (a.logits is None) != (b.logits is None):
            return False
        if a.logits is not None:
            pairs.append((a.logits, b.logits))
        if self.exact:
            return all(x.tobytes() == y.tobytes() for x, y in pairs)
        return all(x.shape == y.shape and np.allclose(x, y, rtol=0, atol=1e-5) for x, y in pairs)


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


@pytest.fixture(params=[*EXACT, "optimum"])
def make(request: pytest.FixtureRequest) -> Make:
    """Of the parametrised kind."""
    return _make(request)


@pytest.fixture(params=EXACT)
def make_trees(request: pytest.FixtureRequest) -> Make:
    """Of those that run trees."""
    return _make(request)


@pytest.fixture(scope="session")
def decoder_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random decoder, as optimum would export it, in a bundle."""
    return write_decoder_bundle(tmp_path_factory.mktemp("decoder") / "bundle")


def _make(request: pytest.FixtureRequest) -> Make:
    kind = request.param
    if kind == "markov":
        return Make(lambda capacity: MarkovForward(capacity=capacity, vocab_size=100))
    if kind == "optimum":
        bundle = request.getfixturevalue("decoder_bundle")
        manifest = Manifest.load(bundle)
        return Make(
            lambda capacity: DecoderForward(bundle, manifest, threads=2, capacity=capacity, spin=False),
            exact=False,
        )
    bundle = request.getfixturevalue("tiny_bundle")(kind)
    manifest = Manifest.load(bundle)
    return Make(lambda capacity: OnnxForward(bundle, manifest, threads=2, capacity=capacity, spin=False))
