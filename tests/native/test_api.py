"""The native engine through its C API: what edgedec.h promises."""

from __future__ import annotations

import ctypes
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgedec import native
from edgedec.api import Model
from edgedec.assemble.config import RunConfig
from edgedec.core.errors import (
    BackendError,
    BadFileError,
    ContextFullError,
    EdgeDecError,
    MemoryBudgetError,
    NotFoundError,
    UnsupportedError,
    UsageError,
)
from edgedec.core.version import __version__
from edgedec.native.library import call, library, runtime_path
from edgedec.native.structs import CMessage, COptions, CRequest, CResult, CSampling, CStatus, CToken
from edgedec.sampling import DrawParams
from tests.bundle.hostile import edit
from tests.fixtures.tiny_models import prepared_run, tiny_bundle

GREEDY = DrawParams()
SAMPLED = DrawParams(temperature=0.9, seed=6)
TEXT = "hello world hello world hello"
DRAFT_FIGURES = {
    "rounds", "drafted_tokens", "block_efficiency", "acceptance_rate", "acceptance_by_depth", "drafted_by",
    "draft_s", "verify_s", "predicted_tokens_per_s", "predicted_speed_up",
}  # fmt: skip


@pytest.fixture(scope="module")
def model(bundle: Path) -> Iterator[native.NativeModel]:
    with native.open(bundle, threads=1, context=256) as opened:
        yield opened


@pytest.fixture(scope="module")
def python(bundle: Path) -> Iterator[Model]:
    config = RunConfig(threads=1, context=256, draft="off")
    with Model(prepared_run(bundle, config)) as opened:
        yield opened


@pytest.fixture(scope="module")
def without_zeros(model: native.NativeModel) -> DrawParams:
    """Sampling that never draws the character zero, which ends a message in C."""
    return DrawParams(temperature=0.9, seed=5, logit_bias=((model.encode("\0")[-1], -100.0),))


def test_structs_are_those_of_the_header() -> None:
    for struct, init in (
        (COptions, "options_init"),
        (CSampling, "sampling_init"),
        (CRequest, "request_init"),
    ):
        made = struct()
        getattr(library(), f"edgedec_{init}")(ctypes.byref(made))
        assert made.size == ctypes.sizeof(struct)
    assert [ctypes.sizeof(one) for one in (CStatus, CResult, CToken, CMessage)] == [2052, 56, 56, 16]
    assert library().edgedec_version().decode() == __version__


def test_text_becomes_tokens_and_text_again(model: native.NativeModel, python: Model) -> None:
    tokenizer = python.loaded.tokenizer
    for text in ("", "a", TEXT, "\u00e4\u20ac\U0001f600 \n\n  x", "a" * 3000):
        assert model.encode(text) == tokenizer.encode(text)
        assert model.encode(text, specials=True) == tokenizer.encode(text, parse_special=True)
        assert model.decode(model.encode(text)) == tokenizer.decode(tokenizer.encode(text))


@pytest.mark.parametrize("params", [GREEDY, SAMPLED])
def test_a_text_is_continued_as_python_continues_it(
    model: native.NativeModel, python: Model, params: DrawParams
) -> None:
    ours = model.complete(TEXT, sampling=params, max_tokens=40)
    theirs = python.complete(TEXT, sampling=params, max_tokens=40)
    assert ours.text == theirs.read()
    assert (ours.tokens, ours.finish_reason) == (theirs.tokens, theirs.finish_reason)
    own = "<|im_start|>a<|im_end|>"
    figures = [side.complete(own, sampling=params, max_tokens=2) for side in (model, python)]
    assert figures[0].figures["prompt_tokens"] == len(model.encode(own, specials=True)) == 3
    assert figures[1].read() == figures[0].text
    prompt = model.encode(TEXT)
    assert model.generate(prompt, sampling=params, max_tokens=40).tokens == ours.tokens
    assert ours.figures["prompt_tokens"] == len(prompt)
    assert ours.figures["passes"] >= 1


