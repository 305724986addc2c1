"""Several conversations in one batch: each has the same tokens as alone, and all of them end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.core.cache_config import KvType
from edgedec.core.errors import BackendError, ContextFullError, UnsupportedError, UsageError
from edgedec.costs.cost_file import CostFile
from edgedec.decode.checks import common_prefix
from edgedec.memory.footprint import MemoryChoice, MemoryFacts
from edgedec.memory.plan import peak
from edgedec.sampling import DrawParams
from edgedec.session.chat import Chat
from edgedec.session.conversations import Conversations
from edgedec.session.reply import Settings
from tests.fixtures.ready import Ready, chat_of
from tests.fixtures.replies import feed_all
from tests.fixtures.tiny_models import run_tiny, tiny_bundle
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
    "greedy": DrawParams(),
    "sampled": DrawParams(temperature=0.8, seed=3),
    "whole rows": DrawParams(temperature=1.0, top_p=0.95, repetition_penalty=1.2, seed=5),
    "mirostat": DrawParams(temperature=0.9, mirostat=2.0, typical=0.95, seed=5),
    "counted": DrawParams(temperature=0.6, frequency_penalty=0.3, logit_bias=((2, -100.0),), seed=5),
}
MODELS = [
    ("llama", "fp16", (1, 2, 4, 8)),
    ("gemma3", "fp16", (8,)),
    ("gemma4", "fp16", (3,)),
    ("llama", "int8", (3,)),
]
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("costs")


@pytest.fixture
def model(folder: Path) -> Ready:
    return run_tiny(tiny_bundle(folder))


def several_of(
    model: Ready,
    count: int,
    settings: Settings | None = None,
    *,
    system: str | None = None,
    home: Path | None = None,
    **changes: object,
) -> Conversations:
    """``count`` conversations with the model's own settings, but for the changes."""
    config = replace(model.runner.prepared.config, conversations=count, **changes)  # type: ignore[arg-type]
    batch = Runner(model.prepared(config, RunContext(home)))
    return Conversations(batch, settings, system=system)


def alone(model: Ready, settings: Settings) -> list[list[int]]:
    chat = chat_of(model, settings)
    found = []
    for text in TEXTS:
        reply = chat.complete(text)
        reply.read()
        found.append(reply.tokens)
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
    model = run_tiny(tiny_bundle(folder, architecture), context=200, kv=kv)
    settings = Settings(PARAMS[name], max_tokens=24)
    expected = alone(model, settings)
    assert len({tuple(tokens) for tokens in expected}) > 5
    for count in counts:
        assert together(several_of(model, count, settings)) == expected
        drafting = several_of(model, count, settings, draft="auto", home=cheap(model, costs))
        speculations = feed_all([chat.engine.home for chat in drafting.chats])
        assert len(speculations) == count
        assert together(drafting) == expected
        assert sum(speculation.tally.drafted for speculation in speculations) > 100


def cheap(model: Ready, home: Path) -> Path:
    """Nothing need be measured; tokens cost next to nothing."""
    file = CostFile.of(model.loaded, model.runner.prepared.config.kv, home / "costs")
    file.write(file.measured({1: 1e-1, 16: 1.0001e-1, 128: 1.001e-1}))
    return home


def test_drafts_in_a_batch_whatever_passes_cost(model: Ready, tmp_path: Path) -> None:
    """Costs as they are, measured now."""
    settings = Settings(max_tokens=16)
    expected = alone(model, settings)
    several = several_of(model, 3, settings, draft="lookup,recycling", home=tmp_path)
    assert together(several) == expected
    assert len(list((tmp_path / "costs").iterdir())) == 1


@pytest.mark.parametrize("architecture", ["llama", "gemma3", "gemma4"])
def test_short_passes_of_a_plan_change_nothing(folder: Path, architecture: str) -> None:
    """Layers with a window keep little more than that window then."""
    params = DrawParams(temperature=0.9, seed=1)
    model = run_tiny(tiny_bundle(folder, architecture), context=400, sampling=params)
    settings = Settings(params, max_tokens=150)

    def tight(facts: MemoryFacts, wanted: MemoryChoice) -> int:
        return peak(facts, replace(wanted, prompt_pass=16))

    several = several_of(model, 4, settings, memory=tight)
    assert several._runner.budget is not None
    assert several._runner.budget.choice.prompt_pass == 16
    assert together(several) == alone(model, settings)


