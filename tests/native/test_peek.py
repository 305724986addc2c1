"""model/: peeks, hidden states and trimmed heads of the native engine have Python's bits."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.exits import taps_of
from edgedec.bundle.manifest import DRAFTING, MODEL, Manifest
from edgedec.core.cache_config import CacheConfig, KvType
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.forward import Forward
from edgedec.core.rows import ALL_ROWS, HeadRows, Rows
from edgedec.export import export_gguf
from tests.fixtures.paths import path_to
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.native.native_forward import NativeForward, NativeModel
from tests.native.web_forward import WebForward
from tests.native.web_runs import with_program

CAPACITY, LONGEST, VOCABULARY = 200, 24, 250
KEEP = np.arange(0, VOCABULARY, 2, dtype=np.int64)
FEW = np.array([3, 5, 9], dtype=np.int64)


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    shape = TinyShape(layers=7 if request.param == "gemma3" else 4, context=CAPACITY)
    export_gguf(write_tiny(folder / "tiny.gguf", request.param, shape=shape), folder / "bundle")
    return folder / "bundle"


def pair(bundle: Path) -> tuple[NativeForward, Forward]:
    manifest, cache = Manifest.load(bundle), CacheConfig(CAPACITY, "fp16", LONGEST)
    reference = OnnxModel(bundle, manifest, threads=2, spin=False, drafting=True).forward(cache)
    return NativeModel(bundle, manifest, drafting=True).forward(cache), reference


def in_browser(bundle: Path, kv: KvType = "fp16") -> tuple[NativeForward, Forward]:
    """The same, with the passes of browsers."""
    manifest, cache = Manifest.load(bundle), CacheConfig(CAPACITY, kv, LONGEST)
    reference = OnnxModel(bundle, manifest, threads=2, spin=False, drafting=True).forward(cache)
    return WebForward(with_program(bundle), cache), reference


def bits(rows: HeadRows) -> list[bytes]:
    parts = (rows.values, rows.ids, rows.logsumexp, rows.entropy, rows.logits, rows.hidden)
    return [b"" if part is None else part.tobytes() for part in parts]


class History:
    """Random peeks, passes and paths, the same on both sides."""

    def __init__(self, sides: tuple[NativeForward, Forward], seed: int) -> None:
        self.native, self.reference = sides
        self.draw = np.random.default_rng(seed)
        self.warm = 0

    def tokens(self, count: int) -> list[int]:
        return [int(one) for one in self.draw.integers(0, VOCABULARY, count)]

    def same(self, *arguments: object, name: str = "extend", **settings: object) -> None:
        found = [getattr(side, name)(*arguments, **settings) for side in (self.native, self.reference)]
        assert bits(found[0]) == bits(found[1])
        assert self.native.parts[0] == len(self.reference.peeked)

    def step(self) -> None:
        if self.reference.capacity - self.reference.length < LONGEST:
            self.rewind(int(self.draw.integers(0, self.reference.length)))
        peeked = self.peeks() if self.draw.random() < 0.7 else []
        had = self.reference.caps.taps
        taps = tuple(int(one) for one in self.draw.permutation(had)[: self.draw.integers(0, 4)])
        rows = Rows(taps=taps, keep=KEEP if self.draw.random() < 0.2 else None)
        tokens = peeked[: self.draw.integers(0, len(peeked) + 1)] + self.tokens(int(self.draw.integers(1, 4)))
        if peeked and self.draw.random() < 0.5:
            tokens = peeked
        self.warm += len(tokens) if tokens == peeked else 0
        if self.draw.random() < 0.5:
            self.same(tokens, rows=rows)
            return
        parents = [min(at - 1, int(self.draw.integers(-1, at))) for at in range(len(tokens))]
        parents = parents if self.draw.random() < 0.5 else [at - 1 for at in range(len(tokens))]
        everything = Rows(tuple(range(len(tokens))), full=True, taps=taps)
        self.same(tokens, parents=parents, rows=everything)
        path = path_to(len(tokens) - 1, parents)
        for side in (self.native, self.reference):
            side.keep_path(path)

    def peeks(self) -> list[int]:
        exits = self.reference.caps.exits
        exit, tokens = int(self.draw.choice(exits)), self.tokens(int(self.draw.integers(1, 6)))
        keep = (None, KEEP, FEW)[self.draw.integers(3)]
        above = [one for one in exits if one >= exit]
        resume = int(self.draw.choice(above)) if self.draw.random() < 0.4 else None
        for token in tokens:
            self.same([token], name="peek", exit=exit, resume=resume, rows=Rows(last=True, keep=keep))
        if self.draw.random() < 0.1:
            self.rewind(self.reference.length)
            return []
        return tokens

    def rewind(self, length: int) -> None:
        for side in (self.native, self.reference):
            side.rewind(length)


def test_random_histories_have_the_same_bits(bundle: Path) -> None:
    sides = pair(bundle)
    history = History(sides, 3)
    history.same(history.tokens(20), rows=ALL_ROWS)
    for _ in range(60):
        history.step()
        assert sides[0].length == sides[1].length
    assert history.warm > 20
    assert sides[0].parts[2] > 0


@pytest.mark.parametrize("kv", ["fp16", "int8"])
def test_random_histories_have_the_same_bits_in_a_browser(bundle: Path, kv: KvType) -> None:
    history = History(in_browser(bundle, kv), 3)
    history.same(history.tokens(20), rows=ALL_ROWS)
    for _ in range(60):
        history.step()
    assert history.warm > 20


def test_kept_ids_may_grow_where_they_lie(bundle: Path) -> None:
    """As those of a text do; passes of a shape that came before see them all."""
    native, reference = pair(bundle)
    room = np.empty(9, np.int64)
    for count in (3, 6, 9):
        room[:count] = np.arange(count) * 7
        keep = room[:count]
        theirs = reference.extend([5], rows=Rows(last=True, keep=keep.copy()))
        assert bits(native.extend([5], rows=Rows(last=True, keep=keep))) == bits(theirs)
        assert (theirs.ids >= 0).sum() == count


def test_passes_have_the_bits_of_the_other_graph(bundle: Path) -> None:
    manifest, cache = Manifest.load(bundle), CacheConfig(CAPACITY, "fp16", LONGEST)
    plain, parts = NativeModel(bundle, manifest), NativeModel(bundle, manifest, drafting=True)
    tokens = list(range(12))
    whole, other = (one.forward(cache).extend(tokens, rows=ALL_ROWS) for one in (plain, parts))
    assert bits(whole) == bits(other)


def test_impossible_peeks_are_refused_and_change_nothing(bundle: Path) -> None:
    native, reference = pair(bundle)
    history = History((native, reference), 1)
    history.same([1, 2, 3])
    history.same([4], name="peek", exit=reference.caps.exits[0])
    for tokens, exit in (([], 1), ([1], 0 + 50), ([VOCABULARY + 5000], 1), ([1] * (LONGEST + 1), 1)):
        with pytest.raises(ValueError):  # noqa: PT011
            native.peek(tokens, exit=exit)
    history.same([4, 5], rows=Rows(taps=taps_of(reference.spec.n_layers)))


def test_a_model_without_exits_has_none(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    forward = NativeModel(bundle, manifest).forward(CacheConfig(CAPACITY, "fp16", LONGEST))
    for act in (lambda: forward.peek([1], exit=1), lambda: forward.extend([1], rows=Rows(taps=(0,)))):
        with pytest.raises(UnsupportedError, match="no early exits"):
            act()


def test_a_graph_without_exits_is_refused(bundle: Path, tmp_path: Path) -> None:
    copy = tmp_path / "bundle"
    shutil.copytree(bundle, copy)
    shutil.copy(copy / MODEL, copy / DRAFTING)
    with pytest.raises(BadFileError, match=r"drafting\.onnx of the bundle is not the model"):
        NativeModel(copy, Manifest.load(bundle), drafting=True)
