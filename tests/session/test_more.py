"""A reply that was cut goes on as if it had not been; the last turn can be taken back."""

from __future__ import annotations

from dataclasses import replace
from math import isqrt
from pathlib import Path
from typing import Any

import pytest

from edgedec.core.cache_config import DROP, SLIDE, STOP
from edgedec.core.errors import BadFileError, ContextFullError, UsageError
from edgedec.decode.speculation import Speculation
from edgedec.draft import Lookup, Recycling
from edgedec.sampling import DrawParams
from edgedec.session.chat import Chat
from edgedec.session.fit import reply_room
from edgedec.session.loops import TAIL_TOKENS
from edgedec.session.prompt import Message
from edgedec.session.reply import Settings
from edgedec.session.saved_session import document_of
from edgedec.session.session_file import write_file
from tests.fixtures.ready import Ready, chat_of
from tests.fixtures.sessions import restore_session
from tests.fixtures.tiny_models import opened, tiny_bundle
from tests.session.parrot import CAPACITY, load_parrot, make_tokenizer

GREEDY = DrawParams()
SAMPLED = DrawParams(temperature=1.2, top_p=0.95, repetition_penalty=1.1, seed=5)
COUNTED = DrawParams(temperature=1.0, frequency_penalty=0.6, presence_penalty=0.4, logit_bias=((2, -100.0),))
MIROSTAT = DrawParams(temperature=1.3, mirostat=3.0, edt=0.2, logit_bias=((2, -100.0),), seed=5)
KINDS = {"greedy": GREEDY, "sampled": SAMPLED, "counted": COUNTED, "mirostat": MIROSTAT}


def tokens_of(chat: Chat) -> list[int]:
    assert chat.last is not None
    return chat.last.tokens


def endless(folder: Path, char: str = "a") -> Ready:
    """A model that says one character for ever."""
    word = make_tokenizer(folder).encode(char, add_bos=False)[0]
    return load_parrot(folder, speak=lambda context: word)


def restless(folder: Path) -> Ready:
    """A model that never stops and never repeats itself: squares differ."""
    ids = make_tokenizer(folder).encode("ab", add_bos=False)
    return load_parrot(folder, speak=lambda context: ids[isqrt(len(context)) ** 2 == len(context)])


