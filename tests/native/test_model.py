"""The native engine's passes against Python's, in every bit of their rows, after any history of the cache."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.manifest import MODEL, Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import BackendError, BadFileError, ContextFullError, NotFoundError, UsageError
from edgedec.core.forward import Forward
from edgedec.core.rows import ALL_ROWS, HeadRows, Rows
from edgedec.export import export_gguf
from edgedec.memory import KvType
from edgedec.models import Store
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import HYBRIDS, PLAIN
from tests.native.native_forward import NativeForward, NativeModel

FULL = Rows(full=True)
CAPACITY, LONGEST = 500, 40
VOCABULARY = 250
OWN_CACHES = ("gemma4", *HYBRIDS)
"""Architectures with caches of their own: keys of two sizes, some shared; recurrent states; trails."""
KINDS = [(name, "fp16") for name in (*PLAIN, *OWN_CACHES)]
KINDS += [(name, "int8") for name in ("llama", "gemma3", *OWN_CACHES)]
_LAYERS = {"gemma3": 7, "gemma4": 7, "qwen35": 5, "lfm2": 5}
Bundle = Callable[[str], Path]


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """Export a tiny random model of an architecture, once."""
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            shape = TinyShape(
                layers=_LAYERS.get(name, 2), context=CAPACITY, per_layer=32 if name == "gemma4" else 0
            )
            export_gguf(write_tiny(folder / "tiny.gguf", name, shape=shape), folder / "bundle")
            made[name] = folder / "bundle"
        return made[name]

    return make


def pair(bundle: Path, kv: KvType = "fp16", capacity: int = CAPACITY) -> tuple[NativeForward, Forward]:
    """The native cache and Python's, of the same model."""
    manifest, cache = Manifest.load(bundle), CacheConfig(capacity, kv, LONGEST)
    reference = OnnxModel(bundle, manifest, threads=2, spin=False).forward(cache)
    return NativeModel(bundle, manifest).forward(cache), reference


def bits(rows: HeadRows) -> bytes:
    logits = b"" if rows.logits is None else rows.logits.tobytes()
    parts = (rows.values, rows.ids, rows.logsumexp, rows.entropy)
    return b"".join(part.tobytes() for part in parts) + logits


