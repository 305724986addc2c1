"""Replies that weigh a text, through the API: questions in a row, drafts, kinds of models, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import edgedec
from edgedec.assemble.checks import check_contrast
from edgedec.core.errors import UnsupportedError, UsageError
from edgedec.sampling import DrawParams
from tests.api.opening import opened
from tests.fixtures.tiny_models import tiny_bundle

TEXT = "the dog sat on a mat and the sky is blue\n" * 8
FIRST, SECOND = "why is a cat blue", "and the dog?"
GREEDY, WARM = DrawParams(), DrawParams(temperature=1.0, seed=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def about(question: str = FIRST, text: str = TEXT) -> edgedec.AboutText:
    return edgedec.AboutText(question, text)


def replies(
    bundle: Path, home: Path, *asked: edgedec.AboutText, params: DrawParams = GREEDY, **settings: Any
) -> list[list[int]]:
    """The tokens of replies to questions of chats of their own, of one model."""
    found = []
    with opened(bundle, home, **{"context": 512, "context_weight": 1.5, **settings}) as model:
        for one in asked:
            reply = model.chat(sampling=params, max_tokens=40).reply(one)
            reply.read()
            found.append(reply.tokens)
    return found


def test_a_question_has_the_same_reply_alone_and_among_others(folder: Path, tmp_path: Path) -> None:
    asked = [about(), about(SECOND), about(text=TEXT[:90]), about(SECOND, TEXT[:90]), about()]
    together = replies(tiny_bundle(folder), tmp_path, *asked)
    assert together == [replies(tiny_bundle(folder), tmp_path, one)[0] for one in asked]
    assert together[0] == together[4]
    assert together[0] != replies(tiny_bundle(folder), tmp_path, about(), context_weight=None)[0]


def test_seeds_in_a_row_are_those_of_models_of_their_own(folder: Path, tmp_path: Path) -> None:
    """A state that one reply leaves to the next would show in the others."""
    with opened(tiny_bundle(folder), tmp_path, context=512, context_weight=1.0) as model:
        chats = [model.chat(temperature=1.0, seed=seed, max_tokens=20) for seed in range(4)]
        found = [chat.reply(about()).text for chat in chats]
    for seed, text in enumerate(found):
        with opened(tiny_bundle(folder), tmp_path, context=512, context_weight=1.0) as model:
            assert model.chat(temperature=1.0, seed=seed, max_tokens=20).reply(about()).text == text


KINDS = ["llama", "gemma3", "gemma4", "qwen35", "lfm2moe"]


@pytest.mark.parametrize("kv", ["fp16", "int8"])
@pytest.mark.parametrize("architecture", KINDS)
@pytest.mark.parametrize("params", [GREEDY, WARM], ids=["greedy", "sampled"])
def test_drafts_change_no_token(
    folder: Path, tmp_path: Path, architecture: str, kv: str, params: DrawParams
) -> None:
    bundle, asked = tiny_bundle(folder, architecture), [about(), about(SECOND)]
    plain = replies(bundle, tmp_path, *asked, params=params, kv=kv)
    assert replies(bundle, tmp_path, *asked, params=params, kv=kv, draft="lookup,recycling") == plain
    assert architecture == "gemma3" or len({*map(tuple, plain)}) == 2


def test_a_draft_model_changes_no_token(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgedec.core_lib.drafters.DOUBTS", (100.0, 0.0))
    bundle, small = tiny_bundle(folder), tiny_bundle(folder, seed=1)
    for params in (GREEDY, WARM):
        plain = replies(bundle, tmp_path, about(), params=params)
        with opened(bundle, tmp_path, context=512, context_weight=1.5, draft=str(small)) as model:
            reply = model.chat(sampling=params, max_tokens=40).reply(about())
            assert reply.read() is not None
            assert [reply.tokens] == plain
            assert model.stats().drafts is not None


def test_a_reply_that_was_cut_goes_on_as_a_longer_one(folder: Path, tmp_path: Path) -> None:
    with opened(tiny_bundle(folder), tmp_path, context=512, context_weight=1.0) as model:
        whole = model.chat(sampling=WARM, max_tokens=30).reply(about())
        whole.read()
        chat = model.chat(sampling=WARM, max_tokens=10)
        parts = [chat.reply(about())]
        parts[0].read()
        model.chat(max_tokens=3).reply(about(SECOND)).read()  # another chat in between
        while sum(len(part.tokens) for part in parts) < 30 and parts[-1].finish_reason == "length":
            parts.append(chat.more())
            parts[-1].read()
        assert [token for part in parts for token in part.tokens][:30] == whole.tokens[:30]


def test_turns_of_a_chat_are_read_on(folder: Path, tmp_path: Path) -> None:
    with opened(tiny_bundle(folder), tmp_path, context=512, context_weight=1.0) as model:
        texts = []
        for lost in (False, True):
            chat = model.chat(sampling=WARM, max_tokens=8)
            chat.reply(about()).read()
            if lost:
                chat.recover()
            second = chat.reply(about(SECOND, "the sky is green"))
            texts.append(second.read())
            assert (second.reused > 100) is not lost
        assert texts[0] == texts[1]


def test_a_reply_that_is_interrupted_leaves_the_next_one_right(folder: Path, tmp_path: Path) -> None:
    with opened(
        tiny_bundle(folder), tmp_path, context=512, context_weight=1.0, draft="lookup,recycling"
    ) as model:
        chat = model.chat(sampling=WARM, max_tokens=40)
        reply = chat.reply(about())
        for _ in reply:
            if len(reply.tokens) > 3:
                reply.interrupt()
        after = model.chat(sampling=WARM, max_tokens=40).reply(about(SECOND))
        assert after.read() is not None
    assert (
        after.tokens
        == replies(tiny_bundle(folder), tmp_path, about(SECOND), params=WARM, context_weight=1.0)[0]
    )


def test_texts_are_completed(folder: Path, tmp_path: Path) -> None:
    with opened(tiny_bundle(folder), tmp_path, context=512, context_weight=1.0) as model:
        reply = model.complete(about(), sampling=GREEDY, max_tokens=12, logprobs=2)
        assert reply.read() is not None
        assert len(reply.start.without) < len(reply.start.prompt)
        assert all(one.logprob <= 0 for one in reply.logprobs)
    with opened(tiny_bundle(folder), tmp_path, context=512) as model:
        plain = model.complete(f"{TEXT.rstrip()}\n\n{FIRST}", sampling=GREEDY, max_tokens=12)
        plain.read()
        assert plain.start.prompt == reply.start.prompt
        assert model.complete(about(), sampling=GREEDY, max_tokens=12).text == plain.text


def test_a_prompt_without_a_text_is_refused_and_nothing_changes(folder: Path, tmp_path: Path) -> None:
    with opened(tiny_bundle(folder), tmp_path, context=512, context_weight=1.0) as model:
        chat = model.chat(max_tokens=4)
        for ask in (lambda: chat.reply(FIRST), lambda: model.complete(FIRST)):
            with pytest.raises(UsageError, match="about no text"):
                ask()
        assert chat.messages == []
        assert chat.reply(about()).read() is not None


@pytest.mark.parametrize(("question", "text"), [("", TEXT), (FIRST, " \n"), ("", "")])
def test_a_question_and_its_text_are_both_there(question: str, text: str) -> None:
    with pytest.raises(UsageError, match="needs both"):
        edgedec.AboutText(question, text)


@pytest.mark.parametrize("others", [
    {"conversations": 2},
    {"switch": "small"},
    {"when_full": "slide"},
    {"when_full": "speckv"},
    {"objective": "energy"},
])  # fmt: skip
def test_what_it_does_not_go_with(others: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="a context weight does not go with"):
        edgedec.RunConfig(context_weight=1.0, **others)


@pytest.mark.parametrize("weight", [0.0, -1.0, 10.5, float("nan"), float("inf")])
def test_a_weight_that_cannot_be(weight: float) -> None:
    with pytest.raises(UsageError, match="a text cannot have the weight"):
        edgedec.RunConfig(context_weight=weight)


def test_a_budget_holds_for_both_sequences(folder: Path, tmp_path: Path) -> None:
    bundle = tiny_bundle(folder)
    asked = about(text=TEXT[:120])
    plain = replies(bundle, tmp_path, asked, params=WARM, context=256)
    with opened(bundle, tmp_path, context=256, context_weight=1.5, memory=1 << 40) as model:
        planned = model.plan()
        assert planned is not None
        needed = planned.planned
    drafts = {"draft": "lookup,recycling"}
    with opened(
        bundle, tmp_path, context=256, context_weight=1.5, memory=needed + (64 << 20), **drafts
    ) as model:
        reply = model.chat(sampling=WARM, max_tokens=40).reply(asked)
        assert reply.read() is not None
        held = model.plan()
    assert held is not None
    assert [reply.tokens] == plain
    assert all(held.most_leased[name] <= nbytes for name, nbytes in held.parts.items())


def test_saved_prefixes_hold_the_text(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedec.session.saved_prefixes._LEAST_TOKENS", 64)
    bundle, settings = tiny_bundle(folder), {"params": WARM, "prefixes": "100MB"}
    first = replies(bundle, tmp_path, about(), **settings)
    with opened(bundle, tmp_path, context=512, context_weight=1.5, prefixes="100MB") as model:
        reply = model.chat(sampling=WARM, max_tokens=40).reply(about())
        assert reply.reused >= 256
        reply.read()
    assert [reply.tokens] == first == replies(bundle, tmp_path, about(), params=WARM)


def test_a_model_whose_backend_cannot_is_refused(folder: Path, tmp_path: Path) -> None:
    with opened(tiny_bundle(folder), tmp_path) as model:
        loaded = model.loaded
        loaded.backend.caps = replace(loaded.backend.caps, contrasts=False)
        with pytest.raises(UnsupportedError, match="no passes with a text and without it"):
            check_contrast(loaded)