def test_a_conversation_goes_on_from_the_tokens_that_were_drawn(
    model: native.NativeModel, python: Model, without_zeros: DrawParams
) -> None:
    chat, messages = python.chat(max_tokens=20, sampling=without_zeros), []
    dropped = 0
    for turn in range(8):
        text = f"hello {turn} world " * 3
        messages.append({"role": "user", "content": text})
        ours = model.reply(messages, sampling=without_zeros, max_tokens=20)
        theirs = chat.reply(text)
        assert (ours.text, ours.tokens) == (theirs.read(), theirs.tokens), turn
        left_out = int(ours.figures["dropped_messages"])
        del messages[:left_out]
        dropped += left_out
        messages.append({"role": "assistant", "content": ours.text})
    assert dropped > 0


def test_messages_that_are_no_conversation_are_refused(model: native.NativeModel) -> None:
    user, system = {"role": "user", "content": "a"}, {"role": "system", "content": "b"}
    for wrong in ([], [system], [user, system, user], [user, {"role": "assistant", "content": "c"}]):
        with pytest.raises(UsageError):
            model.reply(wrong)
    with pytest.raises(UsageError, match="unknown role 'critic'"):
        model.reply([{"role": "critic", "content": "a"}])
    with pytest.raises(UsageError, match="a message has no field 'colour'"):
        model.reply([{"role": "user", "content": "a", "colour": "red"}])
    with pytest.raises(ContextFullError):
        model.reply([{"role": "user", "content": "hello " * 5000}])


def test_values_outside_their_range_are_refused(model: native.NativeModel) -> None:
    params = CSampling()
    library().edgedec_sampling_init(ctypes.byref(params))
    request, result = CRequest(), CResult(ctypes.sizeof(CResult))
    library().edgedec_request_init(ctypes.byref(request))
    request.sampling = ctypes.pointer(params)

    def refused() -> EdgeDecError:
        with pytest.raises(UsageError) as found:
            call("complete", model._handle, b"a", 1, ctypes.byref(request), ctypes.byref(result))
        return found.value

    params.top_p = 2.0
    assert "top-p" in refused().message
    params.top_p, params.temperature = 1.0, float("nan")
    assert "temperature" in refused().message
    params.temperature, params.bias_count = 0.0, 3
    assert "logit bias" in refused().message
    params.size = 0
    assert "size" in refused().message
    request.size = 0
    assert "size" in refused().message
    with pytest.raises(UsageError):
        model.complete(TEXT, stops=[""])
    with pytest.raises(UsageError):
        model.generate([100000])
    with pytest.raises(UsageError):
        model.generate([])


def test_a_callback_ends_a_reply(model: native.NativeModel, python: Model) -> None:
    heard: list[Any] = []
    reply = model.complete(
        TEXT, max_tokens=30, sampling=GREEDY, on_token=lambda one: len(heard.append(one) or heard) < 5
    )
    assert (reply.finish_reason, len(reply.tokens)) == ("interrupted", 5)
    whole = model.complete(TEXT, max_tokens=30, sampling=GREEDY)
    assert whole.tokens[:5] == reply.tokens
    assert [one.seconds for one in heard] == sorted(one.seconds for one in heard)

    told: list[tuple[int, int]] = []
    read = model.complete(TEXT * 2, max_tokens=5, on_prompt=lambda *given: not told.append(given))
    assert told[-1] == (read.figures["prompt_tokens"],) * 2  # and nothing while it is answered
    silent = model.complete(TEXT + " new", max_tokens=30, on_prompt=lambda done, total: False)
    assert (silent.finish_reason, silent.tokens) == ("interrupted", [])
    assert model.complete(TEXT, max_tokens=30, sampling=GREEDY).tokens == whole.tokens


def test_another_thread_stops_a_reply_and_no_other_call_comes_between(model: native.NativeModel) -> None:
    begun, refused = threading.Event(), []

    def disturb() -> None:
        begun.wait(10)
        for act in (model.stats, lambda: model.complete("a"), lambda: model.encode("a")):
            try:
                act()
            except UsageError as error:
                refused.append(error.message)
        for _ in range(3):
            model.stop()

    other = threading.Thread(target=disturb)
    other.start()
    seen: list[int] = []

    def heard(one: native.NativeToken) -> bool:
        seen.append(one.id)
        begun.set()
        if len(seen) == 1:
            other.join(10)
        return True

    reply = model.complete(TEXT, max_tokens=200, sampling=SAMPLED, on_token=heard)
    assert (reply.finish_reason, len(reply.tokens)) == ("interrupted", 1)
    assert refused == ["another call of this engine is running"] * 3
    model.stop()
    assert model.complete(TEXT, max_tokens=3).finish_reason == "length"


