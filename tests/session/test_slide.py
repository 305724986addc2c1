"""Chats whose full cache slides: nothing is read again, the first tokens stay, files say what was said."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.draft import Lookup, Recycling
from edgedec.memory import KvType
from edgedec.sampling import SamplingParams
from edgedec.session.chat import Session
from edgedec.session.fit import SLIDE
from edgedec.session.prompt import Message
from edgedec.session.reply import Settings
from edgedec.session.state import restore_session, save_session
from edgedec.speculation import Speculation
from tests.session.tiny_models import CONTEXT, opened, tiny_bundle

SLOTS = 128


def sliding_session(
    folder: Path, *, kv: KvType = "fp16", drafts: bool = False, system: str | None = "Be brief."
) -> tuple[Session, list[str]]:
    model, _ = opened(tiny_bundle(folder), context=SLOTS, kv=kv)
    lines: list[str] = []
    session = Session(
        model.forward, model.tokenizer, model.template, Settings(SamplingParams(temperature=1.0), 12),
        system=system, when_full=SLIDE, notice=lines.append,
        speculation=Speculation([Lookup(), Recycling()]) if drafts else None,
    )  # fmt: skip
    return session, lines


@pytest.mark.parametrize("kv", ["fp16", "int8"])
def test_a_chat_goes_on_without_reading_again(tmp_path: Path, kv: KvType) -> None:
    plain, lines = sliding_session(tmp_path, kv=kv)
    drafting, _ = sliding_session(tmp_path, kv=kv, drafts=True)
    assert plain.policy is not None
    slid = 0
    for turn in range(40):
        told = len(lines)
        list(plain.reply(f"number {turn}, hello world"))
        list(drafting.reply(f"number {turn}, hello world"))
        assert plain.last is not None
        assert drafting.last is not None
        assert drafting.last.tokens == plain.last.tokens
        assert len(plain.engine.committed) - len(plain.policy.gap) <= SLOTS + 1  # the last one is not fed
        if len(lines) == told:
            assert len(plain.last.prompt) - plain.last.reused < 60  # one turn
            slid += bool(plain.policy.gap)
    assert slid > 20
    assert 1 <= len(lines) < 8  # where the model's own context ended
    assert "dropped the oldest" in lines[0]
    assert plain.policy.tokens > 600
    assert plain.system == "Be brief."


def test_the_system_message_stays_where_that_leaves_room(tmp_path: Path) -> None:
    for words, stays in ((2, True), (30, False)):
        session, _ = sliding_session(tmp_path, system="brief " * words)
        ids = session.tokenizer.encode("brief " * words, add_bos=False)
        for turn in range(6):
            list(session.reply(f"number {turn}, hello world, hello world"))
        assert session.policy is not None
        assert session.policy.gap
        assert (session.policy.gap.start > len(ids)) is stays
        assert session.policy.gap.start >= 4


def test_the_preamble_is_what_another_first_turn_would_share(tmp_path: Path) -> None:
    session, _ = sliding_session(tmp_path)
    messages = [*session.messages, Message("user", "hello world")]
    prompt = session.prompts.build(messages)
    count = session.prompts.preamble(messages, prompt)
    text = session.tokenizer.decode(prompt.ids[:count])
    assert "Be brief." in text
    assert "hello" not in text
    assert "hello" in session.tokenizer.decode(prompt.ids[count:])


def test_a_prompt_longer_than_the_cache_is_read(tmp_path: Path) -> None:
    session, _ = sliding_session(tmp_path)
    list(session.reply("hello world, " * 40))
    assert session.last is not None
    assert len(session.last.prompt) > SLOTS
    assert session.last.tokens
    assert session.messages[-1].role == "assistant"


def test_a_file_keeps_what_was_said_and_the_next_reply_reads_it(tmp_path: Path) -> None:
    session, _ = sliding_session(tmp_path)
    _, model_id = opened(tiny_bundle(tmp_path))
    list(session.reply("hello"))
    save_session(tmp_path / "early", session, model_id)
    for turn in range(8):
        list(session.reply(f"number {turn}, hello world"))
    save_session(tmp_path / "late", session, model_id)
    assert (tmp_path / "late").stat().st_size < (tmp_path / "early").stat().st_size  # it has no cache
    again, lines = sliding_session(tmp_path)
    restore_session(tmp_path / "late", again, model_id, lines.append)
    assert again.messages == session.messages
    assert again.engine.committed == []
    list(again.reply("the end"))
    assert again.last is not None
    assert again.last.reused == 0
    assert SLOTS < len(again.last.prompt) < CONTEXT
    assert again.last.tokens
    restore_session(tmp_path / "early", again, model_id, lines.append)  # into a session whose cache has a gap
    assert again.policy is not None
    assert again.policy.gap == range(0)
    list(again.reply("more"))
    assert again.last.reused > 0
    assert lines == []
