"""Peeks that somebody else computes for the engine for browsers: a drafter's layers on a device."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.api import Model
from edgedec.assemble.config import RunConfig
from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.drafter_manifest import TRIM
from edgedec.bundle.manifest import Manifest
from edgedec.core.forward import Peeking
from edgedec.core.rows import HeadRows, Rows
from edgedec.drafters.trim import SAVED, ends_of, save_trim
from edgedec.export import export_gguf
from edgedec.export.device import choose_drafters
from edgedec.sampling import DrawParams
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import prepared_run
from tests.native.test_web import again, settle
from tests.native.web import PEEK, Pass, WebEngine, WebError, library, said
from tests.native.web_runs import CHEAP, request_of, with_program

TEXT = "hello world hello world hello"
EXITS = [1, 2, 3, 4]
WAYS = [DrawParams(), DrawParams(temperature=0.9, top_k=20, seed=6)]
RESULTS = ("values", "ids", "logsumexp", "entropy")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four layers, with a trimmed head."""
    folder = tmp_path_factory.mktemp("peeks")
    export_gguf(write_tiny(folder / "tiny.gguf", shape=TinyShape(layers=4, context=512)), folder / "bundle")
    manifest = Manifest.load(folder / "bundle")
    kept = np.array(sorted({*ends_of(manifest), *range(120)}))
    save_trim(manifest, folder / "home", kept, {SAVED: 0.7})
    (found,) = choose_drafters((), folder / "bundle", folder / "home")
    shutil.copytree(found.path, folder / "bundle/drafters" / TRIM)
    return with_program(folder / "bundle")


class Device:
    """Passes and peeks by ONNX Runtime, of the tokens that the engine describes."""

    def __init__(self, bundle: Path) -> None:
        model = OnnxModel(bundle, Manifest.load(bundle), threads=1, drafting=True)
        self.forward, self._slots = model.forward(), list[int]()
        assert isinstance(self.forward, Peeking)
        self.peeked: list[int] = []
        self.layers: set[tuple[int, int, bool]] = set()
        self.done: list[int] = []
        self.fails = False
        self.call = PEEK(self.peek)

    def open(self, bundle: Path, draft: str, exits: list[int] = EXITS) -> WebEngine:
        engine = WebEngine(bundle, self.compute, context=256, costs=CHEAP, draft=draft)
        text = json.dumps({"exits": exits}).encode()
        try:
            engine.call("peeks", text, len(text), self.call)
        except WebError:
            engine.close()
            raise
        return engine

    def peek(self, handle: int) -> int:
        one = library().edgedec_web_pass_of(handle).contents
        settle(self._slots, one)
        self.forward.rewind(0)
        self.forward.extend(self._slots, rows=Rows(()))
        keep = np.array(one.kept_ids[: one.kept], np.int64) if one.kept else None
        chosen = tuple(one.done + row for row in one.chosen[: one.rows])
        tokens = one.token_ids[: one.tokens]
        assert tokens[: one.done] == self.peeked[: one.done]
        rows = Rows(chosen, temperature=1 / one.inverse, keep=keep)
        assert isinstance(self.forward, Peeking)
        placed(self.forward.peek(tokens, exit=one.below, resume=one.above, rows=rows), one)
        self.peeked = tokens
        self.layers.add((one.below, one.above, keep is not None))
        return int(self.fails)

    def compute(self, engine: WebEngine, one: Pass) -> None:
        settle(self._slots, one)
        placed(again(self.forward, self._slots, one), one)
        tokens = one.token_ids[: one.tokens]
        assert tokens[: one.done] == self.peeked[: one.done]
        self.done.append(one.done)
        self._slots.extend(tokens)


def placed(found: HeadRows, one: Pass) -> None:
    for name in RESULTS:
        rows = getattr(found, name)
        if rows.size:
            np.ctypeslib.as_array(getattr(one, name), rows.shape)[:] = rows
    if one.full:
        assert found.logits is not None
        np.ctypeslib.as_array(one.logits, found.logits.shape)[:] = found.logits