@pytest.mark.parametrize("params", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("drafts", [False, True])
@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_the_parts_are_the_tokens_of_one_longer_reply(
    folder: Path, architecture: str, drafts: bool, params: DrawParams
) -> None:
    def chat(max_tokens: int) -> Chat:
        speculation = Speculation([Lookup(), Recycling()]) if drafts else None
        model = opened(tiny_bundle(folder, architecture), context=400)[0]
        return chat_of(model, Settings(params, max_tokens), speculation=speculation)

    long = chat(90)
    for text in ("hello world", "and then"):
        whole = long.reply(text).read()
    parts = chat(90)
    parts.reply("hello world").read()
    parts.adjust(max_tokens=40)
    shown = parts.reply("and then").read()
    tokens = tokens_of(parts)
    for length in (30, 20):
        if parts.unfinished:
            parts.adjust(max_tokens=length)
            shown += parts.more().read()
            tokens = tokens + tokens_of(parts)
            assert parts.last is not None
            assert parts.last.reused >= len(parts.last.prompt) - 16  # of a ring perhaps not all
    assert tokens == tokens_of(long)
    assert len(tokens) > 40
    assert parts.messages == long.messages
    assert parts.prompts.seen == long.prompts.seen
    assert (shown == whole) or "\ufffd" in shown
    assert parts.reply("go on").read() == long_reply(long)


def long_reply(chat: Chat) -> str:
    chat.adjust(max_tokens=20)
    return chat.reply("go on").read()


def test_an_interrupted_reply_goes_on(folder: Path) -> None:
    def chat() -> Chat:
        return chat_of(opened(tiny_bundle(folder))[0], Settings(SAMPLED, 60))

    long, cut = chat(), chat()
    long.reply("hello").read()
    reply = cut.reply("hello")
    for _ in reply:
        if len(reply.tokens) >= 17:
            cut.interrupt()
    first = reply.tokens
    cut.adjust(max_tokens=60 - len(first))
    cut.more().read()
    assert first + tokens_of(cut) == tokens_of(long)
    assert cut.messages == long.messages


def test_a_cut_character_and_a_cut_stop_string_are_whole_in_the_conversation(tmp_path: Path) -> None:
    tokenizer = make_tokenizer(tmp_path)
    model = load_parrot(tmp_path, "caf\u00e9 is open. END of it")
    ids = tokenizer.encode("caf\u00e9 is open. END of it", add_bos=False)
    half = next(n for n in range(1, len(ids)) if tokenizer.decode(ids[:n]).endswith("\ufffd"))
    inside = next(n for n in range(1, len(ids)) if tokenizer.decode(ids[:n]).endswith("EN"))
    chat = chat_of(model, Settings(max_tokens=half, stops=("END",)))
    assert chat.reply("Hi").read() == "caf\ufffd"
    chat.adjust(max_tokens=inside - half)
    assert chat.more().read() == "\u00e9 is open. EN"  # what was shown cannot be taken back
    assert chat.messages[-1] == Message("assistant", "caf\u00e9 is open. EN")
    assert chat.more().read() == ""
    assert chat.messages[-1] == Message("assistant", "caf\u00e9 is open. ")
    assert chat.last is not None
    assert chat.last.finish_reason == "stop"
    with pytest.raises(UsageError, match="no reply to continue"):
        chat.more()


def test_a_stop_string_given_later_ends_nothing_that_was_said(tmp_path: Path) -> None:
    chat = chat_of(load_parrot(tmp_path, "one, two, three"), Settings(max_tokens=5))
    first = chat.reply("Count").read()
    chat.adjust(max_tokens=None, stops=("one",))
    assert first + chat.more().read() == "one, two, three"


def test_there_is_nothing_to_continue_at_first_nor_after_an_end_nor_after_a_reset(tmp_path: Path) -> None:
    chat = chat_of(load_parrot(tmp_path, "Hello.", "Fine.", "abcdef"), Settings(max_tokens=100))
    for _ in range(2):
        with pytest.raises(UsageError, match="no reply to continue"):
            chat.more()
        chat.reply("Hi").read()
    chat.adjust(max_tokens=2)
    chat.reply("More").read()
    assert chat.unfinished is not None
    chat.reset()
    with pytest.raises(UsageError, match="no reply to continue"):
        chat.more()


def test_without_a_limit_a_chat_keeps_room_for_the_next_turn(tmp_path: Path) -> None:
    lines: list[str] = []
    chat = chat_of(restless(tmp_path), Settings(), notice=lines.append)
    reply = chat.reply("Hi")
    reply.read()
    assert reply.finish_reason == "context"
    assert len(reply.prompt) + len(reply.tokens) == CAPACITY * 3 // 4
    second = chat.reply("Hm")
    second.read()
    assert len(second.tokens) == CAPACITY // 8
    assert lines == []
    assert [message.content for message in chat.messages[::2]] == ["Hi", "Hm"]


def endless_chat(folder: Path, when_full: Any = DROP, **changes: Any) -> tuple[Chat, list[str]]:
    lines: list[str] = []
    chat = chat_of(endless(folder), Settings(**changes), when_full=when_full, notice=lines.append)
    return chat, lines


def test_the_last_turn_may_have_all_of_the_context(tmp_path: Path) -> None:
    chat = chat_of(restless(tmp_path), Settings())
    reply = chat.reply("Hi", final=True)
    reply.read()
    assert (reply.finish_reason, len(reply.prompt) + len(reply.tokens)) == ("context", CAPACITY)
    whole = chat.complete("a")
    assert len(whole.read()) == CAPACITY - 1


@pytest.mark.parametrize("limit", [None, 300])
def test_a_reply_that_goes_round_in_circles_ends_unless_it_has_a_limit(
    tmp_path: Path, limit: int | None
) -> None:
    ids = make_tokenizer(tmp_path).encode("abc", add_bos=False)
    model = load_parrot(tmp_path, speak=lambda context: ids[len(context) % len(ids)])
    chat = chat_of(model, Settings(max_tokens=limit))
    reply = chat.reply("Hi", final=True)
    reply.read()
    expected = ("loop", TAIL_TOKENS) if limit is None else ("length", 300)
    assert (reply.finish_reason, len(reply.tokens)) == expected
    chat.adjust(max_tokens=8)
    assert len(chat.more().read()) > 0


@pytest.mark.parametrize(("prompt", "expected"), [(0, 300), (200, 100), (260, 50), (390, 50)])
def test_the_room_for_a_reply(prompt: int, expected: int) -> None:
    assert reply_room(prompt, 400) == expected
    assert reply_room(1, 2) == 1


def test_more_drops_the_oldest_turns_once_the_context_is_full(tmp_path: Path) -> None:
    chat, lines = endless_chat(tmp_path, max_tokens=60)
    for letter in "bcd":
        chat.reply(letter * 30).read()
    said = 60
    while not lines:
        chat.more().read()
        said += len(tokens_of(chat))
        assert said < CAPACITY
    assert lines == ["context is full: dropped the oldest turn"]
    assert [message.content for message in chat.messages[2:]] == ["d" * 30, "a" * said]
    while len(chat.engine.committed) < CAPACITY or chat.messages[2:]:
        chat.more().read()
    before = chat.messages
    with pytest.raises(ContextFullError, match=f"fills the context of {CAPACITY} tokens"):
        chat.more()
    assert chat.messages == before
    assert len(chat.engine.committed) == CAPACITY


def test_after_turns_were_dropped_it_goes_on_as_without_them(folder: Path) -> None:
    lines: list[str] = []
    settings = Settings(SAMPLED, max_tokens=40)
    long = chat_of(opened(tiny_bundle(folder), context=160)[0], settings, notice=lines.append)
    long.reply("hello world").read()
    long.reply("number two").read()
    while not lines:
        before = long.unfinished
        assert before is not None
        long.more().read()
    engine = chat_of(opened(tiny_bundle(folder), context=160)[0]).engine
    assert long.last is not None
    prompt = long.last.prompt
    assert prompt[len(prompt) - len(before.tokens) :] == list(before.tokens)
    assert long.messages[0] == Message("user", "number two")
    steps = engine.generate(prompt, SAMPLED, max_tokens=40, stop_ids=engine.home.spec.eos_ids)
    assert [step.token for step in steps] == tokens_of(long)


def test_with_stop_nothing_is_dropped(tmp_path: Path) -> None:
    chat, lines = endless_chat(tmp_path, STOP, max_tokens=200)
    chat.reply("b" * 60).read()
    chat.reply("b" * 30).read()
    assert chat.last is not None
    assert chat.last.finish_reason == "context"
    before = chat.messages
    with pytest.raises(ContextFullError, match="the reply fills the context"):
        chat.more()
    assert (chat.messages, lines) == (before, [])


@pytest.mark.parametrize("params", KINDS.values(), ids=KINDS)
def test_where_tokens_are_evicted_a_reply_goes_on_too(folder: Path, params: DrawParams) -> None:
    def chat(max_tokens: int) -> Chat:
        model = opened(tiny_bundle(folder), context=128)[0]
        return chat_of(model, Settings(replace(params, seed=26), max_tokens), when_full=SLIDE)

    long, parts = chat(300), chat(90)
    long.reply("hello world").read()
    parts.reply("hello world").read()
    tokens = tokens_of(parts)
    for length in (100, 110):
        if parts.unfinished:
            parts.adjust(max_tokens=length)
            parts.more().read()
            tokens = tokens + tokens_of(parts)
    assert parts.policy is not None
    assert parts.policy.tokens > 50
    assert len(tokens) > 150
    assert tokens == tokens_of(long)


@pytest.mark.parametrize("params", KINDS.values(), ids=KINDS)
def test_a_saved_reply_goes_on_where_it_is_restored(folder: Path, tmp_path: Path, params: DrawParams) -> None:
    bundle, path = tiny_bundle(folder), tmp_path / "talk"
    model, model_id = opened(bundle)
    long = chat_of(model, Settings(params, 60))
    long.reply("hello world").read()
    first = chat_of(opened(bundle)[0], Settings(params, 25))
    first.codec = replace(first.codec, model_id=model_id)
    first.reply("hello world").read()
    first.save(path)
    second = chat_of(opened(bundle)[0], Settings(params, 35))
    restore_session(path, second, model_id, lambda line: None)
    second.more().read()
    assert tokens_of(first) + tokens_of(second) == tokens_of(long)
    assert second.messages == long.messages
    assert second.last is not None
    assert second.last.reused > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"said": ["x"]}, {"said": [-1]}, {"said": [10**6]}, {"prompt": {"text": "", "ids": [10**6]}},
        {"prompt": []}, {"shown": 1}, {"shown": None}, {"bound": "x"}, {"bound": True},
        {"bound": float("nan")},
    ],
)  # fmt: skip
def test_a_damaged_unfinished_reply_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    chat, _ = endless_chat(tmp_path, max_tokens=5)
    chat.reply("Hi").read()
    model_id = chat.codec.model_id
    assert model_id is not None
    document = document_of(chat.saved()) | {"cache": None}
    assert set(document["unfinished"]) == {"prompt", "said", "shown"}
    bad = [document | {"unfinished": {**document["unfinished"], **wrong}}, document | {"messages": []}]
    for one in bad:
        write_file(tmp_path / "talk", one, lambda sink: None)
        with pytest.raises(BadFileError):
            restore_session(tmp_path / "talk", chat, model_id, lambda line: None)


