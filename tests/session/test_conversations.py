"""Several conversations at once: each says, token for token, what it says alone; and all of them end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.control import Uncontrolled
from edgedec.core.errors import BackendError, ContextFullError, UnsupportedError, UsageError
from edgedec.memory import KvType
from edgedec.memory.footprint import MemoryChoice
from edgedec.runtime.drafting import Drafting
from edgedec.runtime.loaded_model import LoadedModel, load_model
from edgedec.runtime.pass_costs import CostFile
from edgedec.sampling import SamplingParams
from edgedec.session.conversations import Conversations
from edgedec.session.reply import Settings
from tests.fixtures.tiny_models import session_of, tiny_bundle
from tests.session.parrot import load_parrot

TEXTS = [
    "Once upon a time, once upon a",
    "one two three one two three one two",
    "The cat sat on the mat. " * 6,
    "x",
    "Count: 1, 2, 3, 4, 1, 2, 3, 4, 1, 2",
    "a b a b a b a b",
    "Hello",
    "Never the same, never the same, never",
    "zzz",
]
PARAMS = {
    "greedy": SamplingParams(),
    "sampled": SamplingParams(temperature=0.8, seed=3),
    "whole rows": SamplingParams(temperature=1.0, top_p=0.95, repetition_penalty=1.2, seed=5),
}
MODELS = [("llama", "fp16", (1, 2, 4, 8)), ("gemma3", "fp16", (8,)), ("llama", "int8", (3,))]
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("costs")


@pytest.fixture
def model(folder: Path) -> LoadedModel:
    return load_model(tiny_bundle(folder), threads=1, context=256)


def alone(model: LoadedModel, settings: Settings) -> list[list[int]]:
    session = session_of(model, settings)
    found = []
    for text in TEXTS:
        for _ in session.complete(text):
            pass
        assert session.last is not None
        found.append(session.last.tokens)
    return found


def together(several: Conversations, texts: list[str] = TEXTS) -> list[list[int]]:
    with several:
        answers = list(several.answers(texts, raw=True))
    assert [answer.number for answer in answers] == list(range(len(texts)))
    return [answer.reply.tokens if answer.reply else [] for answer in answers]


@pytest.mark.parametrize("name", PARAMS)
@pytest.mark.parametrize(("architecture", "kv", "counts"), MODELS)
def test_each_says_what_it_says_alone(
    folder: Path, costs: Path, architecture: str, kv: KvType, counts: tuple[int, ...], name: str
) -> None:
    model = load_model(tiny_bundle(folder, architecture), threads=1, context=200, kv=kv)
    settings = Settings(PARAMS[name], max_tokens=24)
    expected = alone(model, settings)
    assert len({tuple(tokens) for tokens in expected}) > 5
    for count in counts:
        assert together(Conversations(model, count, settings)) == expected
        drafting = Conversations(model, count, settings, drafting=Drafting("auto"), costs=cheap(model, costs))
        speculations = [session.speculation for session in drafting.sessions if session.speculation]
        assert len(speculations) == count
        for speculation in speculations:
            speculation._control = Uncontrolled(speculation.drafters)  # feed whatever is drafted
        assert together(drafting) == expected
        assert sum(speculation.tally.drafted for speculation in speculations) > 100


def cheap(model: LoadedModel, costs: Path) -> Path:
    """Nothing need be measured; tokens cost next to nothing."""
    CostFile.of(model, costs).write({1: 1e-1, 16: 1.0001e-1, 128: 1.001e-1})
    return costs


def test_drafts_in_a_batch_whatever_passes_cost(model: LoadedModel, tmp_path: Path) -> None:
    """Costs as they are, measured now."""
    settings = Settings(max_tokens=16)
    expected = alone(model, settings)
    drafting = Drafting("lookup,recycling")
    assert together(Conversations(model, 3, settings, drafting=drafting, costs=tmp_path)) == expected
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_short_passes_of_a_plan_change_nothing(folder: Path, architecture: str) -> None:
    """Layers with a window keep little more than that window then."""
    model = load_model(tiny_bundle(folder, architecture), threads=1, context=400)
    settings = Settings(SamplingParams(temperature=0.9, seed=1), max_tokens=150)
    choice = MemoryChoice(400, prompt_pass=16, drafted=0)
    assert together(Conversations(model, 4, settings, choice=choice)) == alone(model, settings)


def test_chats_of_several_turns_at_once(model: LoadedModel, costs: Path) -> None:
    turns = ["Hello there", "And then?", "Tell me more"]
    settings = Settings(max_tokens=12)

    def chat(session: object, number: int, replies: list[str]) -> Iterator[None]:
        for turn in turns:
            replies.append("".join(session.reply(f"{turn} {number}")))  # type: ignore[attr-defined]
            yield

    expected: list[list[str]] = []
    for number in range(3):
        session, replies = session_of(model, settings, system="Be brief."), []
        list(chat(session, number, replies))
        expected.append(replies)
    found: list[list[str]] = [[], [], []]
    drafting = Drafting("auto")
    with Conversations(
        model, 3, settings, system="Be brief.", drafting=drafting, costs=cheap(model, costs)
    ) as several:

        def talk(number: int) -> None:
            for turn in turns:
                with several.reply(number) as session:
                    found[number].append("".join(session.reply(f"{turn} {number}")))

        threads = [threading.Thread(target=talk, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
            assert not thread.is_alive()
    assert found == expected


def test_a_text_that_does_not_fit_concerns_nobody_else(model: LoadedModel) -> None:
    settings = Settings(max_tokens=10)
    texts = ["Hello", "word " * 400, "a b a b", "word " * 400, "x"]
    with Conversations(model, 3, settings) as several:
        answers = list(several.answers(texts, raw=True))
        again = list(several.answers(["Hello"], raw=True))
    assert [isinstance(answer.error, ContextFullError) for answer in answers] == [False, True] * 2 + [False]
    session = session_of(model, settings)
    for text, answer in zip(texts, answers, strict=True):
        if answer.reply is not None:
            assert answer.reply.text == "".join(session.complete(text))
    assert again[0].reply is not None
    assert answers[0].reply is not None
    assert again[0].reply.tokens == answers[0].reply.tokens


def test_replies_that_fill_the_context_end_there(model: LoadedModel) -> None:
    with Conversations(model, 4, Settings(max_tokens=1000)) as several:
        answers = list(several.answers(TEXTS[:5], raw=True))
    for answer in answers:
        assert answer.reply is not None
        full = len(answer.reply.prompt) + len(answer.reply.tokens) == 256
        assert (answer.reply.finish_reason == "context") == full


def test_an_interrupt_ends_all_and_the_next_ones_are_right(model: LoadedModel) -> None:
    settings = Settings(max_tokens=200)
    expected = alone(model, settings)
    with Conversations(model, 3, settings) as several:
        timer = threading.Timer(0.05, several.interrupt)
        timer.start()
        cut = list(several.answers(TEXTS * 30, raw=True))
        timer.join()
        assert len(cut) < 30 * len(TEXTS)
        for answer in cut:
            assert answer.reply is not None
            whole = expected[answer.number % len(TEXTS)]
            assert answer.reply.tokens == whole[: len(answer.reply.tokens)]
        assert together(several) == expected


def test_giving_up_half_way_stops_the_threads(model: LoadedModel) -> None:
    before = threading.active_count()
    with Conversations(model, 4, Settings(max_tokens=50)) as several:
        answers = several.answers(TEXTS, raw=True)
        assert next(answers).number == 0
        answers.close()
        assert threading.active_count() == before + 1  # the one that runs passes
    assert threading.active_count() == before


def test_after_closing_nothing_is_answered(model: LoadedModel) -> None:
    several = Conversations(model, 2)
    several.close()
    assert [type(answer.error) for answer in several.answers(["Hello"], raw=True)] == [BackendError]


def test_a_pass_that_fails_is_said_to_all_and_the_next_one_is_right(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = alone(model, Settings(max_tokens=8))
    several = Conversations(model, 3, Settings(max_tokens=8))
    run, calls = several._batch._combined.run, iter(range(1000))

    def sometimes(requests: object) -> object:
        if next(calls) == 3:
            raise BackendError("broken")
        return run(requests)  # type: ignore[arg-type]

    monkeypatch.setattr(several._batch._combined, "run", sometimes)
    with several:
        first = list(several.answers(TEXTS[:3], raw=True))
        assert any(isinstance(answer.error, BackendError) for answer in first)
        second = [answer.reply.tokens for answer in several.answers(TEXTS, raw=True) if answer.reply]
    assert second == expected


def test_what_is_not_possible(model: LoadedModel, tmp_path: Path) -> None:
    for count in (0, 17):
        with pytest.raises(UsageError, match="not possible"):
            Conversations(model, count)
    with pytest.raises(UsageError, match="cannot draft for a batch"):
        Conversations(model, 2, drafting=Drafting("auto,smollm2-135m"), costs=tmp_path)
    with pytest.raises(UsageError, match="one conversation at a time"):
        Conversations(model, 2, drafting=Drafting("auto", history=True), costs=tmp_path)
    with pytest.raises(ValueError, match="folder"):
        Conversations(model, 2, drafting=Drafting("auto"))
    with pytest.raises(UnsupportedError, match="one conversation at a time"):
        Conversations(replace(load_parrot(tmp_path), isa="llama.cpp"), 2)