def python(bundle: Path, params: DrawParams, tokens: int) -> list[int]:
    with Model(prepared_run(bundle, RunConfig(draft="off", threads=1, context=256))) as opened:
        reply = opened.complete(TEXT, sampling=params, max_tokens=tokens)
        reply.read()
        return list(reply.tokens)


@pytest.mark.parametrize(
    ("draft", "layers"),
    [("exit-2", (2, 4, True)), ("exit-4", (4, 4, True)), ("skip-1-3", (1, 3, True)), ("auto", (4, 4, True))],
)
@pytest.mark.parametrize("params", WAYS, ids=["greedy", "drawn"])
def test_layers_that_draft_elsewhere_change_no_token(
    bundle: Path, params: DrawParams, draft: str, layers: tuple[int, int, bool]
) -> None:
    device = Device(bundle)
    with device.open(bundle, draft) as engine:
        names = said()["draft"]
        engine.reply(text=TEXT, max_tokens=100, **request_of(params))
        assert engine.tokens == python(bundle, params, 100)
        engine.call("stats")
        drafted = said()["drafted_by"]
    assert names[-1] == ("exit-4" if draft == "auto" else draft)
    assert drafted[names[-1]]["queries"] > 0
    assert layers in device.layers
    if layers[0] == EXITS[-1]:  # of random weights an early head is unsure
        assert drafted[names[-1]]["proposed"] > 0
        assert max(device.done) > 1  # tokens whose lower layers no pass computes again


def test_a_device_that_fails_within_a_peek_turns_the_drafter_off(bundle: Path) -> None:
    device = Device(bundle)
    device.fails = True
    with device.open(bundle, "lookup,exit-2") as engine:
        figures = engine.reply(text=TEXT, max_tokens=40, **request_of(WAYS[0]))
        assert engine.tokens == python(bundle, WAYS[0], 40)
    why = "the device that computes passes has failed"
    assert figures["notes"] == [f"drafter exit-2 failed and is off: {why}"]


def test_a_device_that_is_lost_leaves_its_drafter_to_the_cpu(bundle: Path) -> None:
    device = Device(bundle)
    with device.open(bundle, "exit-4") as engine:
        engine.begin(text=TEXT, max_tokens=100, **request_of(WAYS[0]))
        while len(device.done) < 4:
            assert engine.turn()
        engine.call("stats")
        before = said()["drafted_by"]["exit-4"]["proposed"]
        library().edgedec_web_lost(engine.handle)
        engine.call("cpu")
        engine._compute = lambda one, _: one.call("compute")
        engine.finish()
        assert engine.tokens == python(bundle, WAYS[0], 100)
        engine.call("stats")
        assert said()["drafted_by"]["exit-4"]["proposed"] > before


@pytest.mark.parametrize("exits", [[], [4, 2], [1, 2], [1, 9], ["x"], None])
def test_exits_that_are_none_are_refused(bundle: Path, exits: Any) -> None:
    with pytest.raises(WebError, match="'exits' is no ascending list of layers"):
        Device(bundle).open(bundle, "auto", exits)


def test_layers_that_the_device_does_not_run_apart_are_refused(bundle: Path) -> None:
    with pytest.raises(WebError, match="has no drafter exit-3"):
        Device(bundle).open(bundle, "exit-3", [2, 4])


def test_without_a_device_that_peeks_no_layers_draft(bundle: Path) -> None:
    with WebEngine(bundle, lambda *_: None, context=64, costs=CHEAP, draft="exit-2,lookup") as engine:
        assert engine.facts["draft"] == ["lookup"]
        with pytest.raises(WebError, match="there is no device that peeks"):
            engine.call("peeks", b'{"exits": [4]}', 14, PEEK())
