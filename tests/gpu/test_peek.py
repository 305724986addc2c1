"""Drafts of the target's own layers on a GPU: peeks, hidden states and trimmed heads have the CPU's bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.gpu.device import GpuDevice
from edgedec.backends.gpu.model import GpuModel
from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig, KvType
from edgedec.core.errors import DeviceLostError
from edgedec.core.forward import Forward
from edgedec.core.ledger import Ledger
from edgedec.core.rows import HeadRows, Keep, Rows
from edgedec.export import export_gguf
from edgedec.models.catalogue import CATALOGUE
from tests.fixtures.nightly import every
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.twins import EVERYWHERE, write_twin
from tests.gpu import adapters
from tests.gpu.adapters import drafting_model
from tests.gpu.test_model import TREE, same, text

CAPACITY = 64
WIDE = Rows(full=True, taps=(0, 1))


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine layers, some with a window, and logits with a softcap."""
    folder = tmp_path_factory.mktemp("gpu")
    export_gguf(write_tiny(folder / "t.gguf", "gemma2", shape=TinyShape(layers=9)), folder / "bundle")
    return folder / "bundle"


def both(bundle: Path, kv: KvType = "fp16", capacity: int = CAPACITY) -> tuple[Forward, Forward]:
    cpu = OnnxModel(bundle, Manifest.load(bundle), threads=1, spin=False, drafting=True)
    return drafting_model(bundle).forward(CacheConfig(capacity, kv)), cpu.forward(CacheConfig(capacity, kv))


def some_ids(forward: Forward) -> Keep:
    return np.arange(3, forward.spec.vocab_size, 5, dtype=np.int64)


def agree(a: HeadRows, b: HeadRows) -> bool:
    hidden = [one.hidden.tobytes() if one.hidden is not None else b"" for one in (a, b)]
    return same(a, b) and hidden[0] == hidden[1]


def check(forwards: tuple[Forward, Forward]) -> None:
    """Feed the same peeks and passes to both, at every exit, with whole and trimmed heads."""
    gpu, cpu = forwards
    assert (gpu.caps.exits, gpu.caps.taps) == (cpu.caps.exits, cpu.caps.taps)
    keep, last = some_ids(gpu), gpu.caps.exits[-1]
    assert agree(*(one.extend(text(9), rows=WIDE) for one in forwards))
    tokens = text(7, 1)
    for exit in gpu.caps.exits:
        for trimmed in (None, keep):
            first = [
                one.peek(tokens[:1], exit=exit, rows=replace(WIDE_ROW, keep=trimmed)) for one in forwards
            ]
            assert agree(*first), (exit, "peek")
            more = [
                one.peek(tokens[1:5], parents=TREE[1:5], exit=exit, rows=Rows(temperature=0.7, keep=trimmed))
                for one in forwards
            ]
            assert agree(*more), (exit, "further peek")
            passes = [one.extend(tokens, parents=TREE, rows=WIDE) for one in forwards]
            assert agree(*passes), (exit, "pass")
            for one in forwards:
                one.keep_path([0, 2, 4])
                assert one.peeked == ()
            assert agree(*(one.extend(text(1, 4), rows=WIDE) for one in forwards))
            for one in forwards:
                one.rewind(9)
    skips = [one.peek(tokens[:3], exit=gpu.caps.exits[0], resume=last, rows=WIDE_ROW) for one in forwards]
    assert agree(*skips)
    assert agree(*(one.extend(tokens[:3], rows=Rows(full=True, keep=keep)) for one in forwards))


WIDE_ROW = Rows(last=True, full=True)


@pytest.mark.parametrize("kv", every(2, ["fp16", "int8"]))
def test_peeks_and_passes_have_the_bits_of_the_cpu(kv: KvType, deep: Path) -> None:
    check(both(deep, kv))


@pytest.mark.parametrize("exit", [0, 3, -1])
def test_peeks_that_leave_out_layers(exit: int, deep: Path) -> None:
    forwards = both(deep)
    exits = forwards[0].caps.exits
    for one in forwards:
        one.extend(text(9))
    for resume in exits:
        if resume >= exits[exit]:
            for at in (1, 2):
                tokens = text(at, at)
                found = [one.peek(tokens, exit=exits[exit], resume=resume, rows=WIDE_ROW) for one in forwards]
                assert agree(*found), (exit, resume)


@pytest.mark.parametrize("formats", every(2, ["f16", "q4_0"]))
def test_heads_in_other_formats_are_trimmed(formats: str, tmp_path: Path) -> None:
    export_gguf(write_tiny(tmp_path / "t.gguf", "llama", formats=formats), tmp_path / "b")
    check(both(tmp_path / "b"))


def test_other_ids_take_the_place_of_those_before(deep: Path) -> None:
    forwards = both(deep)
    for ids in ([3, 9], range(50, 90), [0, 200], [3, 9]):
        keep = np.array(ids, np.int64)
        assert agree(*(one.extend(text(2), rows=Rows(full=True, keep=keep)) for one in forwards))


def test_more_rows_than_go_at_a_time_after_a_peek(deep: Path) -> None:
    forwards = both(deep)
    keep = some_ids(forwards[0])
    assert agree(*(one.peek(text(20), exit=9, rows=Rows(full=True, keep=keep)) for one in forwards))
    assert agree(*(one.extend(text(40), rows=WIDE) for one in forwards))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EVERYWHERE if not CATALOGUE[name].spec.caches])
def test_the_twin_of_every_model_drafts_with_the_bits_of_the_cpu(name: str, tmp_path: Path) -> None:
    export_gguf(write_twin(tmp_path / "twin.gguf", CATALOGUE[name]), tmp_path / "twin")
    spec = Manifest.load(tmp_path / "twin").spec
    check(both(tmp_path / "twin", capacity=min(CAPACITY, spec.context_length)))


def test_memory_of_drafts_is_planned(bundle: Path) -> None:
    plain, drafting = adapters.gpu_model(bundle), drafting_model(bundle)
    assert plain.caps.exits == ()
    cache, ledger = CacheConfig(CAPACITY), Ledger()
    forward = drafting.forward(cache, ledger)
    planned = drafting.device_bytes(cache)
    assert ledger.by_name() == {name: planned[name] for name in ("kv_cache", "scratch")}
    spec, longest = drafting.spec, forward.caps.max_pass
    more = planned["scratch"] - plain.device_bytes(cache)["scratch"]
    assert more >= longest * spec.hidden_size * 4 * 2
    found = forward.extend(text(5), rows=WIDE)
    assert found.hidden is not None
    assert ledger.by_name()["hidden"] == found.hidden.nbytes


def test_a_device_that_is_lost_in_a_peek_leaves_the_committed_tokens(bundle: Path) -> None:
    device = GpuDevice.open(adapters.adapter())
    model = GpuModel(bundle, Manifest.load(bundle), device=device, drafting=True)
    forward = model.forward(CacheConfig(CAPACITY))
    forward.extend(text(5))
    device._handle.destroy()
    with pytest.raises(DeviceLostError):
        forward.peek([1], exit=1)
    assert (forward.length, forward.peeked) == (5, ())
