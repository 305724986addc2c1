"""The native engine runs models of every kind of cache: it says what Python says, with drafts and without."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgedec import native
from edgedec.api import Model
from edgedec.assemble.config import RunConfig
from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import EdgeDecError, UnsupportedError
from edgedec.core.forward import Forward
from edgedec.core.rows import Rows
from edgedec.decode.engine import Engine
from edgedec.decode.speculation import Speculation
from edgedec.draft import Lookup, Recycling
from edgedec.export import export_gguf
from edgedec.models.catalogue import CATALOGUE
from edgedec.sampling import DrawParams
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import prepared_run
from tests.fixtures.twins import CONTEXT, write_twin
from tests.native.cases import Case, PythonRuns, cases, differences
from tests.native.native_forward import NativeModel
from tests.native.native_runs import NativeRuns
from tests.native.web_runs import CHEAP, WebRuns, with_program

TWINS = [name for name, entry in CATALOGUE.items() if entry.spec.caches and not entry.spec.experts]
KINDS = ("gemma4", "qwen35", "lfm2")
VOCABULARY = 260
MUTE = tuple(range(12, 260))
"""A model that says few different tokens: drafts by lookup are often right."""
FULL = Rows(full=True)
DRAFT = "lookup,recycling"
TOKENS = 128
GREEDY, DRAWN = DrawParams(), DrawParams(temperature=0.9, top_p=0.95, seed=11)
TEXT = "hello world hello world the is of to hello world "


@pytest.fixture(scope="module", params=KINDS)
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    shape = TinyShape(layers=7 if request.param == "gemma4" else 5, context=512, per_layer=32)
    made = write_tiny(folder / "tiny.gguf", request.param, shape=shape, mute=MUTE, sharpness=4.0)
    export_gguf(made, folder / "bundle")
    return folder / "bundle"


@pytest.fixture(scope="module")
def python(bundle: Path) -> Iterator[PythonRuns]:
    runs = PythonRuns(bundle, context=400)
    yield runs
    runs.close()


def test_drafts_on_the_native_model_change_nothing(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    cache = CacheConfig(400, max_pass=64)
    plain = Engine(OnnxModel(bundle, manifest, threads=1, spin=False).forward(cache))
    speculation = Speculation([Lookup(), Recycling()])  # without costs it always drafts
    drafting = Engine(NativeModel(bundle, manifest, threads=1).forward(cache), speculation=speculation)
    prompt = [1, 5, 6, 7, 5, 6, 7, 5, 6]
    for params in (GREEDY, DRAWN):
        for ids in (prompt, prompt * 6, [*prompt, 8], prompt[:4]):  # also from a place within an earlier text
            found = [
                [step.token for step in engine.generate(ids, params, max_tokens=TOKENS, stop_ids=())]
                for engine in (drafting, plain)
            ]
            assert found[0] == found[1]
            assert len(found[0]) == TOKENS
    assert speculation.tally.accepted > 20


def test_replies_are_pythons(bundle: Path, python: PythonRuns) -> None:
    runs = NativeRuns(bundle, DRAFT, context=400)
    try:
        for text in (TEXT, TEXT * 2, "the " + TEXT):
            for params in (GREEDY, DRAWN):
                case = Case(params, text, max_tokens=TOKENS)
                assert runs.run(case) == python.run(case), (text, params)
    finally:
        runs.close()


@pytest.mark.parametrize("bundle", ["qwen35"], indirect=True)
def test_another_reply_to_the_same_history_reads_nothing_of_it_again(bundle: Path) -> None:
    """States are noted where a reply begins, though nothing is taken back there."""
    said = "hello" + " world" * 20
    with native.open(bundle, threads=1, context=400, draft="off") as model:
        always = DrawParams(logit_bias=((model.encode(said)[-1], 100.0),))
        assert "hello" + model.complete("hello", sampling=always, max_tokens=20).text == said
        replies = [model.complete(said + more, sampling=GREEDY, max_tokens=90) for more in (" is", " of")]
    assert [reply.figures["reused_tokens"] for reply in replies] == [20, 20]


@pytest.mark.parametrize("draft", ["exit", "lookup,exit-2", "skip-1-2"])
def test_drafts_by_layers_without_early_exits_are_refused(bundle: Path, draft: str) -> None:
    with pytest.raises(UnsupportedError, match="its bundle has no early exits"):
        native.open(bundle, draft=draft, context=128)


def test_a_browser_answers_as_python_does(bundle: Path) -> None:
    """Prompts that begin alike, edited and continued, with drafts that are right in part."""
    python = PythonRuns(bundle, context=400)  # with an empty cache: what is reused is compared, too
    every = [replace(case, cancel=None) for case in cases(5, 40, VOCABULARY)]
    every += [Case(params, TEXT * 2, max_tokens=TOKENS) for params in (GREEDY, DRAWN)]
    runs = WebRuns(with_program(bundle), context=400, costs=CHEAP)
    try:
        assert differences(python, runs, every) == []
        # Control drafts by measured times: on a busy machine not in every reply.
        assert any(runs.run(case).drafted for _ in range(5) for case in every[-2:])
    finally:
        runs.close()
        python.close()


@pytest.mark.parametrize("kv", ["fp16", "int8"])
def test_a_conversation_is_saved_and_goes_on(bundle: Path, kv: str, tmp_path: Path) -> None:
    options = {"threads": 1, "context": 400, "draft": "off", "kv": kv}
    with native.open(bundle, **options) as model:
        model.complete(TEXT, sampling=GREEDY, max_tokens=60)
        model.save(tmp_path / "talk")
        whole = model.complete(TEXT + TEXT, sampling=DRAWN, max_tokens=40)
    with native.open(bundle, **options) as model:
        model.restore(tmp_path / "talk")
        ours = model.complete(TEXT + TEXT, sampling=DRAWN, max_tokens=40)
    assert (ours.text, ours.tokens) == (whole.text, whole.tokens)
    with Model(prepared_run(bundle, RunConfig(**options))) as other:
        theirs = other.complete(TEXT + TEXT, sampling=DRAWN, max_tokens=40)
        assert (theirs.read(), theirs.tokens) == (ours.text, ours.tokens)


@pytest.mark.parametrize("name", TWINS)
def test_twins_of_the_catalogue_say_what_python_says(name: str, tmp_path: Path) -> None:
    export_gguf(write_twin(tmp_path / "twin.gguf", CATALOGUE[name]), tmp_path / "twin")
    python = PythonRuns(tmp_path / "twin", context=CONTEXT)
    runs = NativeRuns(tmp_path / "twin", DRAFT, context=CONTEXT)
    try:
        for params in (GREEDY, DRAWN):
            case = Case(params, "hello world", max_tokens=CONTEXT)
            assert runs.run(case) == python.run(case)
    finally:
        runs.close()
        python.close()


def test_damaged_files_of_states_end_as_in_python(bundle: Path) -> None:
    """Whatever bytes they have: refused, or states of a cache that can be fed and emptied."""
    manifest, cache, rng = Manifest.load(bundle), CacheConfig(100), np.random.default_rng(3)
    sides = (
        NativeModel(bundle, manifest, threads=1).forward(cache),
        OnnxModel(bundle, manifest, threads=1, spin=False).forward(cache),
    )
    tokens, file = [int(token) for token in rng.integers(0, 250, 50)], io.BytesIO()
    rows = [side.extend(tokens, rows=FULL).logits for side in sides]
    sides[1].write_cache(file, len(tokens))
    refused = 0
    for _ in range(60):
        data = bytearray(file.getvalue())
        for at in rng.integers(0, len(data), int(rng.integers(1, 40))):
            data[-1 - int(at)] = rng.choice([0x7F, 0xFF, 0, int(rng.integers(256))])
        if rng.random() < 0.1:
            del data[int(rng.integers(len(data))) :]
        ends = [ended(side, data, len(tokens)) for side in sides]
        assert ends[0] == ends[1]
        refused += ends[0] is not None
    assert refused > 5
    for side, before in zip(sides, rows, strict=True):
        assert np.array_equal(side.extend(tokens, rows=FULL).logits, before)


def ended(side: Forward, data: bytes, length: int) -> tuple[str, int] | None:
    """The kind of error of a cache from a file, and the tokens that it left; None where it runs."""
    try:
        side.read_cache(io.BytesIO(data), length)
        side.extend([5, 6])
    except (EOFError, EdgeDecError) as error:
        return type(error).__name__, side.length
    finally:
        side.rewind(0)
    return None
