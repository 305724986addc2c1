"""Mixtures of experts on a GPU, which chooses them: the CPU's bits in passes, trees and drafted replies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgedec
from edgedec import RunConfig, SamplingParams
from edgedec.backends.gpu.adapter import CHOICE
from edgedec.backends.gpu.build.build import build_program
from edgedec.backends.gpu.build.builder import BuildLimits
from edgedec.backends.gpu.device import GpuDevice
from edgedec.backends.gpu.opening import place_on_gpu
from edgedec.backends.onnx.graph import OpGraph, read_graph
from edgedec.bundle.device_place import DevicePlace
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import Device
from edgedec.core.errors import MemoryBudgetError, UnsupportedError
from edgedec.export import export_gguf
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.gpu import adapters, cases
from tests.gpu.test_model import agree, on_cpu, on_gpu

LAYERS = {"qwen3moe": 2, "lfm2moe": 4, "granitemoe": 2, "qwen35moe": 4, "gpt-oss": 4}
"""Mixtures that GPUs run, and layers of their tiny models."""
TEXT = "one two one two one two one"
SAMPLED = SamplingParams(temperature=0.8, seed=3)


@pytest.fixture(scope="module")
def mixtures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("mixtures")
    for architecture, layers in LAYERS.items():
        file = write_tiny(folder / f"{architecture}.gguf", architecture, shape=TinyShape(layers=layers))
        export_gguf(file, folder / architecture)
    return {architecture: folder / architecture for architecture in LAYERS}


@pytest.mark.parametrize("architecture", LAYERS)
def test_passes_have_the_bits_of_the_cpu(architecture: str, mixtures: dict[str, Path]) -> None:
    agree([on_gpu(mixtures[architecture]), on_cpu(mixtures[architecture])])


def reply(bundle: Path, device: Device, draft: str) -> str:
    with edgedec.open(bundle, RunConfig(device=device, draft=draft, context=128, threads=1)) as model:
        return model.complete(TEXT, sampling=SAMPLED, max_tokens=16).read()


@pytest.mark.parametrize("architecture", ["qwen3moe", "lfm2moe"])
def test_replies_are_those_of_the_cpu(
    architecture: str, mixtures: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CHOICE, adapters.adapter().name)
    plain = reply(mixtures[architecture], "cpu", "off")
    assert reply(mixtures[architecture], "gpu", "lookup,recycling") == plain


@pytest.mark.parametrize("count", [7, 130])
def test_of_equal_scores_the_lower_index_is_chosen(count: int, device: GpuDevice) -> None:
    """Scores of few different values; the chosen ones ascend."""
    rng, tokens, chosen = np.random.default_rng(count), 3, 5
    scores = rng.integers(0, 4, (tokens, count)).astype(np.float32)
    consts = {"EXPERTS": count, "CHOSEN": chosen, "SIGMOID": False, "NORMALISE": True}
    consts |= {"CHOICE": False, "FACTOR": False, "EPSILON": 0.0, "SCALE": 1.0}
    room = np.zeros((tokens, chosen, 2), np.uint32)
    case = cases.KernelCase(
        "experts/choose",
        consts,
        (scores, scores, scores, room),
        {4: room},
        (tokens, 1, 1),
        {"tokens": tokens},
    )
    found = np.frombuffer(cases.run(device, case)[4], np.uint32).reshape(room.shape)
    expected = np.sort(np.argsort(-scores, axis=1, kind="stable")[:, :chosen], axis=1)
    assert np.array_equal(found[:, :, 0], expected)
    assert np.allclose(found[:, :, 1].copy().view(np.float32).sum(axis=1), 1.0)


def graph_and_spec(bundle: Path) -> tuple[OpGraph, Manifest]:
    return read_graph(bundle), Manifest.load(bundle)


def test_experts_that_no_binding_holds_are_bound_in_parts(mixtures: dict[str, Path]) -> None:
    graph, manifest = graph_and_spec(mixtures["qwen3moe"])
    assert manifest.spec.experts
    stride = manifest.spec.experts.slot_bytes
    whole = build_program(graph, manifest.spec, BuildLimits(64, 16, 1 << 27))
    parts = build_program(graph, manifest.spec, BuildLimits(64, 16, 4 * stride))
    bound = [(step.consts["BOUND"], step.consts["COUNT"]) for step in parts.steps if "BOUND" in step.consts]
    assert bound[:2] == [(0, 4), (4, 2)]
    assert parts.weight_bytes() == whole.weight_bytes()


def test_experts_in_floats_are_refused(mixtures: dict[str, Path]) -> None:
    graph, manifest = graph_and_spec(mixtures["qwen3moe"])
    nodes = tuple(
        replace(node, attributes={**node.attributes, "formats": "f16,f16,f16"})
        if node.op == "Experts"
        else node
        for node in graph.nodes
    )
    with pytest.raises(UnsupportedError, match="experts in f16 have no kernel for GPUs"):
        build_program(replace(graph, nodes=nodes), manifest.spec, BuildLimits(64, 16, 1 << 27))


def test_experts_that_do_not_fit_on_the_gpu_are_refused(mixtures: dict[str, Path]) -> None:
    """None are read from the disk there."""
    bundle = mixtures["qwen3moe"]
    place = DevicePlace("gpu", 300_000, 64)
    with pytest.raises(MemoryBudgetError, match=r"takes .* of the GPU's memory and may take 300\.0 kB"):
        place_on_gpu(bundle, Manifest.load(bundle), place, threads=1, device=adapters.device())
