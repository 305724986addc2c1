"""Experts that stay on the disk: the rows of those in memory, with any number of slots; and faults."""

from __future__ import annotations

import gc
import mmap
import os
import shutil
import sys
from ctypes import c_size_t, c_uint64
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgedec
from edgedec.assemble import budget as budgets
from edgedec.assemble.config import RunConfig
from edgedec.assemble.run_context import RunContext
from edgedec.backends.onnx import expert_store
from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.device_place import DevicePlace
from edgedec.bundle.manifest import MODEL, WEIGHTS, Manifest
from edgedec.core.errors import BackendError, BadFileError
from edgedec.export import export_gguf
from edgedec.kernels import library
from tests.fixtures.ready import chat_of
from tests.fixtures.streamed import BESIDE
from tests.fixtures.tiny_experts import ExpertShape
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import prepared_run, run_tiny

ARCHITECTURES = {"qwen3moe": 3, "lfm2moe": 4, "granitemoe": 2, "qwen35moe": 4, "gemma4moe": 6, "gpt-oss": 4}
"""Layers of each."""
EXPERTS = ExpertShape(count=24, chosen=2, width=32)
TIGHT = 1
"""A budget in which no model fits, so that its experts stay on the disk."""


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, made = tmp_path_factory.mktemp("experts"), {}
    for name, layers in ARCHITECTURES.items():
        shape = TinyShape(layers=layers, experts=EXPERTS)
        export_gguf(write_tiny(folder / f"{name}.gguf", name, shape=shape), folder / name)
        made[name] = folder / name
    return made


@pytest.fixture(autouse=True)
def _the_same_process_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "rss_bytes", lambda: 100_000_000)
    monkeypatch.setattr(budgets, "mapped_rss_bytes", lambda name: 0)


def opened(bundle: Path, memory: int | None) -> OnnxModel:
    return OnnxModel(bundle, Manifest.load(bundle), threads=2, spin=False, place=DevicePlace(memory=memory))