def test_chats_of_several_turns_at_once(model: Ready, costs: Path) -> None:
    turns = ["Hello there", "And then?", "Tell me more"]
    settings = Settings(max_tokens=12)

    def chat(session: Chat, number: int, replies: list[str]) -> Iterator[None]:
        for turn in turns:
            replies.append(session.reply(f"{turn} {number}").read())
            yield

    expected: list[list[str]] = []
    for number in range(3):
        session, replies = chat_of(model, settings, system="Be brief."), list[str]()
        list(chat(session, number, replies))
        expected.append(replies)
    found: list[list[str]] = [[], [], []]
    home = cheap(model, costs)
    with several_of(model, 3, settings, system="Be brief.", draft="auto", home=home) as several:

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


def test_a_text_that_does_not_fit_concerns_nobody_else(model: Ready) -> None:
    settings = Settings(max_tokens=10)
    texts = ["Hello", "word " * 400, "a b a b", "word " * 400, "x"]
    with several_of(model, 3, settings) as several:
        answers = list(several.answers(texts, raw=True))
        again = list(several.answers(["Hello"], raw=True))
    assert [isinstance(answer.error, ContextFullError) for answer in answers] == [False, True] * 2 + [False]
    session = chat_of(model, settings)
    for text, answer in zip(texts, answers, strict=True):
        if answer.reply is not None:
            assert answer.reply.text == "".join(session.complete(text))
    assert again[0].reply is not None
    assert answers[0].reply is not None
    assert again[0].reply.tokens == answers[0].reply.tokens


def test_replies_that_fill_the_context_end_there(model: Ready) -> None:
    with several_of(model, 4, Settings(max_tokens=1000)) as several:
        answers = list(several.answers(TEXTS[:5], raw=True))
    for answer in answers:
        assert answer.reply is not None
        full = len(answer.reply.prompt) + len(answer.reply.tokens) == 256
        assert (answer.reply.finish_reason == "context") == full


def test_an_interrupt_ends_all_and_the_next_ones_are_right(model: Ready) -> None:
    settings = Settings(max_tokens=200)
    expected = alone(model, settings)
    with several_of(model, 3, settings) as several:
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


def test_giving_up_half_way_stops_the_threads(model: Ready) -> None:
    before = threading.active_count()
    with several_of(model, 4, Settings(max_tokens=50)) as several:
        answers = several.answers(TEXTS, raw=True)
        assert next(answers).number == 0
        answers.close()
        assert threading.active_count() == before + 1  # the one that runs passes
    assert threading.active_count() == before


def test_one_conversation_has_no_thread_that_combines_passes(model: Ready) -> None:
    before = set(threading.enumerate())
    with several_of(model, 1, Settings(max_tokens=8)) as one:
        assert set(threading.enumerate()) <= before
        answers = list(one.answers(TEXTS[:2], raw=True))
        assert [answer.reply.tokens for answer in answers if answer.reply] == alone(
            model, Settings(max_tokens=8)
        )[:2]
        with one.reply(0), pytest.raises(ValueError, match="in a reply already"), one.reply(0):
            pass


def test_each_of_several_evicts_from_a_full_cache_as_alone(model: Ready) -> None:
    settings = Settings(max_tokens=90, when_full="slide")
    full = replace(model.runner.prepared.config, context=48, when_full="slide")
    chat = Chat(Runner(model.prepared(full)).engine, model.codec, settings)
    expected = []
    for text in TEXTS[:1] + TEXTS[3:6]:
        reply = chat.complete(text)
        reply.read()
        expected.append(reply.tokens)
        chat.reset()
    assert max(map(len, expected)) > 48
    with several_of(model, 3, settings, context=48, when_full="slide") as several:
        answers = list(several.answers(TEXTS[:1] + TEXTS[3:6], raw=True))
    assert [answer.reply.tokens for answer in answers if answer.reply] == expected


def test_what_several_cannot_do_when_the_context_is_full_is_refused(model: Ready) -> None:
    with pytest.raises(UnsupportedError, match="attention weights"):
        several_of(model, 2, context=48, when_full="speckv")


@pytest.mark.parametrize("count", [1, 2])
def test_after_closing_nothing_is_answered(model: Ready, count: int) -> None:
    several = several_of(model, count)
    several.close()
    assert [type(answer.error) for answer in several.answers(["Hello"], raw=True)] == [BackendError]


