from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from edgedec.core.errors import ContextFullError, TemplateError, UsageError
from edgedec.session.chat import Chat
from edgedec.session.prompt import Message
from edgedec.session.reply import Settings
from edgedec.text.template import ChatTemplate
from tests.fixtures.ready import Ready, chat_of
from tests.session.parrot import END, Parrot, load_parrot


def session_of(model: Ready, **changes: object) -> Chat:
    settings = Settings(**{"max_tokens": 100, **changes})  # type: ignore[arg-type]
    ticks = itertools.count()
    return chat_of(model, settings, clock=lambda: float(next(ticks)))


def parrot_of(model: Ready) -> Parrot:
    assert isinstance(model.forward, Parrot)
    return model.forward


def test_turns_and_replies_alternate(tmp_path: Path) -> None:
    session = session_of(load_parrot(tmp_path, "Hello.", "Fine, thanks."))
    assert "".join(session.reply("Hi")) == "Hello."
    assert "".join(session.reply("How are you?")) == "Fine, thanks."
    assert session.messages == [
        Message("user", "Hi"),
        Message("assistant", "Hello."),
        Message("user", "How are you?"),
        Message("assistant", "Fine, thanks."),
    ]
    assert session.totals.replies == 2


def test_the_second_turn_feeds_only_what_is_new(tmp_path: Path) -> None:
    model = load_parrot(tmp_path, "Hello.", "Fine.")
    session = session_of(model)
    list(session.reply("Hi"))
    cached = [*session.engine.committed]
    parrot_of(model).passes.clear()
    list(session.reply("More"))
    assert session.last is not None
    assert session.last.prompt[: len(cached)] == cached
    assert session.last.reused >= len(cached) - 1
    assert parrot_of(model).passes[0] == session.last.prompt[session.last.reused :]


def test_the_drawn_tokens_stay_even_when_their_text_would_encode_differently(tmp_path: Path) -> None:
    model = load_parrot(tmp_path)
    letters = [model.tokenizer.encode(char, add_bos=False)[0] for char in "hello"]
    assert model.tokenizer.encode("hello", add_bos=False) != letters
    model = load_parrot(tmp_path, letters, "Yes.")
    session = session_of(model)
    assert "".join(session.reply("Hi")) == "hello"
    committed = [*session.engine.committed]
    list(session.reply("Again"))
    assert session.last is not None
    assert session.last.prompt[: len(committed)] == committed


def test_a_stop_string_ends_the_reply_and_is_not_remembered(tmp_path: Path) -> None:
    session = session_of(load_parrot(tmp_path, "one. STOP two", "more"), stops=("STOP",))
    assert "".join(session.reply("Count")) == "one. "
    assert session.last is not None
    assert session.last.finish_reason == "stop"
    assert session.messages[-1] == Message("assistant", "one. ")
    assert "".join(session.reply("Go on")) == "more"


def test_max_tokens_is_the_number_of_tokens(tmp_path: Path) -> None:
    session = session_of(load_parrot(tmp_path, "abcdefgh"), max_tokens=3)
    assert "".join(session.reply("Go")) == "abc"
    assert session.last is not None
    assert session.last.finish_reason == "length"
    assert session.last.stats.completion_tokens == len(session.last.tokens) == 3


def test_the_end_token_is_counted_but_not_shown(tmp_path: Path) -> None:
    session = session_of(load_parrot(tmp_path, "ab"))
    assert "".join(session.reply("Go")) == "ab"
    assert session.last is not None
    assert session.last.tokens[-1] == END
    assert session.last.stats.completion_tokens == 3
    assert session.last.finish_reason == "stop"


def test_an_interrupted_reply_is_kept_as_far_as_it_was_shown(tmp_path: Path) -> None:
    model = load_parrot(tmp_path, "abcdef", "next")
    session = session_of(model)
    shown = []
    for piece in session.reply("Go"):
        shown.append(piece)
        if len(shown) == 2:
            session.interrupt()
    assert session.last is not None
    assert session.last.finish_reason == "interrupted"
    assert "abcdef".startswith("".join(shown))
    assert session.messages[-1] == Message("assistant", "".join(shown))
    assert session.engine.committed[: len(parrot_of(model).cache)] == parrot_of(model).cache
    assert "".join(session.reply("And?")) == "next"


