"""Graphs and weights that were tampered with, in the native engine: Python's refusals, and never a crash."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from edgedec.bundle.manifest import MODEL, WEIGHTS
from edgedec.kernels.library import wrong_with_graph
from tests.backends import test_hostile_graph as hostile
from tests.backends.conftest import tiny_bundle
from tests.fuzz.mutate_onnx import mutate_bundle, mutate_places
from tests.kernels.sanitizers import STATUS

__all__ = ["tiny_bundle"]  # a fixture
Bundles = Callable[[str], Path]

_RUN = """
import sys
from pathlib import Path
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import EdgeDecError
from edgedec.bundle.manifest import Manifest
from tests.native.native_forward import NativeModel
manifest = Manifest.load(Path(sys.argv[1]))
for bundle in sorted(Path(sys.argv[2]).iterdir()):
    try:
        forward = NativeModel(bundle, manifest, threads=1).forward(CacheConfig(64))
        forward.extend([1, 2, 3])
        print(bundle.name, "runs")
    except EdgeDecError as error:
        print(bundle.name, error)
"""


def graph_of(bundle: Path, change: Callable[[onnx.ModelProto], object]) -> bytes:
    model = onnx.load(str(bundle / MODEL), load_external_data=False)
    change(model)
    data: bytes = model.SerializeToString()
    return data


@pytest.mark.parametrize(
    ("name", "count"), [("llama", 150), pytest.param("gemma3", 5000, marks=pytest.mark.slow)]
)
def test_damaged_graphs_are_sound_or_refused(name: str, count: int, tiny_bundle: Bundles) -> None:
    rng = random.Random(count)
    whole, weights = ((tiny_bundle(name) / file).read_bytes() for file in (MODEL, WEIGHTS))
    outcomes: set[str | None] = set()
    for _ in range(count):
        files = {MODEL: whole, WEIGHTS: weights}
        if rng.random() < 0.5:
            files[MODEL] = mutate_places(whole, rng)
        else:
            mutate_bundle(files, rng)
        if rng.random() < 0.2:
            files[MODEL] = files[MODEL][: rng.randrange(len(whole))]
        for standard in (False, True):
            outcomes.add(wrong_with_graph(files[MODEL], len(files[WEIGHTS]), standard=standard))
    assert {None, "it is cut short", "a weight lies outside weights.bin"} <= outcomes


def test_tampered_ops_are_refused_in_one_line(tiny_bundle: Bundles, tmp_path: Path) -> None:
    """In a process of its own: what is tested is that it lives."""
    bundle = tiny_bundle("llama")
    for name, (change, _) in hostile.CHANGES.items():
        copy = Path(shutil.copytree(bundle, tmp_path / name))
        (copy / MODEL).write_bytes(graph_of(copy, lambda model, change=change: change(model.graph)))
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(bundle), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode != STATUS, done.stderr
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.splitlines()
    assert len(said) == len(hostile.CHANGES)
    for line in said:
        name = max((one for one in hostile.CHANGES if line.startswith(one + " ")), key=len)
        assert hostile.CHANGES[name][1] in line


def test_damaged_weights_are_no_crash(tiny_bundle: Bundles, tmp_path: Path) -> None:
    bundle = tiny_bundle("llama")
    rng = random.Random(2)
    for number in range(12):
        copy = Path(shutil.copytree(bundle, tmp_path / str(number)))
        content = bytearray((copy / WEIGHTS).read_bytes())
        for _ in range(200):
            content[rng.randrange(len(content))] = rng.choice((0, 0x7C, 0x7E, 0xFF, rng.randrange(256)))
        (copy / WEIGHTS).write_bytes(content if number else content[:-1])
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(bundle), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.splitlines()
    assert len(said) == 12
    assert "0 model.onnx of the bundle is broken: a weight lies outside weights.bin" in done.stdout
