"""Conversations that no longer fit lose their oldest turns, and go on for ever."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedec.core.cache_config import STOP
from edgedec.core.errors import ContextFullError
from edgedec.decode.speculation import Speculation
from edgedec.draft import Lookup, Recycling
from edgedec.sampling import DrawParams
from edgedec.session.chat import Chat
from edgedec.session.fit import fit, turns_that_stay
from edgedec.session.prompt import Message, Prompt
from edgedec.session.reply import Settings
from edgedec.text.template import ChatTemplate
from tests.fixtures.ready import chat_of
from tests.fixtures.sessions import restore_session, save_session
from tests.fixtures.tiny_models import opened
from tests.fixtures.tiny_vocab import CHATML
from tests.session.parrot import Parrot, load_parrot

turn_sizes = st.lists(st.integers(1, 300), max_size=60)


@given(fixed=st.integers(0, 900), sizes=turn_sizes, capacity=st.integers(2, 4096), reply=st.integers(1, 5000))
def test_as_many_of_the_newest_stay_as_fit(fixed: int, sizes: list[int], capacity: int, reply: int) -> None:
    """``fixed``: the system message and the new turn; ``sizes``: past turns, the newest first."""
    totals, asked = [fixed, *(fixed + total for total in itertools.accumulate(sizes))], list[int]()

    def tokens(newest: int) -> int:
        asked.append(newest)
        return totals[newest]

    past = len(sizes)
    stay = turns_that_stay(tokens, past, capacity, reply)
    assert 0 <= stay <= past
    assert stay in asked
    assert len(asked) <= past.bit_length() + 1
    room = max(min(reply, capacity // 8), 1)
    if totals[past] + room <= capacity:
        assert stay == past
    else:
        assert stay < past or past == 0
        assert stay == 0 or totals[stay] <= capacity * 3 // 4
        assert stay == past or totals[stay + 1] > capacity * 3 // 4


@given(
    fixed=st.integers(1, 500), sizes=turn_sizes, growth=st.integers(0, 120), capacity=st.integers(1000, 4096)
)
def test_what_was_dropped_leaves_room_for_more_turns(
    fixed: int, sizes: list[int], growth: int, capacity: int
) -> None:
    """After turns were dropped the next one drops none, unless it adds an eighth of the context."""
    totals = [fixed, *(fixed + total for total in itertools.accumulate(sizes))]
    stay = turns_that_stay(totals.__getitem__, len(sizes), capacity, 10**6)
    if stay < len(sizes) and growth <= capacity // 8:
        assert turns_that_stay(lambda n: totals[min(n, stay)] + growth, stay + 1, capacity, 10**6) == stay + 1


roles = st.lists(st.sampled_from(["user", "assistant", "assistant"]), max_size=30)


@given(system=st.booleans(), roles=roles, capacity=st.integers(4, 80))
def test_whole_turns_go_the_oldest_first(system: bool, roles: list[str], capacity: int) -> None:
    messages = [Message("system", "s")] * system + [Message(role, str(n)) for n, role in enumerate(roles)]
    messages.append(Message("user", "new"))

    def build(some: Sequence[Message]) -> Prompt:
        return Prompt("", [0] * (2 * len(some)))

    fitted = fit(messages, build, capacity, 1)
    kept, start = fitted.messages, int(system)
    assert kept[:start] == messages[:start]
    rest = kept[start:]
    assert rest == messages[len(messages) - len(rest) :]
    assert fitted.prompt == build(kept)
    assert rest[0].role == "user" or not fitted.dropped
    assert (fitted.dropped == 0) == (kept == messages)


def talkative(directory: Path, template: str = CHATML, **options: object) -> tuple[Chat, list[str]]:
    """A parrot that says one token a turn, in a context of 400 tokens; and the notices to the user."""
    model = load_parrot(directory)
    word = model.tokenizer.encode("a", add_bos=False)[0]
    model = load_parrot(directory, speak=lambda context: 2 if context[-1] == word else word)
    lines: list[str] = []
    chat = ChatTemplate(template, bos="", eos="")
    return chat_of(model.with_template(chat), notice=lines.append, **options), lines  # type: ignore[arg-type]


def test_the_user_is_told_once_and_the_system_message_stays(tmp_path: Path) -> None:
    session, lines = talkative(tmp_path, system="Be brief.")
    told = []
    for turn in range(40):
        before = len(lines)
        list(session.reply(f"turn {turn} "))
        told.append(len(lines) - before)
        assert session.system == "Be brief."
        assert session.messages[-2].content.startswith(f"turn {turn} ")
        assert [message.role for message in session.messages[1:]] == ["user", "assistant"] * (
            len(session.messages) // 2
        )
    assert set(told) == {0, 1}
    assert not any(first and second for first, second in itertools.pairwise(told))
    assert lines[0] == "context is full: dropped the oldest 2 turns; the system message stays"


def test_what_precedes_the_dropped_turns_is_not_fed_again(tmp_path: Path) -> None:
    session, lines = talkative(tmp_path, system="Be brief. " * 5)
    system = len(session.tokenizer.encode(session.messages[0].content, add_bos=False))
    assert isinstance(session.engine._forward, Parrot)
    for letter in "abcdefghijkl":
        session.engine._forward.passes.clear()
        list(session.reply(letter * 40))
        if lines:
            break
    assert session.last is not None
    reused = session.last.reused
    assert system < reused < system + 30
    fed = [token for one in session.engine._forward.passes for token in one]
    assert fed == [*session.last.prompt, *session.last.tokens[:-1]][reused:]


def test_after_turns_were_dropped_replies_are_those_of_a_chat_that_never_had_them(bundle: Path) -> None:
    lines = list[str]()
    model, _ = opened(bundle, context=160)
    long = chat_of(
        model,
        Settings(max_tokens=8),
        system="Hm",
        notice=lines.append,
    )
    compared = 0
    for turn in range(12):
        told = len(lines)
        list(long.reply(f"number {turn}, hello world"))
        if len(lines) > told:
            short = chat_of(opened(bundle, context=160)[0], long.settings)
            short.messages = long.messages[:-2]
            list(short.reply(f"number {turn}, hello world"))
            assert long.last is not None
            assert short.last is not None
            assert long.last.tokens == short.last.tokens
            assert long.last.reused > 0
            compared += 1
    assert compared > 1


def test_a_base_model_forgets_the_oldest_text(tmp_path: Path) -> None:
    model = load_parrot(tmp_path, chat=False)
    word = model.tokenizer.encode("a", add_bos=False)[0]
    model = load_parrot(tmp_path, chat=False, speak=lambda context: word)
    lines: list[str] = []
    session = chat_of(model, Settings(max_tokens=9), notice=lines.append)
    for letter in "bcdefghijklm":
        assert "".join(session.reply(letter * 40)) == "a" * 9
        assert model.tokenizer.decode(session.engine.committed).endswith(letter * 40 + "a" * 9)
    assert len(lines) > 1
    assert lines[0] == "context is full: dropped the oldest 2 turns"


def test_with_stop_the_turn_fails_and_nothing_is_dropped(tmp_path: Path) -> None:
    session, lines = talkative(tmp_path, when_full=STOP)
    for _ in range(4):
        list(session.reply("x" * 40))
    before = [*session.messages]
    with pytest.raises(ContextFullError, match=r"the prompt has 4\d\d tokens, and the context holds 400"):
        list(session.reply("x" * 140))
    assert (session.messages, lines) == (before, [])


def test_a_reply_that_runs_into_the_end_makes_room_in_the_next_turn(tmp_path: Path) -> None:
    model = load_parrot(tmp_path)
    word = model.tokenizer.encode("a", add_bos=False)[0]
    model = load_parrot(tmp_path, speak=lambda context: word)
    lines: list[str] = []
    session = chat_of(model, Settings(max_tokens=1000), notice=lines.append)
    list(session.reply("Hi"))
    assert session.last is not None
    assert (session.last.finish_reason, lines) == ("context", [])
    list(session.reply("Go on"))
    assert lines == ["context is full: dropped the oldest turn"]
    assert session.last.finish_reason == "context"
    assert [message.content for message in session.messages[:1]] == ["Go on"]


STRICT = """{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('roles must alternate') }}{% endif %}[{{ m.role }}] {{ m.content }}
{% endfor %}[assistant] """


def test_templates_that_want_roles_in_turn_still_render(tmp_path: Path) -> None:
    session, lines = talkative(tmp_path, STRICT)
    for _ in range(20):
        list(session.reply("x" * 40))
    assert len(lines) > 2


def _traced_bytes() -> int:
    gc.collect()  # cycles that wait for the collector are not kept
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("drafts", [False, True])
def test_a_conversation_of_200_turns(bundle: Path, tmp_path: Path, drafts: bool) -> None:
    """Never an error; messages, tokens fed and the memory of the chat do not grow with it."""
    model, model_id = opened(bundle, context=160)
    lines: list[str] = []
    session = chat_of(model, Settings(DrawParams(temperature=1.0), 8),
        system="Be brief.", notice=lines.append,
        speculation=Speculation([Lookup(), Recycling()]) if drafts else None,
    )  # fmt: skip
    fed, kept, early = [], [], 0
    for turn in range(200):
        if turn == 100:
            tracemalloc.start()
        if turn == 150:
            early = _traced_bytes()
        list(session.reply(f"number {turn % 10}, hello world"))
        assert session.last is not None
        fed.append(len(session.last.prompt) - session.last.reused + len(session.last.tokens))
        kept.append(len(session.messages))
    more = _traced_bytes() - early
    tracemalloc.stop()
    assert more < 100_000  # prompts, replies and the turns that stay differ a little
    assert max(kept) == max(kept[:50]) < 25
    assert max(fed) == max(fed[:50]) < 160
    assert sum(fed[100:]) < 1.1 * sum(fed[:100])
    assert 10 < len(lines) < 100
    save_session(tmp_path / "talk", session, model_id)
    again = chat_of(opened(bundle, context=160)[0], session.settings)
    restore_session(tmp_path / "talk", again, model_id, lines.append)
    list(session.reply("the end"))
    list(again.reply("the end"))
    assert session.last is not None
    assert again.last is not None
    assert again.last.tokens == session.last.tokens
