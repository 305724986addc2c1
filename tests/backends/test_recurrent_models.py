"""Models with recurrent layers, by the kernels: whatever passes led to n tokens, the same bits.

A case is a random history: chains, trees, kept paths, rewinds, files and copied prefixes, perhaps in a batch.
In the end its rows, states and keys are those of a model that was fed the same tokens one by one.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.onnx.kv_forward import KvForward
from edgedec.backends.onnx.lending import LendingForward
from edgedec.backends.onnx.model import OnnxModel
from edgedec.backends.state_store import states_file_bytes
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import EdgeDecError
from edgedec.core.rows import HeadRows, Rows
from edgedec.kernels import library
from edgedec.memory import KvType
from tests.fixtures.hybrid_bundles import HybridBundles, hybrid_bundles
from tests.fixtures.paths import path_to
from tests.fixtures.tiny_hybrid import HYBRIDS

__all__ = ["hybrid_bundles"]  # a fixture
FULL = Rows(full=True)
CAPACITY = 220
LATEST = 170
"""Tokens behind which histories go back."""
FAST, ALL, ROWS = range(12), range(12, 512), range(512, 515)


def model_of(bundle: Path) -> OnnxModel:
    return OnnxModel(bundle, Manifest.load(bundle), threads=1, spin=False)


def bits(rows: HeadRows) -> list[bytes]:
    assert rows.logits is not None
    return [row.tobytes() for row in rows.logits]


class History:
    """The tokens that a cache holds, with the row that each got."""

    def __init__(self, forward: KvForward, rng: np.random.Generator) -> None:
        self.forward, self.rng = forward, rng
        self.tokens: list[int] = []
        self.rows: list[bytes] = []
        self.snapshots = False
        """Whether copies of states are kept now and then."""
        self.fell = 0
        """Rewinds that left fewer tokens than asked for."""

    def draw(self, count: int) -> list[int]:
        return [int(token) for token in self.rng.integers(0, 250, count)]

    def chain(self) -> None:
        count = int(self.rng.integers(1, self.forward.caps.max_pass + 1 if self.rng.random() < 0.3 else 6))
        tokens = self.draw(count)
        self.rows += bits(self.forward.extend(tokens, rows=FULL))
        self.tokens += tokens

    def tree(self) -> None:
        most = min(self.forward.caps.max_pass, self.forward.caps.most_undone)
        count = int(self.rng.integers(1, most + 1))
        tokens, parents = self.draw(count), [int(self.rng.integers(-1, at)) for at in range(count)]
        rows = bits(self.forward.extend(tokens, parents=parents, rows=FULL))
        path = path_to(int(self.rng.integers(-1, count)), parents)
        if self.rng.random() < 0.2:
            self.forward.rewind(len(self.tokens))
            return
        self.forward.keep_path(path)
        self.tokens += [tokens[one] for one in path]
        self.rows += [rows[one] for one in path]

    def rewind(self) -> None:
        back = 12 if self.rng.random() < 0.7 else 60
        wanted = int(self.rng.integers(max(len(self.tokens) - back, 0), len(self.tokens) + 1))
        self.cut(self.forward.reachable(wanted), wanted)
        self.forward.rewind(wanted)

    def cut(self, held: int, wanted: int) -> None:
        self.fell += held < wanted
        del self.tokens[held:], self.rows[held:]

    def through_a_file(self, other: KvForward) -> None:
        """Go on in ``other``, with what a file has of it."""
        wanted = len(self.tokens) - int(self.rng.integers(0, 40)) * self.snapshots
        length = self.forward.reachable(max(wanted, 0))
        self.cut(length, length)
        file = io.BytesIO()
        self.forward.write_cache(file, length)
        assert len(file.getvalue()) == self.forward.cache_bytes(length)
        file.seek(0)
        other.read_cache(file, length)
        self.forward = other

    def copied(self, other: KvForward) -> None:
        """Go on in ``other``, with a copy of a prefix."""
        wanted = int(self.rng.integers(0, len(self.tokens) + 1))
        self.cut(other.copy_prefix(self.forward, wanted), wanted)
        self.forward = other

    def act(self, other: KvForward) -> None:
        dice = self.rng.random()
        if self.snapshots and self.rng.random() < 0.4:
            self.forward.snapshot()
        if len(self.tokens) > LATEST or dice < 0.25:
            self.rewind()
        elif dice < 0.5:
            self.chain()
        elif dice < 0.9:
            self.tree()
        elif dice < 0.95:
            self.through_a_file(other)
        else:
            self.copied(other)


def states_of(forward: KvForward) -> dict[str, bytes]:
    states = forward._kv.states
    assert states is not None
    return {name: array.tobytes() for name, array in states.arrays.items() if name.endswith("_state")}


def keys_of(forward: KvForward) -> bytes:
    if isinstance(forward, LendingForward):
        forward._own()  # what it borrows lies in another part
    return forward._kv.arrays["kv_cache"][:, :, :, : forward.length].tobytes()


def check(history: History, plain: KvForward) -> None:
    """Compare with one-token passes; one more token makes both apply all before it."""
    last = history.draw(1)[0]
    history.rows += bits(history.forward.extend([last], rows=FULL))
    plain.rewind(0)
    rows = [bits(plain.extend([token], rows=FULL))[0] for token in [*history.tokens, last]]
    assert history.rows == rows
    assert states_of(history.forward) == states_of(plain)
    assert keys_of(history.forward) == keys_of(plain)


def case(bundle: Path, seed: int, *, snapshots: bool = False) -> tuple[int, str]:
    """Run a case; return the rewinds that fell short, and a hash of all rows and states."""
    rng = np.random.default_rng(seed)
    kv: KvType = "int8" if rng.random() < 0.3 else "fp16"
    cache = CacheConfig(CAPACITY, kv, int(rng.choice([8, 33, 40, 64])))
    model, count = model_of(bundle), int(rng.integers(1, 4))
    if count > 1:
        forwards = model.shared_cache(2 * count, cache, 64).forwards
    else:
        forwards = (model.forward(cache), model.forward(cache))
    histories = [History(forward, rng) for forward in forwards[::2]]
    for history in histories:
        history.snapshots = snapshots
    spare = list(forwards[1::2])
    for _ in range(int(rng.integers(4, 25))):
        at = int(rng.integers(0, len(histories)))
        before = histories[at].forward
        histories[at].act(spare[at])
        if histories[at].forward is not before:
            spare[at] = before
    plain = model.forward(cache)
    found = hashlib.sha256()
    for history in histories:
        check(history, plain)
        for part in (*history.rows, *states_of(history.forward).values()):
            found.update(part)
    return sum(history.fell for history in histories), found.hexdigest()


@pytest.mark.parametrize("architecture", HYBRIDS)
def test_random_histories(architecture: str, hybrid_bundles: HybridBundles) -> None:
    assert sum(case(hybrid_bundles(architecture), seed)[0] for seed in FAST)


@pytest.mark.parametrize("architecture", HYBRIDS)
def test_random_histories_with_snapshots(architecture: str, hybrid_bundles: HybridBundles) -> None:
    assert sum(case(hybrid_bundles(architecture), seed, snapshots=True)[0] for seed in FAST)


@pytest.mark.parametrize("architecture", HYBRIDS)
def test_histories_have_the_same_bits_under_every_row(
    architecture: str, hybrid_bundles: HybridBundles, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for isa in library.available():
        monkeypatch.setenv("EDGEDEC_ISA", isa)
        found[isa] = [case(hybrid_bundles(architecture), seed)[1] for seed in ROWS]
    assert "scalar" in found
    assert all(digests == found["scalar"] for digests in found.values()), found


@pytest.mark.parametrize("architecture", HYBRIDS)
def test_damaged_files_of_states_end_in_one_line(architecture: str, hybrid_bundles: HybridBundles) -> None:
    """Whatever bytes they have: refused, or states of a cache that can be fed and emptied."""
    rng = np.random.default_rng(3)
    model, length = model_of(hybrid_bundles(architecture)), 50
    forward, plain = (model.forward(CacheConfig(CAPACITY)) for _ in range(2))
    tokens = [int(token) for token in rng.integers(0, 250, length)]
    forward.extend(tokens)
    file = io.BytesIO()
    forward.write_cache(file, length)
    first = forward._kv.nbytes(length) - states_file_bytes(forward.spec.states)
    refused = 0
    for _ in range(200):
        data = bytearray(file.getvalue())
        for at in rng.integers(first, len(data), int(rng.integers(1, 40))):
            data[at] = rng.choice([0x7F, 0xFF, 0, int(rng.integers(256))])
        if rng.random() < 0.5:
            data[first : first + 8] = file.getvalue()[first : first + 8]
        if rng.random() < 0.1:
            del data[int(rng.integers(len(data))) :]
        try:
            forward.read_cache(io.BytesIO(data), length)
            forward.extend([5, 6])
        except (EOFError, EdgeDecError):
            refused += 1
        forward.rewind(0)
    assert refused > 20
    assert bits(forward.extend(tokens, rows=FULL)) == bits(plain.extend(tokens, rows=FULL))


@pytest.mark.slow
@pytest.mark.parametrize("architecture", HYBRIDS)
def test_many_random_histories(architecture: str, hybrid_bundles: HybridBundles) -> None:
    assert sum(case(hybrid_bundles(architecture), seed)[0] for seed in ALL)