def test_a_stop_while_the_prompt_is_made_ends_the_reply(model: native.NativeModel) -> None:
    """Thousands of messages, which are left out, and a stop at a quarter of the time that they take."""
    empty = [CMessage(role, b"") for role in (b"user", b"assistant")] * 10_000
    messages = (CMessage * (len(empty) + 1))(*empty, CMessage(b"user", b"hello world"))
    request, result = CRequest(), CResult(ctypes.sizeof(CResult))
    library().edgedec_request_init(ctypes.byref(request))
    request.max_tokens = 3

    def reply_s() -> float:
        started = time.perf_counter()
        call("reply", model._handle, messages, len(messages), ctypes.byref(request), ctypes.byref(result))
        return time.perf_counter() - started

    timer = threading.Timer(reply_s() / 4, model.stop)
    assert (result.tokens, result.dropped_messages > 10_000) == (3, True)
    timer.start()
    reply_s()
    timer.join()
    assert (result.tokens, native.engine.FINISHES[result.finish]) == (0, "interrupted")


def test_figures_have_the_names_of_pythons(model: native.NativeModel, python: Model) -> None:
    model.complete(TEXT, max_tokens=12, sampling=SAMPLED)
    ours, reply = model.stats(), python.complete(TEXT, max_tokens=12, sampling=SAMPLED)
    reply.read()
    theirs = {**reply.stats.as_json(), **python.stats(reply).as_json()}
    own = {
        "model",
        "architecture",
        "vocabulary",
        "chat_template",
        "plain_pass_s",
        "rss_bytes",
        "context_used",
    }
    assert set(ours) - own - {"memory", "weight_bytes", "reply"} <= set(theirs) | DRAFT_FIGURES
    assert set(reply.stats.as_json()) <= set(ours["reply"])
    assert (ours["context"], ours["threads"], ours["kv"]) == (256, 1, "fp16")
    assert ours["reply"]["sampling"]["seed"] == 6
    assert ours["memory"]["budget_bytes"] is None


def test_a_conversation_is_saved_and_goes_on(bundle: Path, tmp_path: Path, without_zeros: DrawParams) -> None:
    messages = [{"role": "user", "content": "hello world"}]
    with native.open(bundle, threads=1, context=256) as first:
        text = first.reply(messages, sampling=without_zeros, max_tokens=20).text
        first.save(tmp_path / "talk")
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "and?"}]
        expected = first.reply(messages, sampling=without_zeros, max_tokens=20)
    with native.open(bundle, threads=1, context=256) as second:
        second.restore(tmp_path / "talk")
        found = second.reply(messages, sampling=without_zeros, max_tokens=20)
        assert (found.text, found.tokens) == (expected.text, expected.tokens)
        assert found.figures["reused_tokens"] > 20
    config = RunConfig(threads=1, context=256, draft="off")
    with Model(prepared_run(bundle, config)) as opened:
        chat = opened.restore(tmp_path / "talk")
        assert [message.content for message in chat.messages] == ["hello world", text]
        assert chat.reply("and?", max_tokens=20).read() == expected.text


