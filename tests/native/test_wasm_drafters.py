"""edgedec.wasm with the drafters of a page's folder: Python's tokens, greedy and drawn, whoever drafts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.api import Model
from edgedec.assemble.config import RunConfig
from edgedec.bundle.drafter_manifest import ASSISTANT, HEAD, MTP
from edgedec.bundle.manifest import Manifest
from edgedec.bundle.web_folder import WEB
from edgedec.core.errors import NotFoundError
from edgedec.drafters.trim import SAVED, ends_of, save_trim
from edgedec.export import export_gguf
from edgedec.export.device import DeviceOrder, choose_drafters
from edgedec.export.web import write_web_folder
from edgedec.export.web.wasm import FAST, WASM, wasm_path
from edgedec.sampling import DrawParams
from tests.fixtures.carried import AssistantPlace, HeadPlace, Place
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import prepared_run, tiny_bundle
from tests.native.test_draft_carried import deep, hybrid, own_table, trimmed
from tests.native.test_wasm import in_node, wasm
from tests.native.web_runs import CHEAP, WebEngine, request_of

__all__ = ["wasm"]

TEXT = "hello world hello world hello"
SAMPLED = DrawParams(temperature=0.9, top_k=20, seed=6)
TOKENS = 128
REQUESTS = [{"text": TEXT, "max_tokens": TOKENS, **request_of(params)} for params in (DrawParams(), SAMPLED)]


class Case:
    """The page's folder of a model, and the names that draft in it."""

    def __init__(self, bundle: Path, home: Path, out: Path, names: str, model: Path | None = None) -> None:
        self.names, self.bundle = names, bundle
        order = DeviceOrder(WEB, bundle, choose_drafters((), bundle, home), model, home)
        write_web_folder(order, out)
        self.folder = out / "model"

    def python(self) -> list[list[int]]:
        with Model(prepared_run(self.bundle, RunConfig(draft="off", threads=1, context=256))) as opened:
            found = []
            for params in (DrawParams(), SAMPLED):
                reply = opened.complete(TEXT, sampling=params, max_tokens=TOKENS)
                reply.read()
                found.append(list(reply.tokens))
            return found


def carried(make: Callable[[Path], Place]) -> Callable[[Path], Case]:
    def case(folder: Path) -> Case:
        place = make(folder)
        return Case(place.bundle, place.home, folder / "page", place.kind)

    return case


def layers(folder: Path) -> Case:
    """Exits, with a trimmed head, and layers around a span."""
    shape = TinyShape(layers=4, context=512)
    export_gguf(write_tiny(folder / "tiny.gguf", shape=shape), folder / "bundle")
    manifest = Manifest.load(folder / "bundle")
    kept = np.array(sorted({*ends_of(manifest), *range(120)}))
    save_trim(manifest, folder / "home", kept, {SAVED: 0.7})
    return Case(folder / "bundle", folder / "home", folder / "page", "exit-2,exit-4,skip-1-3")


def small(architecture: str) -> Callable[[Path], Case]:
    def case(folder: Path) -> Case:
        (folder / "small").mkdir()
        bundle = tiny_bundle(folder)
        model = tiny_bundle(folder / "small", architecture, seed=4)
        shutil.move(model, folder / "little")
        return Case(bundle, folder / "home", folder / "page", "little", folder / "little")

    return case


CASES = {
    "own layers": layers,
    HEAD: carried(HeadPlace),
    "head with other taps": carried(deep),
    "head with a table": carried(own_table),
    "mtp, trimmed": carried(trimmed),
    "mtp beside recurrent states": carried(hybrid),
    ASSISTANT: carried(AssistantPlace),
    "assistant of gemma 4": carried(lambda folder: AssistantPlace(folder, "gemma4")),
    "a small model": small("llama"),
    "a small model with another vocabulary": small("gemma3"),
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    for module in (WASM, FAST):
        try:
            wasm_path(module)
        except NotFoundError as error:
            pytest.skip(f"{error.message}: {error.hint}")
    return CASES[request.param](tmp_path_factory.mktemp("drafted"))


def drafts(found: dict[str, Any]) -> set[str]:
    return {name for name, one in found["drafted"].items() if one["queries"]}


@pytest.mark.parametrize("kv", ["fp16", "int8"])
def test_tokens_are_those_of_python(case: Case, wasm: Path, kv: str) -> None:
    options = {"context": 256, "costs": CHEAP, "draft": case.names, "memory": int(kv == "int8"), "flat": True}
    found = in_node(wasm, case.folder, options, REQUESTS)
    if kv == "fp16":
        assert [one["tokens"] for one in found] == case.python()
        assert drafts(found[1]) == {*case.names.split(",")}
    else:  # there is no memory for drafters either
        with WebEngine(case.folder, context=256, draft="off", memory=1) as engine:
            for one, request in zip(found, REQUESTS, strict=True):
                engine.reply(**request)
                assert one["tokens"] == engine.tokens
        assert not {HEAD, MTP, ASSISTANT} & drafts(found[1])
