"""Models with recurrent layers on a GPU: histories of every verb, files, replies, a device that is lost."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgedec
from edgedec import RunConfig
from edgedec.assemble.runner import Runner
from edgedec.backends.gpu.adapter import CHOICE
from edgedec.backends.gpu.forward import GpuForward
from edgedec.backends.gpu.opening import place_on_gpu
from edgedec.backends.gpu.recovering import RecoveringForward
from edgedec.backends.state_store import states_file_bytes
from edgedec.bundle.device_place import DevicePlace
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.forward import Forward
from edgedec.core.rows import HeadRows, Rows
from edgedec.decode.engine import Engine
from edgedec.memory import state_bytes
from edgedec.sampling import DrawParams
from tests.backends.test_recurrent_models import FULL, History, bits, model_of
from tests.fixtures.hybrid_bundles import HybridBundles, hybrid_bundles
from tests.fixtures.nightly import diagonal
from tests.fixtures.replies import GREEDY, PROMPT, SAMPLED, always, reply
from tests.fixtures.tiny_hybrid import HYBRIDS
from tests.gpu import adapters
from tests.gpu.adapters import gpu_model

__all__ = ["hybrid_bundles"]  # a fixture
CAPACITY = 220
EVERY = pytest.mark.parametrize("architecture", HYBRIDS)


def on_gpu(bundle: Path, capacity: int = CAPACITY) -> GpuForward:
    return gpu_model(bundle).forward(CacheConfig(capacity, max_pass=40))


def on_cpu(bundle: Path) -> Forward:
    return model_of(bundle).forward(CacheConfig(CAPACITY))


def saved(forward: Forward, length: int) -> bytes:
    file = io.BytesIO()
    forward.write_cache(file, length)
    return file.getvalue()


def check(history: History, plain: Forward) -> None:
    """Compare the rows with those of the CPU, token by token; then it goes on with a file of the GPU's."""
    last = history.draw(1)[0]
    rows = [bits(plain.extend([token], rows=FULL))[0] for token in history.tokens]
    assert history.rows == rows
    length = history.forward.reachable(len(history.tokens))
    file = saved(history.forward, length)
    plain.read_cache(io.BytesIO(file), length)
    both = [one.extend([*history.tokens[length:], last], rows=FULL) for one in (plain, history.forward)]
    assert bits(both[0])[-1] == bits(both[1])[-1]


@EVERY
@pytest.mark.parametrize(
    "seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 40))]
)
def test_random_histories_end_with_the_bits_of_the_cpu(
    architecture: str, seed: int, hybrid_bundles: HybridBundles
) -> None:
    """Chains, trees, kept paths, rewinds, files and copied prefixes."""
    bundle, rng = hybrid_bundles(architecture), np.random.default_rng(seed)
    history, spare = History(on_gpu(bundle), rng), on_gpu(bundle)  # type: ignore[arg-type]
    for _ in range(14):
        before = history.forward
        history.act(spare)  # type: ignore[arg-type]
        if history.forward is spare:
            spare = before  # type: ignore[assignment]
    check(history, on_cpu(bundle))


@EVERY
def test_saved_caches_are_those_of_the_cpu(architecture: str, hybrid_bundles: HybridBundles) -> None:
    bundle = hybrid_bundles(architecture)
    both = [on_gpu(bundle), on_cpu(bundle)]
    tokens = History(both[1], np.random.default_rng(0)).draw(60)  # type: ignore[arg-type]
    assert both[0].cache_layout == both[1].cache_layout
    for count in (1, 34, 36):
        for one in both:
            one.extend(tokens[one.length : count], rows=Rows(()))
        files = [saved(one, count) for one in both]
        assert files[0] == files[1]
        assert len(files[0]) == both[0].cache_bytes(count) == both[1].cache_bytes(count)
    for one in both:
        one.read_cache(io.BytesIO(files[1]), count)
    assert len({bits(one.extend(tokens[count:], rows=FULL))[-1] for one in both}) == 1