def test_damaged_sessions_are_refused_and_the_engine_goes_on(bundle: Path, tmp_path: Path) -> None:
    with native.open(bundle, threads=1, context=256) as opened:
        reply = opened.complete(TEXT, max_tokens=10, sampling=GREEDY)
        opened.save(tmp_path / "talk")
        data = (tmp_path / "talk").read_bytes()
        for at in (0, 20, 40, len(data) // 2, len(data) - 1):
            (tmp_path / "damaged").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            with pytest.raises((BadFileError, UnsupportedError)):
                opened.restore(tmp_path / "damaged")
        with pytest.raises(NotFoundError):
            opened.restore(tmp_path / "none")
        opened.restore(tmp_path / "talk")
        assert opened.complete(TEXT, max_tokens=10, sampling=GREEDY).tokens == reply.tokens


def test_costs_are_measured_again(bundle: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    with native.open(bundle, threads=1, context=256, costs=tmp_path, notice=lines.append) as opened:
        before = opened.complete(TEXT, max_tokens=10, sampling=GREEDY).tokens
        [file] = tmp_path.iterdir()
        file.write_text("nonsense")
        opened.measure_again()
        assert "seconds" in file.read_text()
        assert opened.complete(TEXT, max_tokens=10, sampling=GREEDY).tokens == before
    assert len(lines) == 2
    with native.open(bundle, threads=1, context=256, costs=tmp_path, notice=lines.append):
        assert len(lines) == 2


def test_a_budget_is_planned_and_kept(bundle: Path) -> None:
    roomy = native.plan(bundle, memory=4_000_000_000)
    assert roomy["budget_bytes"] == 4_000_000_000
    assert roomy["given_up"] == []
    assert native.plan(bundle)["budget_bytes"] is None
    with pytest.raises(MemoryBudgetError) as refused:
        native.plan(bundle, memory=1_000_000)
    assert refused.value.hint
    with pytest.raises(MemoryBudgetError):
        native.open(bundle, memory=1_000_000)
    with native.open(bundle, memory=2_000_000_000, threads=1) as opened:
        assert opened.complete(TEXT, max_tokens=5).tokens
        assert opened.stats()["memory"]["budget_bytes"] == 2_000_000_000


@pytest.mark.parametrize("kv", ["fp16", "int8"])
@pytest.mark.parametrize("architecture", ["qwen2", "gemma3"])
def test_architectures_and_caches(tmp_path: Path, architecture: str, kv: Any) -> None:
    bundle = tiny_bundle(tmp_path, architecture)
    config = RunConfig(threads=1, context=256, draft="off", kv=kv)
    with (
        native.open(bundle, threads=1, context=256, kv=kv) as ours,
        Model(prepared_run(bundle, config)) as theirs,
    ):
        for params in (GREEDY, SAMPLED):
            reply = theirs.complete(TEXT, sampling=params, max_tokens=60)
            reply.read()
            assert ours.complete(TEXT, sampling=params, max_tokens=60).tokens == reply.tokens


def test_faults_of_a_bundle_are_told(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        native.open(tmp_path)
    for wrong, error in (
        ("sdx", UsageError),
        ("", UsageError),
        ("exit-4", UsageError),
        ("skip-1-2", UsageError),
    ):
        with pytest.raises(error):
            native.open(bundle, draft=wrong)
    for settings in ({"threads": 5000}, {"context": 1}, {"draft_tokens": 16}):
        with pytest.raises(UsageError):
            native.open(bundle, **settings)
    options = COptions(ctypes.sizeof(COptions), runtime_path=b"/nowhere/libonnxruntime.so")
    with pytest.raises(BackendError):
        call("open", str(bundle).encode(), ctypes.byref(options), ctypes.byref(ctypes.c_void_p()))
    copy = tmp_path / "copy"
    shutil.copytree(bundle, copy)
    edit(copy / "manifest.json", ("kind",), "optimum")
    with pytest.raises(UnsupportedError):
        native.open(copy)


def test_a_bundle_without_tables_is_made_ready(
    bundle: Path, tmp_path: Path, model: native.NativeModel
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(bundle, copy)
    (copy / "tokenizer.table").unlink()
    (copy / "chat_template.program").write_bytes(b"EDGETPL3 of another template")
    messages = [{"role": "user", "content": "hello"}]
    with native.open(copy, threads=1, context=256) as opened:
        asked = {"sampling": GREEDY, "max_tokens": 5}
        assert opened.reply(messages, **asked).tokens == model.reply(messages, **asked).tokens
    assert (copy / "tokenizer.table").is_file()


def test_no_arguments_are_no_crash() -> None:
    status = CStatus()
    for name, count in (("open", 3), ("plan", 2), ("stats", 2), ("save", 2), ("reply", 5), ("generate", 5)):
        function = getattr(library(), f"edgedec_{name}")
        arguments = [
            0 if kind in (ctypes.c_size_t, ctypes.c_int32) else None for kind in function.argtypes[:-1]
        ]
        assert len(arguments) >= count
        assert function(*arguments, ctypes.byref(status)) == 2
        assert function(*arguments, None) == 2
        assert status.message
    library().edgedec_close(None)
    library().edgedec_stop(None)
    library().edgedec_free(None)


def test_the_runtime_is_found() -> None:
    assert Path(runtime_path()).is_file()
