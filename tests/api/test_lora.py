"""A model that was opened with an adapter: replies, drafts, saved conversations, memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import edgedec
from edgedec.core.errors import MemoryBudgetError, NotFoundError, UnsupportedError, UsageError
from edgedec.export import export_gguf
from tests.api.opening import opened
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_lora import random_pairs, write_gguf_adapter

PROMPT = "a b c a b c a b"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A bundle, and an adapter of it."""
    folder = tmp_path_factory.mktemp("lora")
    gguf = write_tiny(folder / "m.gguf", shape=TinyShape(layers=3, context=512))
    export_gguf(gguf, folder / "bundle")
    return folder / "bundle", str(write_gguf_adapter(folder / "a.gguf", random_pairs(gguf)))


def tokens_of(bundle: Path, home: Path, **settings: Any) -> tuple[int, ...]:
    with opened(bundle, home, **settings) as model:
        reply = model.complete(PROMPT, max_tokens=48)
        reply.read()
        return tuple(reply.tokens)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_drafts_keep_an_adapted_model_exact(
    made: tuple[Path, str], tmp_path: Path, temperature: float
) -> None:
    bundle, adapter = made
    how = {"lora": (adapter,), "temperature": temperature, "seed": 7}
    plain = tokens_of(bundle, tmp_path, **how)
    assert tokens_of(bundle, tmp_path, **how, draft="lookup,recycling,exit-1") == plain
    assert tokens_of(bundle, tmp_path, **how, threads=2) == plain
    without = tokens_of(bundle, tmp_path, temperature=temperature, seed=7)
    assert plain != without
    assert tokens_of(bundle, tmp_path, temperature=temperature, seed=7, lora=(f"{adapter}:0",)) == without


def test_a_conversation_belongs_to_the_model_with_its_adapter(made: tuple[Path, str], tmp_path: Path) -> None:
    bundle, adapter = made
    saved = tmp_path / "talk.session"
    with opened(bundle, tmp_path, lora=(adapter,)) as model, model.chat() as chat:
        chat.reply("hello", max_tokens=8).read()
        chat.save(saved)
    with opened(bundle, tmp_path, lora=(adapter,)) as model, model.chat() as chat:
        chat.restore(saved)
        assert len(chat.messages) == 2
    for other in ((), (f"{adapter}:0.5",), (adapter, adapter)):
        model = opened(bundle, tmp_path, lora=other)
        with model, model.chat() as chat, pytest.raises(UsageError, match="is a conversation with"):
            chat.restore(saved)


def test_the_memory_plan_has_room_for_an_adapter(made: tuple[Path, str], tmp_path: Path) -> None:
    bundle, adapter = made
    plain = opened(bundle, tmp_path, memory="1GB")
    with plain as model, opened(bundle, tmp_path, memory="1GB", lora=(adapter,)) as changed:
        plans = [one.plan() for one in (model, changed)]
        assert plans[0] is not None
        assert plans[1] is not None
        assert plans[1].parts["scratch"] > plans[0].parts["scratch"]
        reply = changed.complete(PROMPT, max_tokens=16)
        reply.read()
        assert len(reply.tokens) == 16
    with pytest.raises(MemoryBudgetError):
        opened(bundle, tmp_path, memory=1_000_000, lora=(adapter,))


def test_several_conversations_with_an_adapter(made: tuple[Path, str], tmp_path: Path) -> None:
    bundle, adapter = made
    alone = tokens_of(bundle, tmp_path, lora=(adapter,), temperature=0.0)
    model = opened(bundle, tmp_path, lora=(adapter,), conversations=2, temperature=0.0)
    with model, model.conversations(max_tokens=48) as several:
        answers = list(several.answers([PROMPT, PROMPT], raw=True))
    assert [tuple(one.reply.tokens) for one in answers if one.reply] == [alone, alone]


def test_devices_and_files_that_have_none(made: tuple[Path, str], tmp_path: Path) -> None:
    bundle, adapter = made
    with pytest.raises(UnsupportedError, match="adapters cannot be applied to a model that runs on a GPU"):
        opened(bundle, tmp_path, lora=(adapter,), device="gpu")
    with pytest.raises(NotFoundError, match="there is no adapter"):
        edgedec.open(bundle, lora=(str(tmp_path / "none"),))
