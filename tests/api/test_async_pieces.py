"""Replies in an event loop: other tasks run, and a task that ends early leaves everything as it should be."""

from __future__ import annotations

import asyncio
import threading

import pytest

import edgedec
from tests.patience import PATIENCE_S


def test_the_pieces_are_the_same_and_come_while_other_tasks_run(model: edgedec.Model) -> None:
    expected = model.chat(max_tokens=30).reply("hello")
    pieces = list(expected)

    async def main() -> tuple[list[str], int]:
        chat, ticks, done = model.chat(max_tokens=30), 0, False

        async def tick() -> None:
            nonlocal ticks
            while not done:
                ticks += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(tick())
        found = [piece async for piece in chat.reply("hello")]
        done = True
        await other
        assert chat.last is not None
        assert chat.last.tokens == expected.tokens
        return found, ticks

    found, ticks = asyncio.run(main())
    assert found == pieces
    assert ticks >= len(pieces)


def test_a_task_that_is_cancelled_interrupts_its_reply_and_waits_for_the_pass(model: edgedec.Model) -> None:
    chat = model.chat(max_tokens=200)

    async def talk(begun: asyncio.Event) -> None:
        async for _ in chat.reply("hello"):
            begun.set()

    async def main() -> str:
        begun = asyncio.Event()
        task = asyncio.create_task(talk(begun))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        first = chat.last
        assert first is not None
        assert (first.finish_reason, first.computing) == ("interrupted", False)
        assert chat.messages[-1].content == first.text
        return "".join([piece async for piece in chat.reply("world", max_tokens=5)])

    text = asyncio.run(main())
    again = model.chat(messages=chat.messages[:3])
    assert again.messages[2].content == "world"
    assert chat.messages[3].content == text
    workers = [thread for thread in threading.enumerate() if thread.name.startswith("reply")]
    for thread in workers:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_a_cancelled_prompt_leaves_the_chat_as_it_was(model: edgedec.Model) -> None:
    chat = model.chat()

    async def main() -> None:
        task = asyncio.ensure_future(anext(aiter(chat.reply("hello"))))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert chat.last is not None
    assert chat.last.finish_reason == "interrupted"


def test_a_reply_that_is_left_is_closed_before_the_next_one(model: edgedec.Model) -> None:
    chat = model.chat(max_tokens=50)

    async def main() -> str:
        shown = ""
        async for piece in chat.reply("hello"):
            shown += piece
            break
        await asyncio.to_thread(chat.reply("world", max_tokens=3).read)
        return shown

    shown = asyncio.run(main())
    assert [message.content for message in chat.messages[:3]] == ["hello", shown, "world"]


def test_two_replies_at_once_are_refused(model: edgedec.Model) -> None:
    async def main() -> None:
        one, two = model.chat(max_tokens=50), model.chat()
        pieces = aiter(one.reply("hello"))
        first = asyncio.ensure_future(anext(pieces))
        await asyncio.sleep(0)
        with pytest.raises(edgedec.UsageError, match="another reply"):
            two.reply("hello")
        with pytest.raises(edgedec.UsageError, match="another reply"):
            one.reply("hello")
        assert await first
        two.reply("hello", max_tokens=2).read()

    asyncio.run(main())


def test_an_error_of_the_model_reaches_the_task(
    model: edgedec.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        reply = model.chat().reply("hello")

        def broken(*_: object, **__: object) -> None:
            raise edgedec.BackendError("the model broke")

        monkeypatch.setattr(model.single.forward, "extend", broken)
        async for _ in reply:
            pass

    with pytest.raises(edgedec.BackendError, match="the model broke"):
        asyncio.run(main())
