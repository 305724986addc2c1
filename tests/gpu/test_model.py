"""A model on a GPU beside the same one on the CPU: every bit, passes of all kinds, and caches that move."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.gpu.build.build import build_program
from edgedec.backends.gpu.build.builder import BuildLimits
from edgedec.backends.gpu.device import GpuDevice
from edgedec.backends.gpu.executor import Executor
from edgedec.backends.gpu.model import GpuModel
from edgedec.backends.gpu.weights import GpuWeights
from edgedec.backends.onnx.graph import read_graph
from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig, KvType
from edgedec.core.errors import BadFileError, DeviceLostError, MemoryBudgetError, UnsupportedError
from edgedec.core.forward import Forward
from edgedec.core.ledger import Ledger
from edgedec.core.rows import HeadRows, Rows
from edgedec.export import export_gguf
from edgedec.models.catalogue import CATALOGUE
from tests.fixtures.nightly import diagonal
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import tiny_bundle
from tests.fixtures.twins import EVERYWHERE, write_twin
from tests.gpu import adapters
from tests.gpu.adapters import gpu_model

CAPACITY = 64
FULL = Rows(full=True)
TREE = [-1, -1, 0, 0, 2, 1, 4]
ARCHITECTURES = ["llama", "gemma3", "gemma4"]


@pytest.fixture(scope="module")
def made(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Bundles by architecture: all keys alike, with a window, of two sizes of which some are shared."""
    folder = tmp_path_factory.mktemp("made")
    return {"llama": bundle} | {name: tiny_bundle(folder, name) for name in ("gemma3", "gemma4")}


def on_cpu(bundle: Path, capacity: int = CAPACITY, kv: KvType = "fp16") -> Forward:
    return OnnxModel(bundle, Manifest.load(bundle), threads=1, spin=False).forward(CacheConfig(capacity, kv))


def on_gpu(bundle: Path, capacity: int = CAPACITY, kv: KvType = "fp16") -> Forward:
    return gpu_model(bundle).forward(CacheConfig(capacity, kv))


def text(count: int, seed: int = 0) -> list[int]:
    found: list[int] = np.random.default_rng(seed).integers(0, 64, count).tolist()
    return found


def same(a: HeadRows, b: HeadRows) -> bool:
    pairs = [(a.values, b.values), (a.ids, b.ids), (a.logsumexp, b.logsumexp), (a.entropy, b.entropy)]
    if a.logits is not None and b.logits is not None:
        pairs.append((a.logits, b.logits))
    return (a.logits is None) == (b.logits is None) and all(x.tobytes() == y.tobytes() for x, y in pairs)


def agree(forwards: Sequence[Forward]) -> None:
    """Feed the same passes to all: chains, a tree whose path is kept, rows at a temperature."""
    passes = [
        (text(19), None, FULL),
        (text(1, 1), None, FULL),
        (text(7, 2), TREE, Rows(full=True, temperature=0.7)),
        (text(3, 3), None, Rows(last=True)),
        (text(1, 4), None, Rows((), full=False)),
        (text(1, 5), None, FULL),
    ]
    for tokens, parents, rows in passes:
        first, second = (one.extend(tokens, parents=parents, rows=rows) for one in forwards)
        assert same(first, second), (len(tokens), parents)
        if parents:
            for one in forwards:
                one.keep_path([0, 2, 4])


@pytest.mark.parametrize(("architecture", "kv"), diagonal(ARCHITECTURES, ["fp16", "int8"]))
def test_passes_have_the_bits_of_the_cpu(architecture: str, kv: KvType, made: dict[str, Path]) -> None:
    path = made[architecture]
    agree([on_gpu(path, kv=kv), on_cpu(path, kv=kv)])


