"""The backends that the contract test runs against."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgedec.backends.fake import MarkovForward
from edgedec.backends.npu.model import NpuModel
from edgedec.backends.onnx.model import OnnxModel
from edgedec.backends.open import open_backend
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.forward import Forward
from edgedec.core.rows import FloatArray, HeadRows
from edgedec.export import export_gguf
from edgedec.memory import KvType
from tests.backends.fake_llama import fake_llama
from tests.backends.npu_bundles import npu_bundles, npu_model
from tests.fixtures.foreign_gguf import FOREIGN, write_foreign
from tests.fixtures.opened import decoder_forward, onnx_forward, shared_cache
from tests.fixtures.tiny_decoder import write_decoder_bundle
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.gpu.adapters import drafting_model, gpu_model

DRAFTING = ("drafting-llama", "drafting-int8-gemma3")
SHARED = ("shared-llama", "shared-int8-gemma3", "shared-deep.gemma4")
CONTRAST = ("contrast-llama", "contrast-int8-gemma3")
BY_LAYER = ("deep.gemma4", "int8-deep.gemma4", "drafting-deep.gemma4")
ALIKE = ("llama", "qwen2", "gemma2", "gemma3", "int8-llama", "int8-gemma3")
EXACT = ("markov", *ALIKE, *BY_LAYER, *SHARED, *CONTRAST, *DRAFTING)
"""With "int8-", the cache is kept in int8; with "shared-", the cache has three sequences; with
"contrast-", it weighs a text, whose two sequences differ in their first token; with "drafting-", the graph is
that for drafting.
"""
GPU = ("gpu-llama", pytest.param("gpu-gemma3", marks=pytest.mark.slow))
"""On an adapter of WebGPU, a software one too: that takes ten times as long as the other backends."""
PEEKS = (
    "markov",
    "drafting-qwen2",
    "drafting-deep.gemma3",
    *DRAFTING[1:],
    "drafting-int8-deep.llama",
    "gpu-drafting-int8-qwen2",
)
REAL = [pytest.param(f"llama.cpp-{kind}", marks=pytest.mark.slow) for kind in ("llama", "gpt2", "mamba")]
"""llama.cpp itself, where it is installed; the last is recurrent."""
LLAMA_TOLERANCE = 0.01
"""Of logits from -3 to 3, weights in float32: llama.cpp adds up values in fp16, in the order of its cells."""


@dataclass(frozen=True)
class Make:
    """``make(capacity=64)``: a fresh forward of one kind."""

    fresh: Callable[[int], Forward]
    exact: bool = True
    tolerance: float = 1e-5
    """Of logits, where it is not exact."""
    kv: KvType = "fp16"

    def __call__(self, capacity: int = 64) -> Forward:
        return self.fresh(capacity)

    def same(self, a: HeadRows, b: HeadRows) -> bool:
        """Equal in every bit; nearly, for a forward that does not claim to be exact."""
        fields = ("values", "ids", "logsumexp", "entropy")
        pairs = {name: (getattr(a, name), getattr(b, name)) for name in fields}
        if (a.logits is None) != (b.logits is None):
            return False
        if a.logits is not None:
            pairs["logits"] = (a.logits, b.logits)
        if self.exact:
            return all(x.tobytes() == y.tobytes() for x, y in pairs.values())
        if any(x.shape != y.shape for x, y in pairs.values()):
            return False
        swapped = a.ids != b.ids
        del pairs["ids"]
        near = all(np.allclose(x, y, rtol=0, atol=self.tolerance) for x, y in pairs.values())
        return near and bool(_nearly_tied(a.values, 2 * self.tolerance)[swapped].all())


def _nearly_tied(values: FloatArray, gap: float) -> NDArray[np.bool_]:
    """Which of the best values may change places: those near a neighbour, and the last, whose next is cut."""
    close = values[:, :-1] - values[:, 1:] <= gap
    edge = np.ones((len(values), 1), dtype=np.bool_)
    return np.hstack([~edge, close]) | np.hstack([close, edge])


@pytest.fixture(scope="session")
def tiny_bundle(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Export a tiny random model of an architecture, once; with "deep." before its name, of nine layers."""
    made: dict[str, Path] = {}

    def bundle(architecture: str) -> Path:
        if architecture not in made:
            folder = tmp_path_factory.mktemp(architecture)
            made[architecture] = folder / "bundle"
            shape = TinyShape(layers=9) if architecture.startswith("deep.") else None
            gguf = write_tiny(folder / "tiny.gguf", architecture.removeprefix("deep."), shape=shape)
            export_gguf(gguf, made[architecture])
        return made[architecture]

    return bundle


