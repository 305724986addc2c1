"""``OnnxForward.attention``: what the last tokens looked at, and that nothing else is different."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.onnx.forward import OnnxForward
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import ContextFullError
from edgedec.core.rows import FloatArray, Rows
from edgedec.kernels import library
from edgedec.memory import KvType
from tests.fixtures.opened import onnx_forward
from tests.reference.graph import graph_attention

Bundles = Callable[[str], Path]
KV_TYPES: tuple[KvType, ...] = ("fp16", "int8")
PROMPT = list(range(3, 53))
ARCHITECTURES = ("llama", "qwen2", "qwen3", "phi3")


def opened(bundle: Path, kv: KvType = "fp16", *, threads: int = 2) -> OnnxForward:
    return onnx_forward(bundle, Manifest.load(bundle), threads=threads, capacity=200, spin=False, kv=kv)


def bits(forward: OnnxForward, slots: int) -> bytes:
    """Of the cache's first slots."""
    return forward._kv.arrays["kv_cache"][..., :slots, :].tobytes()


def logits(forward: OnnxForward, token: int) -> bytes:
    found = forward.extend([token], rows=Rows(full=True)).logits
    assert found is not None
    return found.tobytes()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_is_the_greatest_softmax_weight_of_a_reference(architecture: str, tiny_bundle: Bundles) -> None:
    bundle = tiny_bundle(architecture)
    spec = Manifest.load(bundle).spec
    forward = opened(bundle)
    forward.extend(PROMPT[:30])
    found = forward.attention(PROMPT[30:])
    weights = graph_attention(bundle, PROMPT)[:, :, 30:]
    groups = weights.reshape(spec.n_layers, spec.n_kv_heads, -1, 20, len(PROMPT))
    expected = groups.max(axis=(2, 3))
    assert found.shape == expected.shape == (spec.n_layers, spec.n_kv_heads, 50)
    assert found.dtype == np.float32
    # The kernels round activations to 8 bits, the reference does not.
    np.testing.assert_allclose(found, expected, rtol=0.1, atol=1e-4)
    assert found.max() > 2 * np.median(found)


@pytest.mark.parametrize("kv", KV_TYPES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_else_is_as_after_extend(architecture: str, kv: KvType, tiny_bundle: Bundles) -> None:
    """And the weights are the greatest of those of each token fed by itself, on any number of threads."""
    plain, asked, one = (opened(tiny_bundle(architecture), kv, threads=n) for n in (2, 3, 1))
    plain.extend(PROMPT)
    for forward in (asked, one):
        forward.extend(PROMPT[:20])
    found = asked.attention(PROMPT[20:])
    assert asked.length == plain.length == 50
    assert bits(asked, 50) == bits(plain, 50)
    assert logits(asked, 7) == logits(plain, 7)
    greatest = np.zeros_like(found)
    for token in PROMPT[20:]:
        single: FloatArray = one.attention([token])
        greatest[..., : one.length] = np.maximum(greatest[..., : one.length], single)
    assert found.tobytes() == greatest.tobytes()
    assert bits(one, 50) == bits(plain, 50)


def test_every_row_of_kernels_says_the_same(tiny_bundle: Bundles, monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for row in library.available():
        monkeypatch.setenv("EDGEDEC_ISA", row)
        forward = opened(tiny_bundle("llama"))
        forward.extend(PROMPT[:20])
        found.add(forward.attention(PROMPT[20:]).tobytes())
    assert len(found) == 1


def test_slots_are_those_resident(tiny_bundle: Bundles) -> None:
    forward = opened(tiny_bundle("llama"))
    forward.extend(PROMPT)
    forward.evict(4, 10)
    found = forward.attention([1, 2, 3])
    assert forward.length == 53
    assert found.shape[2] == 43
    assert (found[:, :, :40].sum(axis=2) > 0).all()
    assert (found[:, :, 42] > 0).all()


def test_nothing_of_it_is_kept(tiny_bundle: Bundles) -> None:
    forward = opened(tiny_bundle("llama"))
    forward.extend(PROMPT)
    kept = dict(forward._passes._bound)
    made = forward.attention([1, 2, 3])
    assert forward.ledger.by_name()["attention"] == made.nbytes
    found = weakref.ref(made)
    del made
    gc.collect()
    assert found() is None
    assert "attention" not in forward.ledger.by_name()
    assert forward._passes._bound == kept


def test_what_does_not_fit_is_refused_as_by_extend(tiny_bundle: Bundles) -> None:
    forward = opened(tiny_bundle("llama"))
    forward.extend([1, 2, 3], parents=[-1, -1, -1])
    with pytest.raises(ValueError, match="settle the tree"):
        forward.attention([4])
    forward.keep_path([0])
    for wrong in ([], [-1], [1 << 30]):
        with pytest.raises(ValueError, match=r"token"):
            forward.attention(wrong)
    with pytest.raises(ContextFullError):
        forward.attention([1] * 200)
    assert forward.length == 1


@pytest.mark.parametrize("architecture", ["gemma2", "gemma3"])
def test_layers_with_rings_of_their_own_do_not_report_it(architecture: str, tiny_bundle: Bundles) -> None:
    forward = opened(tiny_bundle(architecture))
    assert forward.attending is None