@pytest.mark.parametrize("dim", [64, 80])
def test_int8_rows_with_scales_that_fill_words_or_do_not(dim: int, tmp_path: Path) -> None:
    shape = TinyShape(hidden=2 * dim, heads=2, kv_heads=1, head_dim=dim, context=CAPACITY)
    shaped = tmp_path / "shaped"
    export_gguf(write_tiny(tmp_path / "shaped.gguf", "llama", formats="f16", shape=shape), shaped)
    both = [on_gpu(shaped, kv="int8"), on_cpu(shaped, kv="int8")]
    agree(both)
    files = [saved(one, 20) for one in both]
    assert files[0] == files[1]
    for one in both:
        one.read_cache(io.BytesIO(files[0]), 20)
    assert same(*(one.extend(text(2, 6), rows=FULL) for one in both))


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERYWHERE)
def test_the_twin_of_every_model_has_the_bits_of_the_cpu(name: str, tmp_path: Path) -> None:
    twin = tmp_path / "twin"
    export_gguf(write_twin(tmp_path / "twin.gguf", CATALOGUE[name]), twin)
    manifest = Manifest.load(twin)
    capacity = min(CAPACITY, manifest.spec.context_length)
    model = GpuModel(twin, manifest, device=adapters.device())
    agree([model.forward(CacheConfig(capacity)), on_cpu(twin, capacity)])


def test_all_columns_of_a_gated_product_are_computed_whatever_the_pass(bundle: Path) -> None:
    """Each kernel of products takes another share of the columns."""
    forwards = on_gpu(bundle), on_cpu(bundle)
    for tokens in (33, 2, 1):
        assert same(*(one.extend(text(tokens), rows=FULL) for one in forwards)), tokens


def test_more_rows_than_go_at_a_time(bundle: Path) -> None:
    gpu, cpu = on_gpu(bundle), on_cpu(bundle)
    assert same(gpu.extend(text(40), rows=FULL), cpu.extend(text(40), rows=FULL))
    chosen = Rows((3, 0, 17))
    assert same(gpu.extend(text(20, 1), rows=chosen), cpu.extend(text(20, 1), rows=chosen))


def saved(forward: Forward, length: int) -> bytes:
    sink = io.BytesIO()
    forward.write_cache(sink, length)
    assert len(sink.getvalue()) == forward.cache_bytes(length)
    return sink.getvalue()


@pytest.mark.parametrize(("architecture", "kv"), diagonal(ARCHITECTURES, ["fp16", "int8"]))
def test_saved_caches_move_between_gpu_and_cpu(architecture: str, kv: KvType, made: dict[str, Path]) -> None:
    path = made[architecture]
    first = [on_gpu(path, kv=kv), on_cpu(path, kv=kv)]
    assert first[0].cache_layout == first[1].cache_layout
    for one in first:
        one.extend(text(30))
    files = [saved(one, 30) for one in first]
    assert files[0] == files[1]
    for one in (on_gpu(path, 48, kv), on_cpu(path, 48, kv)):
        one.extend(text(9, 5))
        one.read_cache(io.BytesIO(files[0]), 30)
        first[1].rewind(30)
        assert same(one.extend(text(2, 6), rows=FULL), first[1].extend(text(2, 6), rows=FULL))


def test_a_file_that_ends_early_leaves_an_empty_cache(bundle: Path) -> None:
    gpu = on_gpu(bundle)
    with pytest.raises(EOFError):
        gpu.read_cache(io.BytesIO(bytes(100)), 20)
    assert gpu.length == 0


@pytest.mark.parametrize("kv", ["fp16", "int8"])
def test_a_prefix_is_copied_on_the_device(kv: KvType, bundle: Path) -> None:
    source, target, fresh = (on_gpu(bundle, slots, kv) for slots in (CAPACITY, 48, CAPACITY))
    source.extend(text(20))
    assert target.copy_prefix(source, 12) == 12
    fresh.extend(text(12))
    assert same(target.extend(text(3, 1), rows=FULL), fresh.extend(text(3, 1), rows=FULL))
    with pytest.raises(ValueError, match="same model and device"):
        target.copy_prefix(on_cpu(bundle), 3)
    with pytest.raises(ValueError, match="in one format"):
        target.copy_prefix(on_gpu(bundle, kv="int8" if kv == "fp16" else "fp16"), 3)


def test_memory_is_leased_before_it_is_taken(bundle: Path) -> None:
    model, ledger = gpu_model(bundle), Ledger()
    forward = model.forward(CacheConfig(CAPACITY), ledger)
    program = model.program(CacheConfig(CAPACITY))
    assert ledger.by_name() == {"kv_cache": program.cache_bytes(), "scratch": program.scratch_bytes()}
    assert forward.nbytes()["kv_cache"] == program.cache_bytes()
    with pytest.raises(MemoryBudgetError, match="no memory for kv_cache"):
        model.forward(CacheConfig(CAPACITY), Ledger({"kv_cache": 10, "scratch": 1 << 30}))