def rows(model: OnnxModel) -> list[bytes]:
    """The best tokens and their logits of a prompt, single tokens and a tree of drafts."""
    forward, found = model.forward(), []
    tokens = np.random.default_rng(1).integers(0, model.spec.vocab_size, 60).tolist()
    passes = [
        (tokens[:30], None),
        (tokens[30:31], None),
        (tokens[31:35], [-1, 0, 0, 1]),
        (tokens[35:60], None),
    ]
    for part, parents in passes:
        result = forward.extend(part, parents=parents)
        found += [np.asarray(result.ids).tobytes(), np.asarray(result.values).tobytes()]
        if parents:
            forward.keep_path([0, 1])
    return found


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_rows_are_those_of_a_model_in_memory(bundles: dict[str, Path], name: str) -> None:
    whole = opened(bundles[name], None)
    expected = rows(whole)
    assert whole.experts is None
    streamed = opened(bundles[name], TIGHT)
    store, experts = streamed.experts, streamed.spec.experts
    assert store is not None
    assert experts is not None
    assert streamed.weight_bytes < whole.weight_bytes - experts.nbytes // 2
    for slots in (1, 9, experts.total // 2, experts.total, 2):
        store.limit(slots)
        assert rows(streamed) == expected, slots


def test_with_room_for_all_each_expert_is_read_once(bundles: dict[str, Path]) -> None:
    model = opened(bundles["qwen3moe"], TIGHT)
    store = model.experts
    assert store is not None
    store.limit(1 << 30)
    rows(model)
    first = store.counts()
    assert 0 < first.bytes_read <= store.experts.nbytes
    rows(model)
    again = store.counts()
    assert again.bytes_read == first.bytes_read
    assert again.held == 2 * first.held
    assert again.hits == first.hits + first.held


def test_a_machine_with_little_memory_left_keeps_them_on_the_disk_unasked(
    bundles: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = bundles["qwen3moe"]
    nbytes = Manifest.load(bundle).files[WEIGHTS].bytes
    for left, on_disk in ((nbytes + BESIDE, False), (nbytes + BESIDE - 1, True)):
        monkeypatch.setattr(expert_store, "available_bytes", lambda left=left: left)
        assert (opened(bundle, None).experts is not None) == on_disk


def test_a_budget_that_the_machine_does_not_have_is_none(
    bundles: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = bundles["qwen3moe"]
    manifest = Manifest.load(bundle)
    dense = manifest.files[WEIGHTS].bytes - manifest.spec.experts.nbytes
    left = BESIDE + dense + 20 * manifest.spec.experts.slot_bytes
    monkeypatch.setattr(expert_store, "available_bytes", lambda: left)
    store = opened(bundle, 1 << 40).experts
    assert store is not None
    assert (store.slots, store.most) == (store.least, 20)


def test_passes_go_on_where_nobody_holds_the_model_any_more(bundles: dict[str, Path]) -> None:
    model = opened(bundles["qwen3moe"], TIGHT)
    forward, tokens = model.forward(), [3, 4, 5]
    expected = np.asarray(model.forward().extend(tokens).values).tobytes()
    del model
    gc.collect()
    assert np.asarray(forward.extend(tokens).values).tobytes() == expected


def _own_bytes(file: Path) -> tuple[int, int]:
    """Bytes of the pages into which ``file`` is mapped, and those of them that are the process's own."""
    mapped = own = 0
    inside = False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            inside = line.endswith(f" {file.resolve()}")
        elif inside and words[0] in ("Size:", "Anonymous:"):
            mapped += 1024 * int(words[1]) * (words[0] == "Size:")
            own += 1024 * int(words[1]) * (words[0] == "Anonymous:")
    return mapped, own


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say what is mapped")
@pytest.mark.parametrize("memory", [TIGHT, None])
def test_dense_weights_are_the_process_s_own_beside_slots(
    bundles: dict[str, Path], tmp_path: Path, memory: int | None
) -> None:
    """Where slots take what memory there is, the system would drop pages of a file in the midst of a pass."""
    bundle = shutil.copytree(bundles["qwen3moe"], tmp_path / "m")
    model = opened(bundle, memory)
    mapped, own = _own_bytes(bundle / WEIGHTS)
    assert mapped > 0
    if memory is None:
        assert own == 0
    else:
        table = model.spec.table_bytes
        assert mapped - table - mmap.PAGESIZE <= own <= mapped


@pytest.mark.parametrize("old", [False, True])
def test_a_table_of_embeddings_stays_mapped(tmp_path: Path, old: bool) -> None:
    """Also where the system does not know the advice by which pages become the process's own."""
    file = tmp_path / "file"
    file.write_bytes(bytes(10 * mmap.PAGESIZE))
    with file.open("rb") as opened_file:
        held = mmap.mmap(
            opened_file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE
        )
    own = library.load().edgedec_make_own
    assert own(os.fsencode(file), None, c_size_t(0), c_uint64(3 * mmap.PAGESIZE + 1), 1, int(old)) == 0
    assert _own_bytes(file) == (10 * mmap.PAGESIZE, 7 * mmap.PAGESIZE)
    held.close()


def test_dense_weights_beyond_the_end_of_the_file_are_one_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(10 * mmap.PAGESIZE))
    with file.open("rb") as opened_file:
        held = mmap.mmap(
            opened_file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE
        )
    os.truncate(file, 2 * mmap.PAGESIZE)
    with pytest.raises(BackendError, match="the weights cannot be read into memory: "):
        expert_store.keep_dense(file, [], 0, short=False)
    held.close()


def test_a_file_that_is_cut_ends_the_pass_in_one_line(bundles: dict[str, Path], tmp_path: Path) -> None:
    """The next pass works again, once the file does."""
    bundle = bundles["qwen3moe"]
    whole = (bundle / WEIGHTS).read_bytes()
    model = opened(bundle, TIGHT)
    expected = rows(opened(bundle, None))
    os.truncate(bundle / WEIGHTS, len(whole) // 2)
    try:
        with pytest.raises(BackendError, match=r"^an expert cannot be read") as caught:
            rows(model)
        assert "\n" not in str(caught.value)
    finally:
        (bundle / WEIGHTS).write_bytes(whole)
    assert rows(model) == expected


def test_a_flipped_bit_is_noticed_when_the_expert_is_read(bundles: dict[str, Path]) -> None:
    bundle = bundles["qwen3moe"]
    expected = rows(opened(bundle, None))
    whole = (bundle / WEIGHTS).read_bytes()
    graph = onnx.load(str(bundle / MODEL), load_external_data=False).graph
    (place,) = [
        int(entry.value)
        for tensor in graph.initializer
        if tensor.name == "blk.1.ffn_exps.weight"
        for entry in tensor.external_data
        if entry.key == "offset"
    ]
    damaged = bytearray(whole)
    damaged[place + 5] ^= 4  # of the first expert, which some token of the prompt takes
    model = opened(bundle, TIGHT)
    (bundle / WEIGHTS).write_bytes(damaged)
    try:
        with pytest.raises(BackendError, match="an expert is damaged: verify the bundle"):
            rows(model)
    finally:
        (bundle / WEIGHTS).write_bytes(whole)
    assert rows(model) == expected


def _graph_of(bundle: Path) -> onnx.ModelProto:
    return onnx.load(str(bundle / MODEL), load_external_data=False)


def _experts_of(graph: onnx.ModelProto) -> tuple[onnx.NodeProto, onnx.TensorProto]:
    node = next(node for node in graph.graph.node if node.op_type == "Experts")
    return node, next(tensor for tensor in graph.graph.initializer if tensor.name == node.input[2])


def test_a_graph_may_say_nothing_of_stores_itself(bundles: dict[str, Path]) -> None:
    """Its experts come from the store that its own model has."""
    graph = _graph_of(bundles["qwen3moe"])
    node, tensor = _experts_of(graph)
    places = {entry.key: int(entry.value) for entry in tensor.external_data if entry.key == "offset"}
    for name in ("store", "place"):
        node.attribute.append(onnx.helper.make_attribute(name, 1))
    found, _ = _experts_of(onnx.ModelProto.FromString(expert_store.from_store(graph.SerializeToString(), 7)))
    stated = [(one.name, one.i) for one in found.attribute if one.name in ("store", "place")]
    assert stated == [("store", 7), ("place", places["offset"])]


def test_experts_at_the_begin_of_the_file_need_no_place(bundles: dict[str, Path]) -> None:
    graph = _graph_of(bundles["qwen3moe"])
    _, tensor = _experts_of(graph)
    kept = [entry for entry in tensor.external_data if entry.key != "offset"]
    del tensor.external_data[:]
    tensor.external_data.extend(kept)
    found, _ = _experts_of(onnx.ModelProto.FromString(expert_store.from_store(graph.SerializeToString(), 7)))
    assert [one.i for one in found.attribute if one.name == "place"] == [0]


@pytest.mark.parametrize("harm", ["inputs", "dims", "inside"])
def test_experts_that_are_none_stay_as_they_are(bundles: dict[str, Path], harm: str) -> None:
    """Opening the graph says why they are none."""
    graph = _graph_of(bundles["qwen3moe"])
    node, tensor = _experts_of(graph)
    if harm == "inputs":
        del node.input[2:]
    elif harm == "dims":
        del tensor.dims[:]
    else:
        del tensor.external_data[:]
    found = onnx.ModelProto.FromString(expert_store.from_store(graph.SerializeToString(), 7))
    first = next(node for node in found.graph.node if node.op_type == "Experts")
    assert "store" not in {one.name for one in first.attribute}


def test_bytes_that_are_no_graph_are_one_line() -> None:
    with pytest.raises(BadFileError, match="it is no ONNX model"):
        expert_store.from_store(b"\xff\xff", 7)


def test_a_manifest_with_smaller_experts_is_refused(bundles: dict[str, Path]) -> None:
    manifest = Manifest.load(bundles["qwen3moe"])
    experts = manifest.spec.experts
    assert experts is not None
    small = replace(experts, slot_bytes=4096, nbytes=experts.total * 4096)
    other = replace(manifest, spec=replace(manifest.spec, experts=small))
    with pytest.raises(BadFileError, match=r"^an expert is larger than a slot of its store") as caught:
        OnnxModel(bundles["qwen3moe"], other, place=DevicePlace(memory=TIGHT))
    assert caught.value.hint


def test_a_manifest_with_more_experts_than_bytes_is_refused(bundles: dict[str, Path]) -> None:
    manifest = Manifest.load(bundles["qwen3moe"])
    files = {**manifest.files, WEIGHTS: replace(manifest.files[WEIGHTS], bytes=4096)}
    with pytest.raises(BadFileError, match=r"has experts of \d+ bytes, and weights.bin only 4096"):
        OnnxModel(bundles["qwen3moe"], replace(manifest, files=files), place=DevicePlace(memory=TIGHT))


def test_a_budget_gives_experts_what_is_left_and_changes_no_reply(bundles: dict[str, Path]) -> None:
    bundle, replies, slots = bundles["qwen3moe"], set(), []
    for memory in (None, 109_000_000, 111_000_000, 200_000_000):
        model = run_tiny(bundle, memory=memory, context=64, draft="auto")
        replies.add(chat_of(model).reply("What is a mixture?", max_tokens=40).text)
        store = model.runner.prepared.target.backend.experts
        slots.append(store.slots if store else None)
        if store:
            parts = model.runner.prepared.plan().plan.parts
            assert parts["experts"] == store.slots * store.experts.slot_bytes
    assert len(replies) == 1
    assert slots[0] is None
    assert slots[1] < slots[2] <= slots[3] == 72


def test_statistics_say_what_was_read(bundles: dict[str, Path]) -> None:
    with edgedec.open(str(bundles["qwen3moe"]), threads=1, draft="off", memory="400MB", context=64) as model:
        model.complete("a", max_tokens=8).read()
        found = model.stats().experts
    assert found is not None
    assert found.total == 72
    assert found.counts.held > 0
    assert found.counts.bytes_read == (found.counts.held - found.counts.hits) * _stride(bundles["qwen3moe"])
    facts = found.as_json()
    assert facts["hit_rate"] == round(found.counts.hits / found.counts.held, 6)


def test_a_model_in_memory_has_no_such_statistics(bundles: dict[str, Path]) -> None:
    with edgedec.open(str(bundles["qwen3moe"]), threads=1, draft="off", context=64) as model:
        assert model.stats().experts is None
        assert "experts" not in model.stats().as_json()


def _stride(bundle: Path) -> int:
    experts = Manifest.load(bundle).spec.experts
    assert experts is not None
    return experts.slot_bytes


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        (None, None),
        ("400MB", "note: there is room for all 72 experts; each is read when a token first needs it"),
    ],
)
def test_a_line_says_where_experts_are(
    bundles: dict[str, Path], memory: str | None, said: str | None
) -> None:
    lines: list[str] = []
    config = RunConfig(threads=1, draft="off", memory=memory, context=64)
    prepared_run(bundles["qwen3moe"], config, RunContext(notice=lines.append))
    assert [line for line in lines if "experts" in line] == ([said] if said else [])
