"""The thinking part of a reply is told from its answer as in Python: by the C engine and in browsers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol

import pytest

from edgedec import native
from edgedec.api import Model
from edgedec.assemble.config import RunConfig
from edgedec.bundle.manifest import Manifest
from edgedec.export import export_gguf
from edgedec.sampling import DrawParams
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures import tiny_vocab
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_models import prepared_run
from tests.native.web import WebEngine
from tests.native.web_runs import request_of, with_program

SPEAKS = "<|im_start|>assistant\\n"
ASKED = [{"role": "user", "content": "hello"}]


class Host(Protocol):
    """An engine that computes one token."""

    def begin(self, params: DrawParams) -> tuple[str, str]: ...
    def go_on(self, params: DrawParams) -> tuple[str, str]: ...
    def complete(self, text: str, params: DrawParams) -> tuple[str, str]: ...


class Native:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.engine = native.open(folder, context=256, draft="off")

    def begin(self, params: DrawParams) -> tuple[str, str]:
        return self._parts(self.engine.reply(ASKED, max_tokens=1, sampling=params))

    def go_on(self, params: DrawParams) -> tuple[str, str]:
        return self._parts(self.engine.more(max_tokens=1, sampling=params))

    def complete(self, text: str, params: DrawParams) -> tuple[str, str]:
        return self._parts(self.engine.complete(text, max_tokens=1, sampling=params))

    @staticmethod
    def _parts(reply: native.NativeReply) -> tuple[str, str]:
        return reply.thought, reply.text


class Browser:
    def __init__(self, folder: Path) -> None:
        self.engine = WebEngine(with_program(folder), context=256, draft="off")

    def begin(self, params: DrawParams) -> tuple[str, str]:
        return self._reply(params, messages=ASKED)

    def go_on(self, params: DrawParams) -> tuple[str, str]:
        return self._reply(params, **{"continue": True})

    def complete(self, text: str, params: DrawParams) -> tuple[str, str]:
        return self._reply(params, text=text)

    def _reply(self, params: DrawParams, **asked: object) -> tuple[str, str]:
        self.engine.reply(**asked, max_tokens=1, **request_of(params))
        return "".join(one.get("thought", "") for one in self.engine.pieces), self.engine.text


class Speaker:
    """An engine that says what it is told to, a token a reply; each goes on where the last one was cut."""

    def __init__(self, host: Host, folder: Path) -> None:
        self.host = host
        tokenizer = Tokenizer.load(folder, Manifest.load(folder).tokenizer)
        self._ids = {tokenizer.spell(token): token for token in range(tokenizer.size)}
        self._ids |= {text.encode(): token for text, token in tokenizer.control_ids().items()}
        self._begun = False

    def sure_of(self, text: str) -> DrawParams:
        return DrawParams(logit_bias=((self._ids[text.encode()], 100.0),))

    def say(self, *texts: str) -> tuple[str, str]:
        """The thinking and the answer that came of these tokens."""
        parts = []
        for text in texts:
            speak = self.host.go_on if self._begun else self.host.begin
            parts.append(speak(self.sure_of(text)))
            self._begun = True
        return "".join(thought for thought, _ in parts), "".join(answer for _, answer in parts)


HOSTS = {"c": Native, "browser": Browser}


@pytest.fixture(params=HOSTS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def speaker(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch, template: str, *control: str
) -> Speaker:
    monkeypatch.setattr(tiny_vocab, "CHATML", template)
    monkeypatch.setattr(tiny_vocab, "BPE_SPECIALS", (*tiny_vocab.BPE_SPECIALS, *control))
    export_gguf(write_tiny(folder / "tiny.gguf"), folder / "bundle")
    return Speaker(HOSTS[kind](folder / "bundle"), folder / "bundle")


def test_text_between_tags_is_thought(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    speaks = speaker(kind, tmp_path, monkeypatch, tiny_vocab.CHATML)
    assert speaks.say(*"<think>") == ("", "<think")  # each cut shows what there is, which may become a tag
    assert speaks.say(*"So,<") == ("So,<", "")
    assert speaks.say(*"b</think>Two") == ("b</think", "Two")
    assert speaks.say(*"<think>") == ("", "<think>")


def test_nothing_of_a_reply_that_is_cut_is_held_back_or_told_twice(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speaks = speaker(kind, tmp_path, monkeypatch, tiny_vocab.CHATML)
    assert [speaks.say(one) for one in ("\n", "<", "b", "<")] == [("", "\n"), ("", "<"), ("", "b"), ("", "<")]


def test_a_prompt_that_ends_with_the_tag_begins_the_thinking(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = tiny_vocab.CHATML.replace(SPEAKS, f"{SPEAKS}<think>\\n")
    assert template != tiny_vocab.CHATML
    speaks = speaker(kind, tmp_path, monkeypatch, template)
    assert speaks.say(*"So</think>Two") == ("So</think", "Two")  # as above


def test_a_reply_of_a_form_is_all_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of Python took JSON for the thinking part where the prompt begins one."""
    template = tiny_vocab.CHATML.replace(SPEAKS, f"{SPEAKS}<think>\\n")
    speaks = speaker("browser", tmp_path, monkeypatch, template)
    folder, form = tmp_path / "bundle", {"enum": ["<think>yes", "<think>no"]}
    with Model(prepared_run(folder, RunConfig(threads=1, context=256, draft="off"))) as python:
        message = python.chat(schema=form).reply("hello").message
    assert (message.content in ('"<think>yes"', '"<think>no"'), message.reasoning) == (True, "")
    with native.open(folder, context=256, draft="off") as engine:
        reply = engine.reply(ASKED, schema=json.dumps(form))
    assert (reply.text, reply.thought) == (message.content, "")
    assert isinstance(speaks.host, Browser)
    web = speaks.host.engine
    web.reply(messages=ASKED, schema=json.dumps(form), **request_of(DrawParams()))
    assert (web.text, any("thought" in one for one in web.pieces)) == (message.content, False)


def test_tags_may_be_control_tokens(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template = tiny_vocab.CHATML + "{# [THINK] [/THINK] #}"
    speaks = speaker(kind, tmp_path, monkeypatch, template, "[THINK]", "[/THINK]")
    assert speaks.say("[THINK]", *"So", "[/THINK]", *"Two") == ("So", "Two")


def test_text_that_is_continued_has_no_thinking_part(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speaks = speaker(kind, tmp_path, monkeypatch, tiny_vocab.CHATML)
    assert speaks.host.complete("hello", speaks.sure_of("<")) == ("", "<")


def test_a_restored_reply_goes_on_in_its_thinking_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = tiny_vocab.CHATML + "{# [THINK] [/THINK] #}"
    speaks = speaker("c", tmp_path, monkeypatch, template, "[THINK]", "[/THINK]")
    assert speaks.say("[THINK]", *"So") == ("So", "")
    assert isinstance(speaks.host, Native)
    speaks.host.engine.save(tmp_path / "session")
    speaks.host = Native(tmp_path / "bundle")
    speaks.host.engine.restore(tmp_path / "session")
    assert speaks.say(*", ", "[/THINK]", *"Two") == (", ", "Two")
