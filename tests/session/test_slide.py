"""Chats whose full KV cache evicts tokens: nothing is read again, the first stay, files have all turns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from edgedec.core.cache_config import DROP, LOSSY, SLIDE, SPECKV, KvType, WhenFull
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter, Lookup, Recycling
from edgedec.draft.bridge import SameVocabulary
from edgedec.draft.model import ModelDrafter
from edgedec.sampling import DrawParams
from edgedec.session.chat import Chat
from edgedec.session.prompt import Message
from edgedec.session.reply import Settings
from tests.fixtures.ready import chat_of
from tests.fixtures.sessions import restore_session, save_session
from tests.fixtures.tiny_models import CONTEXT, opened, tiny_bundle

SLOTS = 128


def lossy_session(
    folder: Path,
    *,
    kv: KvType = "fp16",
    drafters: Sequence[Drafter] = (),
    system: str | None = "Be brief.",
    when_full: WhenFull = SLIDE,
) -> tuple[Chat, list[str]]:
    model, _ = opened(tiny_bundle(folder), context=SLOTS, kv=kv)
    lines: list[str] = []
    session = chat_of(
        model, Settings(DrawParams(temperature=1.0), 12),
        system=system, when_full=when_full, notice=lines.append,
        speculation=Speculation(drafters) if drafters else None,
    )  # fmt: skip
    return session, lines


@pytest.mark.parametrize("when_full", LOSSY)
@pytest.mark.parametrize("kv", ["fp16", "int8"])
def test_a_chat_goes_on_without_reading_again(tmp_path: Path, kv: KvType, when_full: WhenFull) -> None:
    plain, lines = lossy_session(tmp_path, kv=kv, when_full=when_full)
    drafters = [Lookup(), Recycling()]
    drafting, _ = lossy_session(tmp_path, kv=kv, drafters=drafters, when_full=when_full)
    assert plain.policy is not None
    slid = 0
    for turn in range(40):
        told = len(lines)
        list(plain.reply(f"number {turn}, hello world"))
        list(drafting.reply(f"number {turn}, hello world"))
        assert plain.last is not None
        assert drafting.last is not None
        assert drafting.last.tokens == plain.last.tokens
        assert len(plain.engine.committed) - plain.policy.missing <= SLOTS + 1  # the last one is not fed
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
        session, _ = lossy_session(tmp_path, system="brief " * words)
        ids = session.tokenizer.encode("brief " * words, add_bos=False)
        for turn in range(6):
            list(session.reply(f"number {turn}, hello world, hello world"))
        assert session.policy is not None
        assert session.policy.gap
        assert (session.policy.gap.start > len(ids)) is stays
        assert session.policy.gap.start >= 4


def test_the_preamble_is_what_another_first_turn_would_share(tmp_path: Path) -> None:
    session, _ = lossy_session(tmp_path)
    messages = [*session.messages, Message("user", "hello world")]
    prompt = session.prompts.build(messages)
    count = session.prompts.preamble(messages, prompt)
    text = session.tokenizer.decode(prompt.ids[:count])
    assert "Be brief." in text
    assert "hello" not in text
    assert "hello" in session.tokenizer.decode(prompt.ids[count:])


@pytest.mark.parametrize("when_full", LOSSY)
def test_a_prompt_longer_than_the_cache_is_read(tmp_path: Path, when_full: WhenFull) -> None:
    session, _ = lossy_session(tmp_path, when_full=when_full)
    list(session.reply("hello world, " * 40))
    assert session.last is not None
    assert len(session.last.prompt) > SLOTS
    assert session.last.tokens
    assert session.messages[-1].role == "assistant"


@pytest.mark.parametrize("when_full", LOSSY)
def test_a_file_keeps_what_was_said_and_the_next_reply_reads_it(
    bundle: Path, tmp_path: Path, when_full: WhenFull
) -> None:
    session, _ = lossy_session(tmp_path, when_full=when_full)
    _, model_id = opened(bundle)
    list(session.reply("hello"))
    save_session(tmp_path / "early", session, model_id)
    for turn in range(8):
        list(session.reply(f"number {turn}, hello world"))
    save_session(tmp_path / "late", session, model_id)
    assert (tmp_path / "late").stat().st_size < (tmp_path / "early").stat().st_size  # it has no cache
    again, lines = lossy_session(tmp_path, when_full=when_full)
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


def model_drafter(folder: Path) -> ModelDrafter:
    small, _ = opened(tiny_bundle(folder, seed=1), context=CONTEXT)
    return ModelDrafter("small", small.forward, SameVocabulary(small.forward.spec.vocab_size))


def test_what_a_model_drafts_decides_what_stays(tmp_path: Path) -> None:
    """Its lookahead is a function of the text: the same tokens with whoever else drafts, and another way to
    cut the replies into passes; not those of lookup's lookahead.
    """
    replies = []
    for drafters in ([model_drafter(tmp_path)], [Lookup(), Recycling(), model_drafter(tmp_path)], []):
        session, _ = lossy_session(tmp_path, drafters=drafters, when_full=SPECKV)
        said: list[int] = []
        for turn in range(12):
            list(session.reply(f"number {turn}, hello world"))
            assert session.last is not None
            said += session.last.tokens
        assert session.policy is not None
        assert session.policy.tokens > 100
        replies.append(said)
    assert replies[0] == replies[1] != replies[2]


def test_replies_can_be_stopped_and_the_chat_goes_on(tmp_path: Path) -> None:
    """With drafts and without, the same."""
    plain, _ = lossy_session(tmp_path, when_full=SPECKV)
    drafting, _ = lossy_session(tmp_path, when_full=SPECKV, drafters=[Lookup(), Recycling()])
    for turn in range(20):
        said = []
        for session in (plain, drafting):
            pieces = iter(session.reply(f"number {turn}, hello world"))
            next(pieces)
            if turn % 2:
                session.interrupt()
            list(pieces)
            assert session.last is not None
            said.append(session.last.tokens)
        assert said[0] == said[1]
    assert plain.policy is not None
    assert plain.policy.tokens > 100


def test_a_cache_fuller_than_speckv_leaves_it_is_taken_over(bundle: Path, tmp_path: Path) -> None:
    """Saved by a chat that dropped turns: more slots are taken than are left to the text here."""
    _, model_id = opened(bundle)
    saved, _ = lossy_session(tmp_path, when_full=DROP)
    while saved.engine._forward.length < SLOTS - 12:
        list(saved.reply("hi"))
    save_session(tmp_path / "full", saved, model_id)
    replies = []
    for drafters in ([], [Lookup(), Recycling()]):
        session, lines = lossy_session(tmp_path, drafters=drafters, when_full=SPECKV)
        restore_session(tmp_path / "full", session, model_id, lines.append)
        list(session.reply("hello"))
        assert session.last is not None
        assert session.policy is not None
        assert session.last.reused > SLOTS - 16
        assert session.policy.missing > 32
        replies.append(session.last.tokens)
    assert replies[0] == replies[1]
