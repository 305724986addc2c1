"""Opening bundles by kind: a new backend is one file and one line of a table."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.backends.open import BACKENDS, open_backend, runtime_of
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import UnsupportedError, UsageError
from edgedec.core.ledger import Ledger
from edgedec.decode.engine import Engine
from edgedec.sampling import DrawParams

Bundles = Callable[[str], Path]


@pytest.fixture
def toy(tiny_bundle: Bundles, tmp_path: Path) -> Path:
    """A bundle of a kind that nobody knows yet."""
    copy = Path(shutil.copytree(tiny_bundle("llama"), tmp_path / "toy"))
    replace(Manifest.load(copy), kind="toy").save(copy)
    return copy


def test_a_new_backend_is_a_file_and_a_line(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = Manifest.load(toy)
    monkeypatch.setitem(BACKENDS, "toy", "tests.backends.toy_backend:ToyModel")
    backend = open_backend(toy, manifest, threads=1)
    assert (backend.runtime, runtime_of(manifest), backend.threads) == ("toy", "toy", 1)
    steps = Engine(backend.forward(CacheConfig(20))).generate([5, 6], DrawParams(), max_tokens=4, stop_ids=())
    assert [step.token for step in steps] == [7, 8, 9, 10]
    with pytest.raises(UnsupportedError, match="cache in int8"):
        backend.forward(CacheConfig(kv="int8"))
    with pytest.raises(UnsupportedError, match="one sequence at a time"):
        backend.sequences(2, batch_tokens=8)


def test_a_kind_without_a_backend_is_one_line(toy: Path) -> None:
    with pytest.raises(UnsupportedError, match="runs bundles of the kind 'toy'"):
        open_backend(toy, Manifest.load(toy))


def test_a_model_has_no_cache_until_it_is_asked_for(tiny_bundle: Bundles) -> None:
    """One session, caches of any size beside each other, and their memory in the ledger of each."""
    bundle = tiny_bundle("llama")
    backend = open_backend(bundle, Manifest.load(bundle), threads=1)
    assert backend.weight_bytes > 0
    assert (backend.caps.reserves, backend.caps.kv_kinds) == (True, ("fp16", "int8"))
    ledgers = [Ledger(), Ledger()]
    first = backend.forward(CacheConfig(32), ledgers[0])
    second = backend.forward(CacheConfig(100, "int8", 7), ledgers[1])
    assert [(one.capacity, one.caps.max_pass) for one in (first, second)] == [(32, 32), (100, 7)]
    assert [one.ledger for one in (first, second)] == ledgers
    for forward, ledger in zip((first, second), ledgers, strict=True):
        forward.extend([1, 2, 3])
        assert ledger.by_name()["kv_cache"] == forward.nbytes()["kv_cache"]
    second.rewind(0)
    assert first.length == 3


@pytest.mark.parametrize("capacity", [0, -1, 10**6])
def test_a_capacity_that_the_model_was_not_made_for(tiny_bundle: Bundles, capacity: int) -> None:
    bundle = tiny_bundle("llama")
    backend = open_backend(bundle, Manifest.load(bundle), threads=1)
    with pytest.raises(UsageError, match="is not possible with this model"):
        backend.forward(CacheConfig(capacity))


@pytest.mark.parametrize(("count", "error"), [(0, UsageError), (33, UnsupportedError)])
def test_more_sequences_than_a_pass_can_have(
    tiny_bundle: Bundles, count: int, error: type[Exception]
) -> None:
    bundle = tiny_bundle("llama")
    backend = open_backend(bundle, Manifest.load(bundle), threads=1)
    assert backend.caps.sequences == 32
    with pytest.raises(error, match=str(count)):
        backend.sequences(count, CacheConfig(32), batch_tokens=32)
