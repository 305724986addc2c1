"""Slots written by one forward and read by another: the same bits as if it had computed them."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from edgedec.backends.onnx.forward import OnnxForward
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import ContextFullError
from edgedec.core.rows import Rows
from edgedec.memory import KvType
from tests.fixtures.opened import onnx_forward

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
Bundles = Callable[[str], Path]


def opened(bundle: Path, capacity: int = 64, kv: KvType = "fp16") -> OnnxForward:
    return onnx_forward(bundle, Manifest.load(bundle), threads=1, capacity=capacity, kv=kv)


def written(forward: OnnxForward, length: int) -> bytes:
    sink = io.BytesIO()
    forward.write_cache(sink, length)
    return sink.getvalue()


@pytest.mark.parametrize("kv", ["fp16", "int8"])
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gemma2", "gemma3"])
def test_a_cache_read_is_a_cache_computed(tiny_bundle: Bundles, architecture: str, kv: KvType) -> None:
    bundle = tiny_bundle(architecture)
    first = opened(bundle, kv=kv)
    first.extend(TOKENS)
    saved = written(first, len(TOKENS))
    second = opened(bundle, capacity=40, kv=kv)
    assert first.cache_layout == second.cache_layout
    assert len(saved) == first.cache_bytes(len(TOKENS)) == second.cache_bytes(len(TOKENS))
    second.extend([7] * 20)
    second.read_cache(io.BytesIO(saved), len(TOKENS))
    assert second.length == len(TOKENS)
    for length in (len(TOKENS), 4):  # and a beginning of it
        first.rewind(length)
        second.rewind(length)
        ours, theirs = (forward.extend([8, 9], rows=Rows(full=True)).logits for forward in (first, second))
        assert ours is not None
        assert theirs is not None
        assert ours.tobytes() == theirs.tobytes()


def test_a_beginning_is_what_a_shorter_pass_would_have_left(tiny_bundle: Bundles) -> None:
    long, short = opened(tiny_bundle("llama")), opened(tiny_bundle("llama"))
    long.extend(TOKENS)
    short.extend(TOKENS[:5])
    assert written(long, 5) == written(short, 5)
    assert written(long, 0) == b""


def test_what_cannot_be_read_leaves_an_empty_cache(tiny_bundle: Bundles) -> None:
    first = opened(tiny_bundle("llama"))
    expected = first.extend(TOKENS).values.tobytes()
    saved = written(first, len(TOKENS))
    with pytest.raises(EOFError, match="11 tokens are not all there"):
        first.read_cache(io.BytesIO(saved[:-1]), len(TOKENS))
    assert first.length == 0
    with pytest.raises(ContextFullError):
        first.read_cache(io.BytesIO(saved), 65)
    assert first.length == 0
    assert first.extend(TOKENS).values.tobytes() == expected
    first.read_cache(io.BytesIO(), 0)
    assert first.length == 0