def test_a_lost_device_is_said_and_the_committed_tokens_stay(bundle: Path) -> None:
    device = GpuDevice.open(adapters.adapter())
    forward = GpuModel(bundle, Manifest.load(bundle), device=device).forward(CacheConfig(CAPACITY))
    forward.extend(text(5))
    device._handle.destroy()
    with pytest.raises(DeviceLostError):
        forward.extend(text(1))
    assert forward.length == 5


def test_weights_that_are_cut_short_are_refused(bundle: Path, tmp_path: Path) -> None:
    model = gpu_model(bundle)
    (tmp_path / "weights.bin").write_bytes((bundle / "weights.bin").read_bytes()[:5000])
    weights = GpuWeights(model.device, model.program(CacheConfig(CAPACITY)))
    with pytest.raises(BadFileError, match="cut short"):
        weights.load(tmp_path)


def limits(binding: int, capacity: int = CAPACITY) -> BuildLimits:
    return BuildLimits(capacity, 16, binding)


def test_a_table_over_the_limit_of_a_binding_is_bound_in_parts(bundle: Path) -> None:
    manifest, device = Manifest.load(bundle), adapters.device()
    graph = read_graph(bundle)
    largest = max(one.nbytes for one in graph.tensors.values())
    program = build_program(graph, manifest.spec, limits(largest // 2))
    assert any("#" in name for name in program.tensors)
    weights = GpuWeights(device, program)
    weights.load(bundle)
    whole = gpu_model(bundle)
    parts = Executor(device, program, weights, whole.arithmetic.variants, Ledger())
    forward = whole.forward(CacheConfig(CAPACITY))
    cut = type(forward)(parts, manifest.spec, replace(forward.caps, max_pass=16), Ledger(), 0)
    assert same(cut.extend(text(9), rows=FULL), forward.extend(text(9), rows=FULL))


def test_a_gated_mlp_in_two_dispatches_has_the_same_bits(bundle: Path) -> None:
    manifest, device = Manifest.load(bundle), adapters.device()
    apart = build_program(read_graph(bundle), manifest.spec, replace(limits(1 << 27), fused=False))
    assert not any(step.consts.get("SIDES") == 2 for step in apart.steps)
    assert any(step.kernel == "gated_mlp/gated_mlp" for step in apart.steps)
    weights = GpuWeights(device, apart)
    weights.load(bundle)
    whole = gpu_model(bundle)
    executor = Executor(device, apart, weights, whole.arithmetic.variants, Ledger())
    forward = whole.forward(CacheConfig(CAPACITY))
    made = type(forward)(executor, manifest.spec, replace(forward.caps, max_pass=16), Ledger(), 0)
    for tokens in (text(9), text(1)):
        assert same(made.extend(tokens, rows=FULL), forward.extend(tokens, rows=FULL))


def test_the_report_names_an_adapter_that_fuses_nothing(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = GpuModel(bundle, Manifest.load(bundle), threads=1, device=adapters.device())
    assert ("two dispatches" in model.runtime) == (not model.device.adapter.fuses)
    slow = replace(model.device.adapter, name="SwiftShader Device (Subzero)")
    monkeypatch.setattr(model.device, "adapter", slow)
    assert model.runtime.endswith("gated MLPs in two dispatches: its compiler is slow")
    assert not any(step.consts.get("SIDES") == 2 for step in model.program(CacheConfig(CAPACITY)).steps)


def test_a_context_over_the_limit_of_a_binding_is_refused(bundle: Path) -> None:
    spec = Manifest.load(bundle).spec
    with pytest.raises(UnsupportedError, match=r"a context of [0-9]+ tokens.*use a smaller context"):
        build_program(read_graph(bundle), spec, limits(4096, 512))


def test_room_to_compute_in_does_not_grow_with_the_context(bundle: Path) -> None:
    few, many = (gpu_model(bundle).program(CacheConfig(slots)) for slots in (128, 256))
    assert few.max_pass == many.max_pass
    assert few.scratch_bytes() == many.scratch_bytes()


@pytest.mark.parametrize("kv", ["fp16", "int8"])
def test_a_program_keeps_keys_and_values_as_it_is_asked(kv: KvType, bundle: Path) -> None:
    program = gpu_model(bundle).program(CacheConfig(CAPACITY, kv))
    assert program.kv == kv