def test_a_reply_interrupted_while_the_prompt_is_read_leaves_no_turn(tmp_path: Path) -> None:
    model = load_parrot(tmp_path, "abc")
    session = session_of(model)
    parrot_of(model).before_pass = session.interrupt
    assert "".join(session.reply("x" * 200)) == ""
    assert session.last is not None
    assert (session.last.finish_reason, session.last.tokens) == ("interrupted", [])
    assert len(parrot_of(model).passes) == 1
    assert session.messages == []
    parrot_of(model).before_pass = lambda: None
    assert "".join(session.reply("x" * 200)) == "abc"


def test_an_abandoned_reply_leaves_a_usable_session(tmp_path: Path) -> None:
    session = session_of(load_parrot(tmp_path, "abcdef", "next"))
    pieces = iter(session.reply("Go"))
    first = next(pieces)
    pieces.close()
    assert session.messages[-1] == Message("assistant", first)
    assert "".join(session.reply("And?")) == "next"


def test_after_a_hard_stop_the_conversation_is_read_again(tmp_path: Path) -> None:
    model = load_parrot(tmp_path, "abc", "next")
    session = session_of(model)
    list(session.reply("Go"))

    def fail() -> None:
        raise KeyboardInterrupt

    parrot_of(model).before_pass = fail
    with pytest.raises(KeyboardInterrupt):
        list(session.reply("Lost"))
    parrot_of(model).before_pass = lambda: None
    session.recover()
    assert session.engine.committed == []
    assert [message.content for message in session.messages] == ["Go", "abc"]
    assert "".join(session.reply("And?")) == "next"


def test_a_turn_that_does_not_fit_leaves_the_conversation_alone(tmp_path: Path) -> None:
    session = session_of(load_parrot(tmp_path, "Hello.", "Back."))
    list(session.reply("Hi"))
    with pytest.raises(
        ContextFullError, match=r"the prompt has .* tokens, and the context holds 400"
    ) as caught:
        list(session.reply("x" * 1000))
    assert caught.value.hint is not None
    assert "larger context" in caught.value.hint
    assert [message.content for message in session.messages] == ["Hi", "Hello."]
    assert "".join(session.reply("Short")) == "Back."


def test_a_broken_template_leaves_the_conversation_alone(tmp_path: Path) -> None:
    model = load_parrot(tmp_path, "Hello.")
    broken = ChatTemplate("{{ raise_exception('no') }}", bos="", eos="")
    session = chat_of(model.with_template(broken))
    with pytest.raises(TemplateError, match="no"):
        list(session.reply("Hi"))
    assert session.messages == []


def test_reset_keeps_the_system_message(tmp_path: Path) -> None:
    model = load_parrot(tmp_path, "Hello.")
    session = chat_of(model, system="Be brief.")
    list(session.reply("Hi"))
    session.reset()
    assert session.messages == [Message("system", "Be brief.")]
    assert "".join(session.reply("Hi")) == "Hello."


def test_a_base_model_continues_text(tmp_path: Path) -> None:
    model = load_parrot(tmp_path, chat=False)
    letter = model.tokenizer.encode("a", add_bos=False)[0]
    model = load_parrot(tmp_path, chat=False, speak=lambda context: letter)
    session = session_of(model, max_tokens=4)
    assert "".join(session.complete("Once")) == "aaaa"
    assert "".join(session.reply("Once")) == "aaaa"
    assert model.tokenizer.decode(session.engine.committed).startswith("Onceaaa")


def test_an_empty_raw_prompt_is_refused(tmp_path: Path) -> None:
    session = session_of(load_parrot(tmp_path, "x"))
    with pytest.raises(UsageError, match="the prompt is empty"):
        list(session.complete(""))
