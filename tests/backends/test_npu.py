"""Bundles for an NPU on ONNX Runtime's own ops: against EdgeDec's kernels, cache, lengths, and bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.npu.model import NpuModel
from edgedec.backends.npu.plugins import CHOICE, plugin_for
from edgedec.backends.npu.same_bits import same_bits
from edgedec.backends.open import open_backend
from edgedec.bundle.device_place import DevicePlace
from edgedec.bundle.manifest import NPU_FACTS, WEIGHTS, Manifest
from edgedec.bundle.npu_facts import NpuFacts, graph_name
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import BadFileError, ContextFullError, EdgeDecError, UnsupportedError, UsageError
from edgedec.core.forward import Forward
from edgedec.core.rows import FloatArray, Rows
from edgedec.decode.engine import Engine
from edgedec.decode.speculation import Speculation
from edgedec.disk.installing import pip_install
from edgedec.draft import Lookup, Recycling
from edgedec.sampling import DrawParams
from tests.backends.npu_bundles import npu_bundles, npu_model

PROMPT = [5, 17, 3, 3, 42, 8, 5, 61, 29, 11]
TREE, PARENTS, PATH = [7, 9, 7, 13, 2, 9, 30], [-1, -1, 0, 0, 2, 1, 4], [0, 2, 4, 6]
FULL = Rows(full=True)
ARCHITECTURES = ("llama", "qwen2", "gemma2", "gemma3", "phi3")
TOLERANCE = 0.3
"""Tolerance of logits from -5 to 5: 8 bits of weights and cache against another 8 bits."""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    return npu_bundles(tmp_path_factory.mktemp("npu"))


@pytest.fixture(scope="module")
def model(bundle: Callable[[str], Path]) -> NpuModel:
    return npu_model(bundle("llama"))


def logits(forward: Forward, tokens: list[int], parents: list[int] | None = None) -> FloatArray:
    found = forward.extend(tokens, parents=parents, rows=FULL).logits
    assert found is not None
    return found


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_logits_are_near_those_of_the_kernels(
    architecture: str, bundle: Callable[[str], Path], tiny_bundle: Callable[[str], Path]
) -> None:
    ours = npu_model(bundle(architecture)).forward(CacheConfig(64))
    kernels = tiny_bundle(architecture)
    theirs = open_backend(kernels, Manifest.load(kernels), threads=1).forward(CacheConfig(64))
    for tokens, parents in ((PROMPT, None), (TREE, PARENTS)):
        mine, reference = logits(ours, tokens, parents), logits(theirs, tokens, parents)
        np.testing.assert_allclose(mine, reference, rtol=0, atol=TOLERANCE)
        assert np.corrcoef(mine.ravel(), reference.ravel())[0, 1] > 0.98


def test_a_branch_of_a_tree_is_a_chain(model: NpuModel) -> None:
    forward, plain = model.forward(), model.forward()
    for one in (forward, plain):
        one.extend(PROMPT)
    tree = logits(forward, TREE, PARENTS)
    chain = logits(plain, [TREE[node] for node in PATH])
    np.testing.assert_allclose(tree[PATH], chain, rtol=0, atol=0.02)
    forward.keep_path(PATH)
    assert forward.length == plain.length == len(PROMPT) + len(PATH)
    np.testing.assert_allclose(logits(forward, [21, 4]), logits(plain, [21, 4]), rtol=0, atol=0.02)


def test_passes_of_every_length_agree(model: NpuModel) -> None:
    assert model.lengths == (1, 8, 32)
    whole = logits(model.forward(), PROMPT)
    for size in (1, 3, 9):
        forward = model.forward()
        parts = [logits(forward, PROMPT[at : at + size]) for at in range(0, len(PROMPT), size)]
        np.testing.assert_allclose(np.concatenate(parts), whole, rtol=0, atol=0.02)


def test_a_rewind_forgets(model: NpuModel) -> None:
    forward = model.forward()
    first = logits(forward, PROMPT)
    forward.extend([50, 51, 52])
    forward.rewind(4)
    np.testing.assert_array_equal(logits(forward, PROMPT[4:])[-1:].shape, (1, first.shape[1]))
    np.testing.assert_allclose(forward.extend([7], rows=FULL).logits, _after(model, [*PROMPT, 7]), atol=0.02)


def _after(model: NpuModel, tokens: list[int]) -> FloatArray:
    return logits(model.forward(), tokens)[-1:]


def test_the_cache_ends_where_it_says(model: NpuModel) -> None:
    capacity = model.spec.context_length
    forward = model.forward(CacheConfig(capacity))
    for start in range(0, capacity - 5, 27):
        forward.extend([3] * min(27, capacity - 5 - start))
    assert forward.length == capacity - 5
    forward.extend([1, 2, 3, 4, 5])
    with pytest.raises(ContextFullError):
        forward.extend([1])
    with pytest.raises(UsageError):
        model.forward(CacheConfig(capacity + 1))
    with pytest.raises(ValueError, match="at most 32"):
        model.forward().extend([1] * 33)


def test_what_it_cannot_do_it_says(model: NpuModel) -> None:
    caps = model.caps
    assert (caps.max_pass, caps.trees, caps.exact) == (32, True, False)
    assert (caps.reserves, caps.kv_kinds) == (False, ())
    forward = model.forward()
    assert forward.nbytes()["weights"] == model.weight_bytes
    assert forward.nbytes()["kv_cache"] == sum(rows.nbytes for rows in forward._cache.values())
    assert forward.portable is None
    with pytest.raises(UnsupportedError, match="one sequence"):
        model.sequences(2, batch_tokens=32)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_drafts_change_no_token(temperature: float, bundle: Callable[[str], Path]) -> None:
    asked = npu_model(bundle("llama"), asked=True)
    if not asked.caps.exact:
        pytest.skip("this processor rounds passes of every length differently")
    params = DrawParams(temperature=temperature, seed=3)
    replies = []
    for drafted in (None, Speculation([Lookup(), Recycling()], limit=7), Speculation([Lookup()], limit=15)):
        engine = Engine(asked.forward(), speculation=drafted)
        steps = engine.generate(PROMPT * 2, params, max_tokens=40, stop_ids=())
        replies.append([step.token for step in steps])
    assert replies[0] == replies[1] == replies[2]


class Unequal:
    """A device that adds a little where a token stands in another row."""

    def __init__(self, model: NpuModel, row: int) -> None:
        self.facts, self.spec, self.lengths = model.facts, model.spec, model.lengths
        self.weight_bytes, self.embedded = model.weight_bytes, model.embedded
        self._model, self._row = model, row

    def run(self, length: int, feeds: dict, wanted: list[str]) -> dict:  # type: ignore[type-arg]
        found = self._model.run(length, feeds, wanted)
        found["logits"][self._row :] += 1
        return found


@pytest.mark.parametrize("row", [0, 2, 8])
def test_a_device_that_rounds_rows_differently_is_not_exact(row: int, bundle: Callable[[str], Path]) -> None:
    from edgedec.backends.npu.forward import NpuForward
    from edgedec.memory import CacheBook

    model = npu_model(bundle("llama"), asked=True)
    if not model.caps.exact:
        pytest.skip("this processor rounds passes of every length differently")
    unequal = Unequal(model, row)
    forward = NpuForward(unequal, model.caps, CacheBook(64), None)
    assert same_bits(forward, model.lengths) is (row == 0)


def spoiled(bundle: Path, folder: Path, name: str, change: Callable[[bytes], bytes]) -> EdgeDecError:
    """Return the error of a bundle with one file changed."""
    copy = folder / "spoiled"
    copy.mkdir()
    for file in bundle.iterdir():
        (copy / file.name).write_bytes(change(file.read_bytes()) if file.name == name else file.read_bytes())
    with pytest.raises(EdgeDecError) as found:
        NpuModel(copy, Manifest.load(bundle), threads=1)
    assert "\n" not in found.value.message
    return found.value


def test_a_graph_for_another_length_is_refused(bundle: Callable[[str], Path], tmp_path: Path) -> None:
    other = (bundle("llama") / graph_name(8)).read_bytes()
    error = spoiled(bundle("llama"), tmp_path, graph_name(1), lambda data: other)
    assert isinstance(error, BadFileError)
    assert "verify_1.onnx" in error.message


@pytest.mark.parametrize("name", [graph_name(8), WEIGHTS, NPU_FACTS])
def test_a_file_that_is_cut_is_refused(name: str, bundle: Callable[[str], Path], tmp_path: Path) -> None:
    error = spoiled(bundle("llama"), tmp_path, name, lambda data: data[: len(data) // 2])
    assert isinstance(error, BadFileError)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("lengths", [8, 1]),
        ("lengths", []),
        ("slots", 10**9),
        ("slots", "many"),
        ("group", 7),
        ("formats", {}),
        ("rotary", {}),
        ("embedding", {"offset": 1 << 40, "scales": 0, "factor": 1.0}),
    ],
)
def test_facts_that_cannot_be_are_refused(
    field: str, value: object, bundle: Callable[[str], Path], tmp_path: Path
) -> None:
    def change(data: bytes) -> bytes:
        return json.dumps({**json.loads(data), field: value}).encode()

    error = spoiled(bundle("llama"), tmp_path, NPU_FACTS, change)
    assert isinstance(error, BadFileError)
    assert NPU_FACTS in error.message


def test_without_a_plug_in_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedec.backends.npu.plugins.util.find_spec", lambda name: None)
    monkeypatch.delenv(CHOICE, raising=False)
    with pytest.raises(UnsupportedError) as found:
        plugin_for("npu")
    assert pip_install("npu") in str(found.value.hint)
    monkeypatch.setenv(CHOICE, "abacus")
    with pytest.raises(UsageError, match="abacus"):
        plugin_for("npu")


def test_a_bundle_for_the_cpu_does_not_run_on_an_npu(tiny_bundle: Callable[[str], Path]) -> None:
    path = tiny_bundle("llama")
    with pytest.raises(UnsupportedError, match="exported for the CPU"):
        open_backend(path, Manifest.load(path), place=DevicePlace("npu"))


def test_the_facts_are_read_as_they_were_written(bundle: Callable[[str], Path], tmp_path: Path) -> None:
    path = bundle("gemma2")
    facts = NpuFacts.load(path, Manifest.load(path))
    (tmp_path / NPU_FACTS).write_text(facts.to_json())
    assert NpuFacts.load(tmp_path, Manifest.load(path)) == facts
    assert facts.rotary.keys() >= {"rotary"}
