"""A region, a run of ops as one node, has the bits of its ops on any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from edgedec.backends.onnx.model import OnnxModel
from edgedec.backends.onnx.session import one_line_errors
from edgedec.bundle.manifest import DRAFTING, MODEL, Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import EdgeDecError
from edgedec.core.rows import Rows
from edgedec.export import export_gguf
from edgedec.kernels import library
from edgedec.models.catalogue import CATALOGUE
from tests.fixtures.nightly import every
from tests.fixtures.op_sessions import session_of
from tests.fixtures.tiny_models import tiny_bundle
from tests.fixtures.twins import write_twin
from tests.fuzz.op_cases import region

FULL = Rows(full=True)
TREE = (-1, 0, 0, 2, 1)


def passes(bundle: Path, threads: int, *, drafting: bool = False) -> list[np.ndarray[Any, Any]]:
    """All results of a prompt, a tree and a token."""
    manifest = Manifest.load(bundle)
    model = OnnxModel(bundle, manifest, threads=threads, drafting=drafting)
    forward = model.forward(CacheConfig(min(48, manifest.spec.context_length), max_pass=24))
    found = [forward.extend([7 * i % 60 for i in range(23)], rows=FULL), forward.extend([5], rows=FULL)]
    forward.rewind(24)
    found += [forward.extend([3, 1, 4, 1, 5], parents=TREE, rows=FULL)]
    parts = ("values", "ids", "logsumexp", "entropy", "logits")
    return [getattr(rows, part) for rows in found for part in parts]


def alike(one: list[np.ndarray[Any, Any]], other: list[np.ndarray[Any, Any]]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


def nodes(model: bytes) -> list[str]:
    return [node.op_type for node in onnx.load_model_from_string(model).graph.node]


@pytest.fixture
def without_regions(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[np.ndarray[Any, Any]]]:
    def run(*args: Any, **more: Any) -> list[np.ndarray[Any, Any]]:
        with monkeypatch.context() as patched:
            patched.setattr(library, "with_regions", lambda *_: None)
            return passes(*args, **more)

    return run


@pytest.mark.parametrize("name", every(6, list(CATALOGUE)))
def test_the_twin_of_every_model_has_the_same_bits(
    name: str, tmp_path: Path, without_regions: Callable[..., list[np.ndarray[Any, Any]]]
) -> None:
    twin = tmp_path / "twin"
    export_gguf(write_twin(tmp_path / "twin.gguf", CATALOGUE[name]), twin)
    assert "Region" in nodes(library.with_regions((twin / MODEL).read_bytes(), 2) or b"")
    wanted = without_regions(twin, 1)
    for threads in (1, 2, 3, 4):
        assert alike(passes(twin, threads), wanted), threads


def test_graphs_with_exits_have_the_same_bits(
    tmp_path: Path, without_regions: Callable[..., list[np.ndarray[Any, Any]]]
) -> None:
    bundle = tiny_bundle(tmp_path, "llama")
    assert (bundle / DRAFTING).exists()
    assert alike(passes(bundle, 2, drafting=True), without_regions(bundle, 2, drafting=True))


def test_all_layers_are_one_region(tmp_path: Path) -> None:
    model = (tiny_bundle(tmp_path, "llama") / MODEL).read_bytes()
    made = library.with_regions(model, 2)
    assert made
    assert nodes(made) == ["Region", "Gather", "Region", "Concat"]
    assert library.with_regions(made, 2) is None, "a region is no op of a region"


def test_a_graph_without_runs_of_ops_stays() -> None:
    node = helper.make_node("RMSNorm", ["x", "w"], ["y"], domain="ai.edgedec", epsilon=1e-6)
    alone = helper.make_model(helper.make_graph([node], "one", [], []))
    assert library.with_regions(alone.SerializeToString(), 2) is None
    assert library.with_regions(b"no model", 2) is None


@pytest.mark.parametrize("crowd", ["nodes", "ports", "attributes"])
def test_graphs_of_a_size_that_no_model_has_stay(tmp_path: Path, crowd: str) -> None:
    model = onnx.load(tiny_bundle(tmp_path, "llama") / MODEL, load_external_data=False)
    if crowd == "nodes":
        model.graph.node.extend(onnx.NodeProto() for _ in range(20_000))
    elif crowd == "ports":
        model.graph.node.append(onnx.NodeProto(input=[""] * 20_000))
    else:
        model.graph.node.append(onnx.NodeProto(attribute=[onnx.AttributeProto()] * 20_000))
    assert library.with_regions(model.SerializeToString(), 2) is None


def test_a_library_of_an_older_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "load", lambda _: object())
    with pytest.raises(EdgeDecError, match="older version"):
        library.with_regions(b"", 1)


def run_region(model: onnx.ModelProto, threads: int) -> np.ndarray[Any, Any]:
    session = session_of(model, threads)
    with one_line_errors(loading=True):
        x = np.arange(2 * 64, dtype=np.float32).reshape(2, 64)
        weight = np.resize(np.arange(60, dtype=np.uint8), session.get_inputs()[2].shape)
        (y,) = session.run(None, {"x": x, "norm": np.ones(64, np.float32), "weight": weight})
    return y


@pytest.mark.parametrize("helpers", [1, 2, 7, 40])
@pytest.mark.parametrize("threads", [1, 2])
def test_helpers_may_come_one_after_the_other(helpers: int, threads: int) -> None:
    """More tasks than threads: those that come when the work is done leave again."""
    assert run_region(region(helpers), threads).tobytes() == run_region(region(1), 1).tobytes()


def change_ops(model: onnx.ModelProto, change: Callable[[list[onnx.NodeProto]], object]) -> None:
    """Change the program of the only node."""
    (attribute,) = (one for one in model.graph.node[0].attribute if one.name == "ops")
    ops = onnx.GraphProto.FromString(attribute.s)
    inner = list(ops.node)
    change(inner)
    attribute.s = onnx.GraphProto(node=inner).SerializeToString()


def _rewired(index: int, at: int, name: str) -> Callable[[list[onnx.NodeProto]], object]:
    return lambda ops: ops[index].input.__setitem__(at, name)


DAMAGE: dict[str, tuple[Callable[[list[onnx.NodeProto]], object], str]] = {
    "no ops": (lambda ops: ops.clear(), "its ops cannot be read"),
    "an unknown op": (lambda ops: setattr(ops[0], "op_type", "Sum"), "it has no op Sum"),
    "a region within": (lambda ops: setattr(ops[0], "op_type", "Region"), "it has no op Region"),
    "another domain": (lambda ops: setattr(ops[0], "domain", ""), "its ops cannot be read"),
    "a value that nobody makes": (_rewired(1, 0, "z"), "no op before makes z"),
    "a cycle": (_rewired(0, 0, "y"), "no op before makes y"),
    "another type": (_rewired(1, 0, "weight"), "weight is of another type"),
    "another type of input": (_rewired(0, 0, "weight"), "weight is of another type"),
    "a value made twice": (lambda ops: ops.append(ops[0]), "two ops make normed"),
    "an input too few": (lambda ops: ops[0].input.pop(), "RMSNorm lacks an input"),
    "an input too many": (lambda ops: ops[0].input.extend(["x", "x"]), "RMSNorm has too many inputs"),
    "no output": (lambda ops: ops[0].output.pop(), "RMSNorm lacks an output"),
    "an output too many": (lambda ops: ops[0].output.append("more"), "RMSNorm has too many outputs"),
    "another output": (lambda ops: ops[1].output.__setitem__(0, "other"), "no op makes its output y"),
    "no attribute": (lambda ops: ops[0].attribute.pop(), "ai.edgedec.RMSNorm: attribute epsilon is missing"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_program_is_refused_in_one_line(name: str) -> None:
    model, (change, message) = region(2), DAMAGE[name]
    change_ops(model, change)
    with pytest.raises(EdgeDecError) as refused:
        run_region(model, 2)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_op_that_fails_names_itself() -> None:
    model = region(2)
    change_ops(model, lambda ops: ops[1].attribute[0].__setattr__("i", 128))
    with pytest.raises(EdgeDecError, match=r"ai\.edgedec\.QuantLinear: "):
        run_region(model, 2)