def test_a_turn_is_taken_back(tmp_path: Path) -> None:
    model = load_parrot(tmp_path, "Hello.", "Fine.", "Bye.")
    chat = chat_of(model, Settings(max_tokens=50), system="Be brief.")
    chat.reply("Hi").read()
    seen, messages = chat.prompts.seen, chat.messages
    chat.reply("How are you?").read()
    assert chat.take_back() == "How are you?"
    assert (chat.messages, chat.prompts.seen) == (messages, seen)
    assert chat.reply("Again").read() == "Fine."
    assert [chat.take_back(), chat.take_back()] == ["Again", "Hi"]
    assert chat.messages == [Message("system", "Be brief.")]
    with pytest.raises(UsageError, match="no turn to take back"):
        chat.take_back()
    assert chat.reply("Hi").read() == "Hello."


def test_a_turn_asked_again_continues_the_drawn_tokens(tmp_path: Path) -> None:
    """Its tokens stay those that were drawn, though their text would encode differently."""
    tokenizer = make_tokenizer(tmp_path)
    letters = [tokenizer.encode(char, add_bos=False)[0] for char in "hello"]
    chat = chat_of(load_parrot(tmp_path, letters, "abc", "d"), Settings(max_tokens=2))
    chat.adjust(max_tokens=9)
    chat.reply("Hi").read()
    chat.adjust(max_tokens=2)
    chat.reply("More").read()
    prompt = chat.last.prompt if chat.last else []
    chat.more().read()
    assert chat.messages[-1].content == "abc"
    chat.take_back()
    reply = chat.reply("More")
    assert reply.prompt == prompt
    assert reply.reused == len(prompt) - 1
    assert reply.read() == "ab"


def test_taking_back_a_cut_reply_leaves_nothing_to_continue(tmp_path: Path) -> None:
    chat, _ = endless_chat(tmp_path, max_tokens=4)
    chat.reply("Hi").read()
    assert chat.unfinished is not None
    chat.take_back()
    assert chat.unfinished is None