def test_a_pass_that_fails_is_said_to_all_and_the_next_one_is_right(
    model: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = alone(model, Settings(max_tokens=8))
    several = several_of(model, 3, Settings(max_tokens=8))
    combined = several._runner.sequences._batch._combined  # type: ignore[attr-defined]
    run, calls = combined.run, iter(range(1000))

    def broken_from_the_fourth_on(requests: object) -> object:
        if next(calls) >= 3:  # a pass of several is run again, each alone: those fail as well
            raise BackendError("broken")
        return run(requests)  # type: ignore[arg-type]

    monkeypatch.setattr(combined, "run", broken_from_the_fourth_on)
    with several:
        first = list(several.answers(TEXTS[:3], raw=True))
        assert any(isinstance(answer.error, BackendError) for answer in first)
        monkeypatch.setattr(combined, "run", run)
        second = [answer.reply.tokens for answer in several.answers(TEXTS, raw=True) if answer.reply]
    assert second == expected


@pytest.mark.parametrize("name", ["greedy", "sampled"])
def test_the_beginning_that_prompts_share_is_computed_once(model: Ready, name: str) -> None:
    """The others copy it, and say what they say alone; later replies copy from whichever cache has most."""
    system = "You are a helpful assistant, and the cat sat on the mat while the dog ran away."
    texts = [f"{system} {text}" for text in TEXTS]
    settings = Settings(PARAMS[name], max_tokens=12)
    chat, expected = chat_of(model, settings), []
    for text in texts:
        reply = chat.complete(text)
        reply.read()
        expected.append(reply.tokens)
        chat.engine.reset()
    several = several_of(model, 3, settings)
    with several:
        found = [one.reply for one in several.answers(texts, raw=True) if one.reply]
    assert [one.tokens for one in found] == expected
    shared = min(common_prefix(found[0].prompt, one.prompt) for one in found[1:])
    assert shared > 16
    assert [one.reused >= shared for one in found] == [False] + [True] * (len(texts) - 1)


def test_prompts_that_begin_otherwise_wait_for_nobody(model: Ready) -> None:
    several = several_of(model, 2, Settings(max_tokens=4))
    with several:
        prefixes = several._prefixes
        assert not prefixes.awaited([1, 2, 3], [4, 5, 6])
        assert prefixes.awaited([1] * 20, [1] * 9)
        assert [one.reply.reused for one in several.answers(["One", "two"], raw=True) if one.reply] == [0, 0]


def test_batches_that_are_not_possible(model: Ready, tmp_path: Path) -> None:
    for count in (0, 33):
        with pytest.raises(UsageError, match="not possible"):
            several_of(model, count)
    with pytest.raises(UsageError, match="exit cannot draft"):
        several_of(model, 2, draft="auto,exit")
    with pytest.raises(UsageError, match="one conversation at a time only"):
        several_of(model, 2, draft="auto", history=True)
    with pytest.raises(UnsupportedError, match="one conversation at a time"):
        several_of(load_parrot(tmp_path), 2)


def test_energy_of_a_batch_counts_shared_passes_once(model: Ready) -> None:
    """Each conversation alone reads the weights for every token; together they share passes."""
    found = {}
    for count in (1, 3):
        several = several_of(model, count, Settings(max_tokens=16))
        several.measure()
        with several:
            answers = list(several.answers(TEXTS, raw=True))
        figures = several.together()
        assert figures.completion_tokens == sum(len(one.reply.tokens) for one in answers if one.reply)
        assert figures.energy.estimated
        assert figures.energy.joules_per_token == pytest.approx(
            figures.energy.joules / figures.completion_tokens
        )
        found[count] = several._runner.mark().work
    assert found[3].tokens == found[1].tokens
    assert found[3].slots == found[1].slots
    # A third where all meet in every pass; on a busy machine a thread comes late to some.
    assert found[3].passes < 0.9 * found[1].passes


def test_energy_of_a_batch_begins_anew(model: Ready) -> None:
    several = several_of(model, 2, Settings(max_tokens=4))
    with several:
        list(several.answers(TEXTS[:2], raw=True))
        several.measure()
        figures = several.together()
    assert (figures.completion_tokens, figures.energy.joules) == (0, 0.0)
    assert figures.as_json()["completion_tokens"] == 0