@pytest.fixture(params=[*EXACT, *GPU, "optimum", "npu", "sequences", "recurrent", *REAL])
def make(request: pytest.FixtureRequest) -> Make:
    """Of the parametrised kind."""
    return _make(request)


@pytest.fixture(params=[*EXACT, *GPU, "npu", "sequences", *REAL[:2]])
def make_trees(request: pytest.FixtureRequest) -> Make:
    """Of those that run trees."""
    return _make(request)


@pytest.fixture(params=PEEKS)
def make_peeks(request: pytest.FixtureRequest) -> Make:
    """Of those that peek, hand out hidden states and trim their head."""
    return _make(request)


@pytest.fixture(scope="session")
def llama_cpp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Make]]:
    """llama.cpp itself on a tiny random model of an architecture; the probe's findings go elsewhere."""
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed (extra gguf)")
    made: dict[str, Path] = {}

    def make(architecture: str) -> Make:
        if architecture not in made:
            folder = tmp_path_factory.mktemp(architecture)
            path = folder / "tiny.gguf"
            foreign = architecture in FOREIGN
            gguf = write_foreign(path, architecture) if foreign else write_tiny(path, formats="f32")
            made[architecture] = folder / "bundle"
            export_gguf(gguf, made[architecture], backend="llama.cpp")
        bundle = made[architecture]
        manifest = Manifest.load(bundle)
        return Make(
            lambda capacity: open_backend(bundle, manifest, threads=2).forward(CacheConfig(capacity)),
            exact=False,
            tolerance=LLAMA_TOLERANCE,
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEDEC_HOME", str(tmp_path_factory.mktemp("home")))
        yield make


@pytest.fixture(scope="session")
def decoder_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random decoder, as optimum would export it, in a bundle."""
    return write_decoder_bundle(tmp_path_factory.mktemp("decoder") / "bundle")


@pytest.fixture(scope="session")
def npu_on_cpu(tmp_path_factory: pytest.TempPathFactory) -> NpuModel:
    """A tiny random model for an NPU, on ONNX Runtime's own ops."""
    return npu_model(npu_bundles(tmp_path_factory.mktemp("npu"))("llama"))


@cache
def _drafting(bundle: Path) -> OnnxModel:
    """Its graph for drafting, opened once."""
    return OnnxModel(bundle, Manifest.load(bundle), threads=2, spin=False, drafting=True)


def weighing(bundle: Path, capacity: int, kv: KvType) -> Forward:
    """A forward that weighs a text, whose sequences differ in their first token."""
    model = OnnxModel(bundle, Manifest.load(bundle), threads=2, spin=False)
    forward = model.contrasting(1.0, CacheConfig(capacity, kv), batch_tokens=96)
    assert forward.contrasting is not None
    forward.contrasting.leave_out(1, [7])
    return forward


def _make(request: pytest.FixtureRequest) -> Make:
    kind = request.param
    if kind == "markov":
        return Make(lambda capacity: MarkovForward(capacity=capacity, vocab_size=100))
    if kind in ("sequences", "recurrent"):
        return Make(lambda capacity: fake_llama(capacity, rewinds=kind == "sequences"), exact=False)
    if kind.startswith("llama.cpp"):
        return request.getfixturevalue("llama_cpp")(kind.removeprefix("llama.cpp-"))  # type: ignore[no-any-return]
    if kind == "optimum":
        bundle = request.getfixturevalue("decoder_bundle")
        manifest = Manifest.load(bundle)
        return Make(
            lambda capacity: decoder_forward(bundle, manifest, threads=2, capacity=capacity, spin=False),
            exact=False,
        )
    if kind == "npu":
        model = request.getfixturevalue("npu_on_cpu")
        return Make(lambda capacity: model.forward(CacheConfig(capacity)), exact=False, tolerance=0.02)
    bundle = request.getfixturevalue("tiny_bundle")(kind.split("-")[-1])
    kv: KvType = "int8" if "int8-" in kind else "fp16"
    if kind.startswith("gpu-"):
        on_gpu = drafting_model(bundle) if "drafting-" in kind else gpu_model(bundle)
        return Make(lambda capacity: on_gpu.forward(CacheConfig(capacity, kv)), kv=kv)
    manifest = Manifest.load(bundle)

    def fresh(capacity: int) -> Forward:
        if kind.startswith("shared-"):
            return shared_cache(bundle, 3, piece=128, most=160, capacity=capacity, kv=kv).forwards[1]
        if kind.startswith("contrast-"):
            return weighing(bundle, capacity, kv)
        if kind.startswith("drafting-"):
            return _drafting(bundle).forward(CacheConfig(capacity, kv))
        return onnx_forward(bundle, manifest, threads=2, capacity=capacity, kv=kv)

    return Make(fresh, kv=kv)
