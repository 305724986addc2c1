"""``drafting.onnx``: optional, listed in the manifest, checked before use, within its share of memory."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgedec.backends.onnx.model import OnnxModel
from edgedec.backends.open import open_backend
from edgedec.bundle.exits import exits_of, taps_of
from edgedec.bundle.manifest import DRAFTING, MODEL, WEIGHTS, Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import BadFileError, EdgeDecError, UnsupportedError
from edgedec.core.ledger import Ledger
from edgedec.core.rows import Rows
from edgedec.memory.footprint import MemoryChoice, MemoryFacts, ModelMemory, footprint, scratch_bytes
from tests.fixtures.opened import shared_cache

Bundles = Callable[[str], Path]
Change = Callable[[onnx.ModelProto], None]


def set_fact(key: str, value: str) -> Change:
    def change(model: onnx.ModelProto) -> None:
        next(item for item in model.metadata_props if item.key == key).value = value

    return change


def drop_input(name: str) -> Change:
    """Make an input of an initialiser, as if the graph had never had it."""

    def change(model: onnx.ModelProto) -> None:
        given = next(value for value in model.graph.input if value.name == name)
        model.graph.input.remove(given)
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(0, np.int64), name))

    return change


def drop_output(name: str) -> Change:
    return lambda model: model.graph.output.remove(next(v for v in model.graph.output if v.name == name))


def weight_elsewhere(model: onnx.ModelProto) -> None:
    weight = next(tensor for tensor in model.graph.initializer if tensor.external_data)
    next(entry for entry in weight.external_data if entry.key == "offset").value = str(1 << 40)


CHANGES: dict[str, tuple[Change, str]] = {
    "no exits": (set_fact("exits", ""), "is not the model"),
    "exits that are no numbers": (set_fact("exits", "1,two"), "is not the model"),
    "exits beyond the layers": (set_fact("exits", "1,2,3"), "is not the model"),
    "exits that do not ascend": (set_fact("exits", "2,1"), "is not the model"),
    "exits that do not end with all layers": (set_fact("exits", "1"), "is not the model"),
    "hidden states of no layer": (set_fact("taps", ""), "is not the model"),
    "hidden states of a layer beyond the last": (set_fact("taps", "0,1,2"), "is not the model"),
    "no ids to keep": (drop_input("keep"), "is not the model"),
    "no way past an exit": (drop_input("passing.1"), "is not the model"),
    "no hidden states": (drop_output("blk.0.out"), "is not the model"),
    "a weight elsewhere": (weight_elsewhere, "a weight lies outside"),
}


def copied(bundle: Path, to: Path) -> Path:
    return Path(shutil.copytree(bundle, to / "copy"))


@pytest.mark.parametrize("name", CHANGES)
def test_a_tampered_graph_is_refused_in_one_line(name: str, tiny_bundle: Bundles, tmp_path: Path) -> None:
    change, said = CHANGES[name]
    bundle = copied(tiny_bundle("llama"), tmp_path)
    manifest = Manifest.load(bundle)
    model = onnx.load(str(bundle / DRAFTING), load_external_data=False)
    change(model)
    (bundle / DRAFTING).write_bytes(model.SerializeToString())
    with pytest.raises(BadFileError, match=rf"^drafting\.onnx of the bundle .*{said}") as refused:
        OnnxModel(bundle, manifest, threads=1, spin=False, drafting=True)
    assert "\n" not in str(refused.value)
    assert OnnxModel(bundle, manifest, threads=1, spin=False).forward().extend([1]).ids.size


@pytest.mark.parametrize("length", [0, 100, 5000])
def test_a_graph_that_is_cut_short_is_refused_in_one_line(
    length: int, tiny_bundle: Bundles, tmp_path: Path
) -> None:
    bundle = copied(tiny_bundle("llama"), tmp_path)
    manifest = Manifest.load(bundle)
    (bundle / DRAFTING).write_bytes((bundle / DRAFTING).read_bytes()[:length])
    with pytest.raises(EdgeDecError) as refused:
        OnnxModel(bundle, manifest, threads=1, spin=False, drafting=True)
    assert "\n" not in str(refused.value)
    with pytest.raises(BadFileError, match=r"drafting\.onnx of the bundle has"):
        Manifest.load(bundle)


def test_a_changed_graph_fails_its_hash(tiny_bundle: Bundles, tmp_path: Path) -> None:
    bundle = copied(tiny_bundle("llama"), tmp_path)
    content = bytearray((bundle / DRAFTING).read_bytes())
    content[-1] ^= 1
    (bundle / DRAFTING).write_bytes(content)
    with pytest.raises(BadFileError, match=r"drafting\.onnx of the bundle fails its SHA-256"):
        Manifest.load(bundle, verify=True)


def test_a_graph_of_another_model_is_refused(tiny_bundle: Bundles, tmp_path: Path) -> None:
    bundle = copied(tiny_bundle("llama"), tmp_path)
    shutil.copy(tiny_bundle("gemma3") / DRAFTING, bundle / DRAFTING)
    with pytest.raises(BadFileError, match=r"^drafting\.onnx of the bundle"):
        OnnxModel(bundle, Manifest.load(tiny_bundle("llama")), threads=1, spin=False, drafting=True)


def test_a_bundle_may_lack_it(tiny_bundle: Bundles, tmp_path: Path) -> None:
    bundle = copied(tiny_bundle("llama"), tmp_path)
    manifest = Manifest.load(bundle)
    (bundle / DRAFTING).unlink()
    files = {name: entry for name, entry in manifest.files.items() if name != DRAFTING}
    replace(manifest, files=files).save(bundle)
    backend = open_backend(bundle, Manifest.load(bundle), threads=1, drafting=True)
    assert (backend.caps.exits, backend.caps.taps) == ((), ())
    assert backend.forward().caps.exits == ()


def test_exits_are_opened_on_request_and_reported(tiny_bundle: Bundles) -> None:
    bundle = tiny_bundle("deep.gemma3")
    manifest = Manifest.load(bundle)
    assert open_backend(bundle, manifest, threads=1).caps.exits == ()
    caps = open_backend(bundle, manifest, threads=1, drafting=True).caps
    assert (caps.exits, caps.taps) == (
        exits_of(9),
        tuple(sorted({*taps_of(9), *(one - 1 for one in exits_of(9))})),
    )


def test_it_uses_the_weights_of_the_model(tiny_bundle: Bundles) -> None:
    bundle = tiny_bundle("qwen2")
    graphs = [onnx.load(str(bundle / name), load_external_data=False).graph for name in (MODEL, DRAFTING)]
    first, second = ({tensor.name: tensor for tensor in graph.initializer} for graph in graphs)
    assert first == second
    assert (bundle / DRAFTING).stat().st_size < 30_000 < (bundle / WEIGHTS).stat().st_size


def test_several_sequences_have_no_exits_and_the_same_bits(tiny_bundle: Bundles) -> None:
    bundle = tiny_bundle("llama")
    plain = shared_cache(bundle, 2, piece=16, most=32).forwards[1]
    model = OnnxModel(bundle, Manifest.load(bundle), threads=2, spin=False, drafting=True)
    forward = model.shared_cache(2, CacheConfig(64, max_pass=16), 32).forwards[1]
    assert (forward.caps.exits, forward.caps.taps) == ((), ())
    assert forward.peeking is None
    with pytest.raises(UnsupportedError):
        forward.extend([1], rows=Rows(taps=taps_of(9)))
    rows = Rows(full=True)
    got, expected = forward.extend([5, 6, 7], rows=rows).logits, plain.extend([5, 6, 7], rows=rows).logits
    assert got is not None
    assert expected is not None
    assert got.tobytes() == expected.tobytes()


def test_memory_of_hidden_states_and_peeks_stays_within_its_formulas(tiny_bundle: Bundles) -> None:
    bundle = tiny_bundle("deep.llama")
    model = OnnxModel(bundle, Manifest.load(bundle), threads=1, spin=False, drafting=True)
    longest, drafted, exits = 64, 15, len(model.caps.exits)
    memory = ModelMemory(model.spec, model.weight_bytes, 1, 3 * model.spec.hidden_size, exits)
    choice = MemoryChoice(128, prompt_pass=longest, drafted=drafted)
    share = footprint(MemoryFacts(memory, process=0), choice)["hidden"]
    scratch = scratch_bytes(model.spec, 1, longest, 128, exits)
    assert scratch > scratch_bytes(model.spec, 1, longest, 128)
    shares = {"kv_cache": 1 << 30, "slack": 1 << 24, "scratch": scratch, "hidden": share}
    ledger = Ledger(shares)
    forward = model.forward(CacheConfig(128, max_pass=longest), ledger)
    for _ in range(2):
        found = forward.extend([3] * longest, rows=Rows(taps=taps_of(9)))
        assert found.hidden is not None
        del found
        for token in range(drafted + 1):
            forward.peek([token], exit=model.caps.exits[-1])
        forward.rewind(0)
    most = ledger.most()["hidden"]
    assert share / 2 < most <= share
    assert ledger.by_name().get("hidden", 0) == 0


@pytest.mark.parametrize("layers", [1, 2, 3, 9, 18, 28, 30, 100])
def test_every_depth_has_exits_and_three_layers_of_hidden_states(layers: int) -> None:
    exits, taps = exits_of(layers), taps_of(layers)
    assert exits == tuple(sorted(set(exits)))
    assert exits[0] >= 1
    assert exits[-1] == layers
    assert len(exits) == min(8, layers)
    assert 0 <= taps[0] <= taps[1] <= taps[2] < layers
