"""draft/: the native engine drafts with a trained head as Python does, over the same hidden states."""

from __future__ import annotations

import ctypes
import json
import random
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path

import numpy as np
import pytest

from edgedec import native
from edgedec.backends.onnx.head_forward import HeadModel
from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.drafter_manifest import HEAD, DrafterManifest
from edgedec.bundle.exits import taps_of
from edgedec.bundle.head_facts import HeadFacts
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import NotFoundError
from edgedec.core.rows import FloatArray
from edgedec.core.tree import DraftTree
from edgedec.decode.engine import Engine
from edgedec.decode.speculation import Speculation
from edgedec.draft.head import HeadDrafter
from edgedec.export.device import DeviceOrder, choose_drafters, write_device_folder
from edgedec.export.draft_head.bundle import export_head
from edgedec.native import probe
from edgedec.native.library import runtime_path
from edgedec.native.sampling import struct_of
from edgedec.native.structs import CSampling
from edgedec.sampling import DrawParams
from tests.fixtures.draft_heads import random_head
from tests.fixtures.tiny_models import tiny_bundle
from tests.native.test_api_drafters import SETTINGS, plain, tokens

CAPACITY = 100


class Both(HeadDrafter):
    """Python's drafter, which asks the native one the same and fails where it answers otherwise."""

    def __init__(self, folder: Path, target: Path) -> None:
        manifest = Manifest.load(target)
        facts = HeadFacts.of(DrafterManifest.load(folder).facts)
        model = HeadModel(folder, target, facts, manifest.spec.vocab_size, threads=1)
        super().__init__(model.forward(CAPACITY), taps_of(manifest.spec.n_layers), 3 * facts.hidden)
        paths = (str(path).encode() for path in (runtime_path(), folder, target))
        self._other = probe.function("head_open", c_void_p, c_char_p, c_char_p, c_char_p, c_int64)(
            *paths, CAPACITY
        )
        assert self._other
        self.drafted = 0

    def close(self) -> None:
        probe.function("head_close", None, c_void_p)(self._other)

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        super().begin(tokens, kept)
        self._tell(tokens, kept)

    def commit(self, tokens: Sequence[int]) -> None:
        super().commit(tokens)
        self._tell(tokens, -1)

    def read(self, start: int, hidden: FloatArray) -> None:
        super().read(start, hidden)
        all_ = np.ascontiguousarray(hidden)
        call = probe.function("head_read", c_int, c_void_p, c_int64, POINTER(c_float), c_size_t)
        assert call(self._other, start, all_.ctypes.data_as(POINTER(c_float)), all_.size) == 0

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        tree = super().propose(limit, floor)
        found = json.loads(
            probe.text_function("head_propose", c_void_p, c_int, c_double)(self._other, limit, floor)
        )
        assert found == [list(one) for one in zip(tree.tokens, tree.parents, tree.probs, strict=True)]
        self.drafted += len(tree)
        return tree

    def _tell(self, tokens: Sequence[int], kept: int) -> None:
        call = probe.function(
            "head_tokens", c_int, c_void_p, POINTER(c_int32), c_size_t, c_int64, POINTER(CSampling)
        )
        params = struct_of(self._params)
        given = (c_int32 * len(tokens))(*tokens)
        assert call(self._other, given, len(tokens), kept, ctypes.byref(params)) == 0


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def head(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    manifest, folder = Manifest.load(target), tmp_path_factory.mktemp("head") / HEAD
    export_head(random_head(manifest.spec.hidden_size, manifest.spec.vocab_size, ids=200), target, folder)
    return folder


def test_random_conversations_have_the_same_drafts(target: Path, head: Path) -> None:
    draw = random.Random(5)
    manifest = Manifest.load(target)
    model = OnnxModel(target, manifest, threads=1, spin=False, drafting=True)
    failed: list[str] = []
    drafter = Both(head, target)
    engine = Engine(
        model.forward(CacheConfig(400, "fp16", 40)),
        speculation=Speculation([drafter], limit=8, notice=failed.append),
    )
    text = [draw.randrange(250) for _ in range(20)]
    for round_ in range(8):
        params = DrawParams(temperature=0.8, seed=round_) if round_ % 2 else DrawParams()
        if round_ == 5:
            params = DrawParams(temperature=0.5, repetition_penalty=1.2, frequency_penalty=0.3, seed=1)
        steps = list(engine.generate(text, params, max_tokens=draw.choice((3, 20)), stop_ids=()))
        text += [step.token for step in steps]
        if draw.random() < 0.4:
            text = text[: draw.randrange(1, len(text))]
        text += [draw.randrange(250) for _ in range(draw.choice((1, 5, 60)))]
        text = text[-250:]
    assert not failed
    assert drafter.drafted > 100
    drafter.close()


def test_a_folder_with_a_head_drafts_with_it(target: Path, head: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="has no trained head"):
        native.plan(target, draft="head", **SETTINGS)
    chosen = choose_drafters((str(head),), target, tmp_path / "home")
    write_device_folder(DeviceOrder("android", target, chosen, None, tmp_path / "home"), tmp_path / "phone")
    for draft, names in (("head", ["head"]), ("auto", ["lookup", "recycling", "head"])):
        found, drafted, told = tokens(tmp_path / "phone", draft=draft)
        assert found == plain(target)
        assert list(drafted) == names
        assert drafted["head"]["queries"]
        assert not [line for line in told if "head" in line]
    weights = (head / "weights.bin").stat().st_size
    assert native.plan(tmp_path / "phone", draft="head", **SETTINGS)["parts"]["head"] > weights
    file = tmp_path / "phone" / "drafters" / HEAD / "head.onnx"
    file.write_bytes(file.read_bytes()[:-10])
    found, drafted, told = tokens(tmp_path / "phone")
    assert found == plain(target)
    assert "head" not in drafted
    assert len([line for line in told if "runs without its trained head" in line]) == 1
