"""Heads that read other layers of the target than its graph for drafting hands out by itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.drafter_manifest import HEAD, Target
from edgedec.bundle.manifest import Manifest
from edgedec.core.rows import Rows
from edgedec.export import export_gguf
from edgedec.export.draft_head.bundle import export_head
from tests.fixtures.draft_heads import VARIANTS, random_head, varied
from tests.fixtures.nightly import diagonal
from tests.fixtures.replies import GREEDY, PROMPT, SAMPLED, always, reply
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import prepared_run

ARCHITECTURES = ("llama", "qwen3", "gemma3")
LAYERS, TAPS = 12, (10, 0, 4)
"""Outputs of none of them are in the graph."""


@pytest.fixture(scope="module", params=ARCHITECTURES)
def deep(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deep")
    source = write_tiny(folder / "deep.gguf", request.param, shape=TinyShape(layers=LAYERS, context=512))
    export_gguf(source, folder / "bundle")
    return folder / "bundle"


def test_any_layer_can_be_had(deep: Path) -> None:
    manifest = Manifest.load(deep)
    plain = OnnxModel(deep, manifest, threads=1, spin=False, drafting=True)
    assert not {*TAPS} & {*plain.caps.taps}
    more = OnnxModel(deep, manifest, threads=1, spin=False, drafting=(*TAPS, 1, 99))
    assert {*TAPS} | {*plain.caps.taps} == {*more.caps.taps}
    assert more.weight_bytes == plain.weight_bytes
    rows = Rows(taps=(1, 2))
    found, own = more.forward().extend(PROMPT, rows=rows), plain.forward().extend(PROMPT, rows=rows)
    np.testing.assert_array_equal(found.hidden, own.hidden)
    np.testing.assert_array_equal(found.values, own.values)
    whole = more.forward().extend(PROMPT, rows=Rows(taps=TAPS)).hidden
    forward = more.forward()
    pieces = [forward.extend([token], rows=Rows(taps=TAPS)).hidden for token in PROMPT]
    assert whole is not None
    assert whole.shape == (len(PROMPT), 3 * manifest.spec.hidden_size)
    np.testing.assert_array_equal(np.concatenate([piece for piece in pieces if piece is not None]), whole)
    assert np.unique(whole.reshape(len(PROMPT), 3, -1)[0], axis=0).shape[0] == 3


@pytest.mark.parametrize(("deep", "kind"), diagonal(ARCHITECTURES, VARIANTS), indirect=["deep"])
def test_replies_are_those_without_drafts(deep: Path, tmp_path: Path, kind: str) -> None:
    manifest = Manifest.load(deep)
    spec = manifest.spec
    head = varied(random_head(spec.hidden_size, spec.vocab_size, ids=200), spec.vocab_size, kind)
    head = replace(head, taps=TAPS)
    export_head(head, deep, tmp_path / "drafters" / Target.of(manifest).short_hash / HEAD)
    said: list[str] = []

    def runner(draft: str) -> Runner:
        config = RunConfig(draft=draft, threads=1, context=256)
        return Runner(prepared_run(deep, config, RunContext(tmp_path, said.append)))

    plain, drafted = runner("off").engine, runner("head,exit").engine
    assert not any("without" in line for line in said)
    assert drafted.speculation
    assert HEAD in drafted.speculation.drafters
    for params in (GREEDY, SAMPLED):
        expected = reply(plain, PROMPT, params)
        assert reply(drafted, PROMPT, params) == expected
        with always(drafted):
            assert reply(drafted, PROMPT, params) == expected
    assert drafted.speculation.tally.by_drafter[HEAD].bytes_read > 0