class History:
    """Random passes, paths, rewinds and restored caches, the same on both sides."""

    def __init__(self, native: NativeForward, reference: Forward, seed: int) -> None:
        self.sides = native, reference
        self.rng = np.random.default_rng(seed)

    def step(self) -> None:
        native, reference = self.sides
        free = reference.capacity - reference.length
        if free < LONGEST or self.rng.random() < 0.1:
            self.rewind(int(self.rng.integers(0, reference.length + 1)))
        elif self.rng.random() < 0.05:
            self.restore()
        elif self.rng.random() < 0.4:
            self.tree(int(self.rng.integers(1, 17)))
        else:
            size = LONGEST if self.rng.random() < 0.3 else int(self.rng.integers(1, 5))
            self.same(self.tokens(size), None)
        assert native.length == reference.length
        for length in (0, reference.length // 2, max(reference.length - 20, 0), reference.length):
            assert native.reachable(length) == reference.reachable(length)

    def tokens(self, count: int) -> list[int]:
        return [int(token) for token in self.rng.integers(0, VOCABULARY, count)]

    def rows(self, count: int) -> Rows:
        chosen = tuple(int(row) for row in self.rng.integers(0, count, int(self.rng.integers(0, 4))))
        found = [Rows(last=True), ALL_ROWS, FULL, Rows(chosen), Rows(chosen, full=True)]
        rows = found[int(self.rng.integers(len(found)))]
        return Rows(rows.indices, rows.last, rows.full, float(self.rng.choice([1.0, 0.7, 1.3])))

    def same(self, tokens: list[int], parents: list[int] | None) -> None:
        rows = self.rows(len(tokens))
        found = [bits(side.extend(tokens, parents=parents, rows=rows)) for side in self.sides]
        assert found[0] == found[1]

    def tree(self, count: int) -> None:
        parents = [int(self.rng.integers(-1, node)) for node in range(count)]
        before = self.sides[1].length
        self.same(self.tokens(count), parents)
        path: list[int] = []
        while children := [node for node in range(count) if parents[node] == (path[-1] if path else -1)]:
            path.append(int(self.rng.choice(children)))
        rejected = self.rng.random() < 0.2
        for side in self.sides:
            if rejected:
                side.rewind(before)
            else:
                side.keep_path(path)

    def rewind(self, length: int) -> None:
        for side in self.sides:
            side.rewind(length)

    def restore(self) -> None:
        native, reference = self.sides
        written = [io.BytesIO(), io.BytesIO()]
        length = reference.length
        for side, file in zip(self.sides, written, strict=True):
            side.write_cache(file, length)
        assert written[0].getvalue() == written[1].getvalue()
        assert len(written[0].getvalue()) == native.cache_bytes(length) == reference.cache_bytes(length)
        assert native.cache_layout == reference.cache_layout
        for side, file in zip(self.sides, reversed(written), strict=True):
            side.read_cache(io.BytesIO(file.getvalue()), length)


@pytest.mark.parametrize(("name", "kv"), KINDS)
def test_random_histories_have_the_bits_of_python(name: str, kv: KvType, bundle: Bundle) -> None:
    history = History(*pair(bundle(name), kv), seed=len(name))
    for _ in range(60):
        history.step()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kv"), KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_long_histories(name: str, kv: KvType, seed: int, bundle: Bundle) -> None:
    history = History(*pair(bundle(name), kv), seed)
    for _ in range(600):
        history.step()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smollm2-135m", "gemma3-270m"])
def test_histories_of_real_models(name: str) -> None:
    try:
        folder = Store().path(name)
    except NotFoundError:
        pytest.skip(f"{name} is not installed")
    history = History(*pair(folder), seed=1)
    for _ in range(60):
        history.step()


def test_sizes_and_refusals_are_those_of_python(bundle: Bundle) -> None:
    native, reference = pair(bundle("gemma3"), capacity=60)
    assert native.nbytes() == {**reference.nbytes(), "kv_cache": 0}
    assert (native.capacity, native.max_pass) == (reference.capacity, reference.caps.max_pass)
    calls: list[Callable[[Forward], object]] = [
        lambda side: side.extend([]),
        lambda side: side.extend([VOCABULARY * 1000]),
        lambda side: side.extend([-1]),
        lambda side: side.extend([1] * (LONGEST + 1)),
        lambda side: side.extend([1, 2], parents=[-1]),
        lambda side: side.extend([1, 2], parents=[-1, 1]),
        lambda side: side.extend([1, 2], parents=[-2, 0]),
        lambda side: side.extend([1, 2], rows=Rows((2,))),
        lambda side: side.rewind(1),
        lambda side: side.rewind(-1),
        lambda side: side.keep_path([0]),
        lambda side: side.write_cache(io.BytesIO(), 1),
    ]
    for call in calls:
        for side in (native, reference):
            with pytest.raises(ValueError, match=r".") as error:
                call(side)
            said = str(error.value)
        assert said
    for side in (native, reference):
        side.extend([1, 2, 3], parents=[-1, -1, 0])
        for wrong in (lambda side=side: side.extend([1]), lambda side=side: side.keep_path([2])):
            with pytest.raises(ValueError, match=r"."):
                wrong()
        side.keep_path([0, 2])
        side.extend([4] * LONGEST)
    words = []
    for side in (native, reference):
        with pytest.raises(ContextFullError) as full:
            side.extend([1] * 30)
        words.append(str(full.value))
    assert words[0] == words[1]
    assert native.nbytes() == reference.nbytes()


def test_whole_rows_of_logits_are_leased_until_they_are_freed(bundle: Bundle) -> None:
    native, reference = pair(bundle("llama"))
    row = 4 * native.spec.vocab_size
    for count, most in ((3, 3), (1, 3), (5, 5)):
        native.extend([1] * count, rows=FULL)
        assert native.leased_rows == most * row
    native.free_logits()
    assert native.leased_rows == 0
    reference.extend([1] * 9)
    assert bits(native.extend([7], rows=FULL)) == bits(reference.extend([7], rows=FULL))
    assert native.leased_rows == row


def test_impossible_caches_and_models_are_refused(bundle: Bundle, tmp_path: Path) -> None:
    folder = bundle("llama")
    manifest = Manifest.load(folder)
    model = NativeModel(folder, manifest)
    with pytest.raises(UsageError, match="a context of 501 tokens is not possible"):
        model.forward(CacheConfig(CAPACITY + 1))
    with pytest.raises(UsageError, match="cannot run on 0 threads"):
        NativeModel(folder, manifest, threads=0)
    with pytest.raises(BackendError, match="cannot be loaded"):
        NativeModel(folder, manifest, runtime=tmp_path / "nothing.so")
    with pytest.raises(BadFileError, match="not the model that its manifest describes"):
        NativeModel(folder, Manifest.load(bundle("gemma3")))
    with pytest.raises(BadFileError, match=f"{MODEL} of the bundle is broken"):
        NativeModel(tmp_path, manifest)
