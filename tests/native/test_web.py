"""The engine for browsers: its replies are those of Python, and its passes those of ONNX Runtime."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from ctypes import POINTER, c_uint32
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.api import Model
from edgedec.assemble.config import RunConfig
from edgedec.backends.gpu import inputs
from edgedec.backends.gpu.inputs import GpuPass
from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.manifest import Manifest
from edgedec.bundle.preset import Preset
from edgedec.core.errors import GrammarError
from edgedec.core.forward import Forward
from edgedec.core.rows import Rows
from edgedec.export import ModelCard, export_gguf
from edgedec.sampling import DrawParams
from edgedec.sampling.named import SamplingParams
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_models import prepared_run, tiny_bundle
from tests.native.cases import PythonRuns, cases, differences
from tests.native.web import Pass, WebEngine, WebError
from tests.native.web_runs import CHEAP, WebRuns, request_of, with_program

VOCABULARY = 290
SAMPLED = DrawParams(temperature=0.9, seed=6)
TEXT = "hello world hello world hello"
KINDS = ("gemma4", "qwen35", "lfm2")
ARCHITECTURES = ("llama", "qwen2", "qwen3", "phi3", "gemma2", "gemma3", "smollm3", *KINDS)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_program(tiny_bundle(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def plain(bundle: Path) -> Iterator[PythonRuns]:
    runs = PythonRuns(bundle)
    yield runs
    runs.close()


@pytest.fixture
def engine(bundle: Path) -> Iterator[WebEngine]:
    with WebEngine(bundle, context=256, costs=CHEAP) as opened:
        yield opened


@pytest.mark.parametrize(
    "options", [{"draft": "off"}, {"costs": CHEAP}, {"costs": CHEAP, "draft": "recycling"}]
)
def test_random_requests_are_answered_as_python_does(
    bundle: Path, plain: PythonRuns, options: dict[str, Any]
) -> None:
    every = cases(3, 60, VOCABULARY)
    if options.get("draft") != "off":
        every = [replace(case, cancel=None) for case in every]  # which ends a reply between two passes here
    runs = WebRuns(bundle, **options)
    try:
        assert differences(plain, runs, every) == []
        assert bool(sum(runs.run(case).drafted for case in every[:20])) == ("costs" in options)
    finally:
        runs.close()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_passes_have_the_bits_of_onnx_runtime(tmp_path: Path, architecture: str) -> None:
    bundle = with_program(tiny_bundle(tmp_path, architecture))
    forward = OnnxModel(bundle, Manifest.load(bundle), threads=1).forward()
    slots: list[int] = []
    shapes = set()

    def compute(engine: WebEngine, one: Pass) -> None:
        engine.call("compute")
        settle(slots, one)
        expected = again(forward, slots, one)
        for name in ("values", "ids", "logsumexp", "entropy", "logits"):
            wanted = getattr(expected, name)
            if one.rows and wanted is not None:
                found = np.ctypeslib.as_array(getattr(one, name), wanted.shape)
                assert found.tobytes() == wanted.tobytes(), name
        slots.extend(one.token_ids[: one.tokens])
        shapes.add((one.tokens > 1, one.moves > 0, one.full))

    with WebEngine(bundle, compute, context=60, costs=CHEAP) as engine:
        engine.call("cpu")
        engine.reply(text=TEXT, max_tokens=25, sampling={"temperature": 0})
        engine.reply(text=TEXT + " hello", max_tokens=10, **request_of(SAMPLED))
    assert {(True, False, 0), (True, False, 1)} <= shapes
    assert architecture != "llama" or (True, True, 0) in shapes  # a draft was right in part


@pytest.mark.parametrize("architecture", ["qwen35", "lfm2"])
def test_the_steps_of_recurrent_layers_are_those_of_python(tmp_path: Path, architecture: str) -> None:
    bundle = with_program(tiny_bundle(tmp_path, architecture))
    taps = Manifest.load(bundle).spec.states[0].tail + 1
    counts: set[int] = set()

    def compute(engine: WebEngine, one: Pass) -> None:
        behind = one.length - one.applied
        parents = one.parents[: one.tokens]
        expected = inputs.steps(GpuPass(parents, (), parents, one.length, (), behind=behind), taps)
        found = np.empty_like(expected)
        engine.call("steps", behind, taps, found.ctypes.data_as(POINTER(c_uint32)))
        assert found.tobytes() == expected.tobytes()
        with pytest.raises(WebError, match="fewer tokens are resident"):
            engine.call("steps", one.length + 1, taps, None)
        with pytest.raises(WebError, match="kernel must be 1 to 8"):
            engine.call("steps", behind, 9, None)
        counts.add(behind)
        engine.call("compute")

    with WebEngine(bundle, compute, context=100, costs=CHEAP) as engine:
        engine.call("cpu")
        engine.reply(text=TEXT * 3, max_tokens=25, sampling={"temperature": 0})
    assert {0, 1} <= counts or architecture == "lfm2"


@pytest.mark.parametrize("form", [{"schema": {"type": "object"}}, {"regex": "yes|no|yesterday"}])
@pytest.mark.parametrize("options", [{"draft": "off"}, {"costs": CHEAP}])
def test_a_reply_of_a_form_is_the_one_of_python(
    bundle: Path, form: dict[str, Any], options: dict[str, Any]
) -> None:
    asked = (
        {"schema": json.dumps(form["schema"])} if "schema" in form else {"choices": form["regex"].split("|")}
    )
    with Model(prepared_run(bundle, RunConfig(threads=1, context=256, draft="off"))) as python:
        theirs = python.complete(TEXT, sampling=SAMPLED, max_tokens=40, **form)
        with suppress(GrammarError):
            theirs.read()
    with WebEngine(bundle, context=256, **options) as engine:
        engine.call("cpu")
        engine.reply(text=TEXT, max_tokens=40, **asked, **request_of(SAMPLED))
        assert [piece["id"] for piece in engine.pieces if piece["id"] >= 0] == theirs.tokens
        assert {piece["drafter"] for piece in engine.pieces} <= {None, "lookup", "recycling", "grammar"}
        for wrong in (
            {"schema": {}},
            {"schema": ""},
            {"schema": '{"not": {}}'},
            {"choices": [3]},
            {"choices": "a"},
        ):
            with pytest.raises(WebError):
                engine.reply(text=TEXT, max_tokens=3, **wrong)


@pytest.mark.parametrize(
    "asked",
    [
        {"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "function"}]},
        {
            "messages": [
                {"role": "assistant", "content": "", "tool_calls": []},
                {"role": "user", "content": "a"},
            ]
        },
        {"messages": [{"role": "tool", "content": "a"}]},
    ],
)
def test_tools_are_refused_in_a_line(engine: WebEngine, asked: dict[str, Any]) -> None:
    with pytest.raises(WebError, match="has no tools") as caught:
        engine.reply(**asked)
    assert caught.value.hint


def settle(slots: list[int], one: Pass) -> None:
    """Move and cut the tokens of slots as a pass says."""
    moved = [(one.to[at], slots[one.start[at]]) for at in range(one.moves)]
    for to, token in moved:
        slots[to] = token
    del slots[one.length :]


def again(forward: Forward, slots: list[int], one: Pass) -> Any:
    """Compute a pass behind the same tokens, read afresh."""
    forward.rewind(0)
    if slots:
        forward.extend(slots, rows=Rows(()))
    rows = Rows(tuple(one.chosen[: one.rows]), full=bool(one.full), temperature=1 / one.inverse)
    return forward.extend(one.token_ids[: one.tokens], parents=one.parents[: one.tokens], rows=rows)


def test_paths_are_those_of_parents(bundle: Path) -> None:
    seen = []

    def compute(engine: WebEngine, one: Pass) -> None:
        width = 1 + one.tokens
        for at in range(one.tokens):
            path, parent = [at], one.parents[at]
            while parent >= 0:
                path.insert(0, parent)
                parent = one.parents[parent]
            assert one.paths[at * width : at * width + 1 + len(path)] == [len(path) - 1, *path]
            assert one.positions[at] == one.length + len(path) - 1
        seen.append(any(one.parents[at] != at - 1 for at in range(one.tokens)))
        engine.call("compute")

    with WebEngine(bundle, compute, context=256, costs=CHEAP) as engine:
        engine.call("cpu")
        engine.reply(text=TEXT, max_tokens=60, sampling={"temperature": 0})
    assert any(seen)


@pytest.mark.parametrize(
    "named", [{"temperature": 0}, {"temperature": 0.0, "frequency_penalty": 1.5}, {"top_k": 5}, {}]
)
def test_values_that_are_not_named_are_those_of_python(tmp_path: Path, named: dict[str, Any]) -> None:
    preset = Preset(temperature=0.7, top_k=20, repetition_penalty=1.9, presence_penalty=1.5)
    export_gguf(write_tiny(tmp_path / "tiny.gguf"), tmp_path / "bundle", card=ModelCard(preset=preset))
    bundle = with_program(tmp_path / "bundle")
    params = SamplingParams(**named)
    with Model(prepared_run(bundle, RunConfig(threads=1, context=64, draft="off"))) as python:
        reply = python.complete(TEXT, sampling=params, max_tokens=25)
        reply.read()
    with WebEngine(bundle, context=64) as engine:
        engine.reply(text=TEXT, max_tokens=25, sampling=named)
        assert engine.tokens == reply.tokens


def test_a_conversation_is_read_once_and_can_be_edited(engine: WebEngine) -> None:
    first = [{"role": "user", "content": "hello"}]
    engine.reply(messages=first, max_tokens=8)
    more = [*first, {"role": "assistant", "content": engine.text}, {"role": "user", "content": "again"}]
    begun = engine.begin(messages=more, max_tokens=8)
    assert begun["reused_tokens"] > begun["prompt_tokens"] // 2
    engine.finish()
    edited = [*first[:1], {"role": "assistant", "content": "world"}, {"role": "user", "content": "again"}]
    assert 0 < engine.begin(messages=edited, max_tokens=8)["reused_tokens"] < begun["prompt_tokens"]
    engine.finish()
    engine.call("forget")
    assert engine.begin(messages=more, max_tokens=8)["reused_tokens"] == 0
    engine.finish()


@pytest.mark.parametrize("params", [DrawParams(), SAMPLED])
def test_a_continued_reply_is_a_longer_one(bundle: Path, engine: WebEngine, params: DrawParams) -> None:
    with Model(prepared_run(bundle, RunConfig(threads=1, context=256, draft="off"))) as python:
        chat = python.chat(sampling=params, max_tokens=7)
        expected = [chat.reply("hello").read(), chat.more().read(), chat.more().read()]
    asked = request_of(params) | {"max_tokens": 7}
    texts = []
    for prompt in (
        {"messages": [{"role": "user", "content": "hello"}]},
        {"continue": True},
        {"continue": True},
    ):
        engine.reply(**prompt, **asked)
        texts.append(engine.text)
    assert texts == expected


def test_a_lost_cache_changes_no_token(engine: WebEngine) -> None:
    engine.reply(text=TEXT, max_tokens=40, **request_of(SAMPLED))
    expected = engine.tokens
    engine.call("forget")
    engine.begin(text=TEXT, max_tokens=40, **request_of(SAMPLED))
    for _ in range(3):
        assert engine.turn()
        engine.call("cpu")  # which begins with an empty cache
    engine.finish()
    assert engine.tokens == expected


def test_costs_are_measured_and_handed_out(bundle: Path) -> None:
    with WebEngine(bundle, context=256) as engine:
        assert engine.facts["costs"] is False
        engine.reply(text=TEXT, max_tokens=20, sampling={"temperature": 0})
        expected = engine.tokens
        engine.call("measure")
        engine.passes = []
        while engine.turn(0.01):
            pass
        costs = engine.last()["costs"]
        assert [tokens for tokens, _ in costs] == [1, 2, 4, 8, 9, 16]
        assert engine.passes[:4] == [1, 2, 4, 8]
        engine.reply(text=TEXT, max_tokens=20, sampling={"temperature": 0})
        assert engine.tokens == expected
    with WebEngine(bundle, context=256, costs=costs) as engine:
        assert engine.facts["costs"] is True


def test_a_reply_without_drafts_is_the_same(engine: WebEngine) -> None:
    engine.reply(text=TEXT, max_tokens=40, sampling={"temperature": 0})
    expected, passes = engine.tokens, len(engine.passes)
    engine.reply(text=TEXT, max_tokens=40, sampling={"temperature": 0}, draft=False)
    assert engine.tokens == expected
    assert len(engine.passes) == 40 > passes


@pytest.mark.parametrize(
    "request_",
    [
        {}, {"messages": 1}, {"messages": [{"role": "cat", "content": "x"}]}, {"messages": []},
        {"tokens": [-1]}, {"tokens": [10**6]}, {"continue": True}, {"text": "a", "max_tokens": -1},
        {"text": "a", "sampling": {"cat": 1}}, {"text": "a", "sampling": {"temperature": "hot"}},
        {"text": "a", "seed": -1}, {"text": "a", "seed": "1e3"}, {"text": "a", "stop": [1]},
        {"text": "a", "logit_bias": [[1]]}, {"text": "a", "logit_bias": [[10**6, 1]]},
    ],
)  # fmt: skip
def test_senseless_requests_are_refused(engine: WebEngine, request_: dict[str, Any]) -> None:
    with pytest.raises(WebError) as error:
        engine.begin(**request_)
    assert error.value.code == 2
    engine.reply(text="a", max_tokens=2)


@pytest.mark.parametrize(
    "options", [{"context": 0.5}, {"context": 10**7}, {"draft": "cat"}, {"costs": [[2, 1]]}]
)
def test_senseless_options_are_refused(bundle: Path, options: dict[str, Any]) -> None:
    with pytest.raises(WebError):
        WebEngine(bundle, **options)


def test_calls_out_of_turn_are_refused(engine: WebEngine) -> None:
    for name, arguments in (("give", (0.1,)), ("compute", ())):
        with pytest.raises(WebError):
            engine.call(name, *arguments)
    with pytest.raises(WebError):
        engine.turn()
    engine.begin(text="a", max_tokens=3)
    for name in ("measure", "forget"):
        with pytest.raises(WebError):
            engine.call(name)
    engine.finish()


def test_damaged_programs_are_refused(bundle: Path, tmp_path: Path) -> None:
    program = json.loads((bundle / "cpu.json").read_text())
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in bundle.iterdir():
        if file.name != "cpu.json":
            (copy / file.name).symlink_to(file)
    rng = np.random.default_rng(4)
    for _ in range(300):
        damaged = json.loads(json.dumps(program))
        spoil(damaged, rng)
        (copy / "cpu.json").write_text(json.dumps(damaged))
        assert failure(copy) in (None, 4, 11)


def failure(bundle: Path) -> int | None:
    """The code with which a reply fails."""
    try:
        with WebEngine(bundle, context=64) as engine:
            engine.reply(text="hello", max_tokens=2)
    except WebError as error:
        return int(error.code)
    return None


def spoil(value: Any, rng: np.random.Generator) -> None:
    """Change one number or name somewhere inside."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = keys[int(rng.integers(len(keys)))]
        inner = value[key]
        if not isinstance(inner, dict | list):
            value[key] = [-1, 0, 7, 1 << 40, "", "tokens", None, 0.5][int(rng.integers(8))]
            return
        value = inner