def test_states_that_cannot_be_are_refused_and_the_cache_is_empty(hybrid_bundles: HybridBundles) -> None:
    forward = on_gpu(hybrid_bundles("qwen35"))
    forward.extend([1, 2, 3])
    file = saved(forward, 3)
    at = len(file) - states_file_bytes(forward.spec.states)
    strange = file[:at] + (9).to_bytes(8, "little") + file[at + 8 :]
    with pytest.raises(BadFileError, match="cannot cover 9"):
        forward.read_cache(io.BytesIO(strange), 3)
    assert forward.length == 0
    with pytest.raises(EOFError):
        forward.read_cache(io.BytesIO(file[:-4]), 3)
    assert forward.length == 0


@EVERY
def test_memory_for_states_is_counted(architecture: str, hybrid_bundles: HybridBundles) -> None:
    bundle = hybrid_bundles(architecture)
    model = gpu_model(bundle)
    planned = model.device_bytes(CacheConfig(CAPACITY))
    assert planned["state"] == state_bytes(model.spec.states)
    assert model.forward(CacheConfig(CAPACITY)).nbytes()["state"] == planned["state"]


@EVERY
def test_a_model_with_states_is_not_cut(architecture: str, hybrid_bundles: HybridBundles) -> None:
    bundle = hybrid_bundles(architecture)
    with pytest.raises(UnsupportedError, match="cannot be cut between its layers") as found:
        place_on_gpu(bundle, Manifest.load(bundle), DevicePlace("gpu", context=64, layers=2), threads=1)
    assert found.value.hint == "run all of it in one place"


@contextmanager
def engine(bundle: Path, **settings: Any) -> Iterator[Engine]:
    config = RunConfig(context=192, threads=1, **settings)
    with edgedec.open(bundle, config) as model:
        assert isinstance(model.runner, Runner)
        yield model.runner.engine


@pytest.mark.parametrize(("architecture", "params"), diagonal(HYBRIDS, [GREEDY, SAMPLED]))
def test_replies_are_those_of_the_cpu(
    architecture: str, params: DrawParams, hybrid_bundles: HybridBundles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without drafts, and with drafts that are all fed: many are rejected."""
    bundle = hybrid_bundles(architecture, few=True)
    monkeypatch.setenv(CHOICE, adapters.adapter().name)
    with engine(bundle, draft="off") as one:
        plain = reply(one, PROMPT, params, 128)
    with engine(bundle, device="gpu", draft="off") as one:
        assert reply(one, PROMPT, params, 128) == plain
    with engine(bundle, device="gpu", draft="lookup,recycling") as one, always(one):
        assert reply(one, PROMPT, params, 128) == plain
        assert one.speculation
        tally = one.speculation.tally
        assert 0 < tally.accepted < tally.drafted


@EVERY
def test_a_device_that_is_lost_in_a_reply_leaves_the_rest_to_the_cpu(
    architecture: str, hybrid_bundles: HybridBundles, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = hybrid_bundles(architecture, few=True)
    monkeypatch.setenv(CHOICE, adapters.adapter().name)
    with engine(bundle, draft="off") as one:
        plain = reply(one, PROMPT, SAMPLED)
    passes, extend = 0, GpuForward.extend

    def counted(forward: GpuForward, *given: Any, **named: Any) -> HeadRows:
        nonlocal passes
        passes += 1
        if passes == 8:
            forward.executor.device._handle.destroy()
        return extend(forward, *given, **named)

    monkeypatch.setattr(GpuForward, "extend", counted)
    with engine(bundle, device="gpu", draft="lookup,recycling") as one, always(one):
        forward = one._forward
        assert isinstance(forward, RecoveringForward)
        assert isinstance(forward._now, GpuForward)
        assert reply(one, PROMPT, SAMPLED) == plain
        assert not isinstance(forward._now, GpuForward)
