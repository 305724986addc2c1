"""The engine for browsers tells the thinking part of a reply from its answer, as Python does."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.bundle.manifest import Manifest
from edgedec.export import export_gguf
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures import tiny_vocab
from tests.fixtures.tiny_gguf import write_tiny
from tests.native.web import WebEngine
from tests.native.web_runs import with_program

SPEAKS = "<|im_start|>assistant\\n"


class Speaker:
    """An engine that says what it is told to, a token a reply; each goes on where the last one was cut."""

    def __init__(self, folder: Path) -> None:
        self.engine = WebEngine(folder, context=256, draft="off")
        tokenizer = Tokenizer.load(folder, Manifest.load(folder).tokenizer)
        self._ids = {tokenizer.spell(token): token for token in range(tokenizer.size)}
        self._ids |= {text.encode(): token for text, token in tokenizer.control_ids().items()}
        self._asked = {"messages": [{"role": "user", "content": "hello"}]}

    def say(self, *texts: str) -> tuple[str, str]:
        """The thinking and the answer that came of these tokens."""
        thought = answer = ""
        for text in texts:
            bias = [[self._ids[text.encode()], 100.0]]
            self.engine.reply(**self._asked, max_tokens=1, logit_bias=bias, sampling={"temperature": 0})
            self._asked = {"continue": True}
            thought += "".join(one.get("thought", "") for one in self.engine.pieces)
            answer += self.engine.text
        return thought, answer


def speaker(folder: Path, monkeypatch: pytest.MonkeyPatch, template: str, *control: str) -> Speaker:
    monkeypatch.setattr(tiny_vocab, "CHATML", template)
    monkeypatch.setattr(tiny_vocab, "BPE_SPECIALS", (*tiny_vocab.BPE_SPECIALS, *control))
    export_gguf(write_tiny(folder / "tiny.gguf"), folder / "bundle")
    return Speaker(with_program(folder / "bundle"))


def test_tags_are_left_out_and_text_between_them_is_thought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speaks = speaker(tmp_path, monkeypatch, tiny_vocab.CHATML)
    assert speaks.say(*"<think>") == ("", "")
    assert speaks.say(*"So,<") == ("So,", "")
    assert speaks.say(*"b</think>Two") == ("<b", "Two")
    assert speaks.say(*"<think>") == ("", "<think>")


def test_a_prompt_that_ends_with_the_tag_begins_the_thinking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = tiny_vocab.CHATML.replace(SPEAKS, f"{SPEAKS}<think>\\n")
    assert template != tiny_vocab.CHATML
    speaks = speaker(tmp_path, monkeypatch, template)
    assert speaks.say(*"So</think>Two") == ("So", "Two")


def test_tags_may_be_control_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template = tiny_vocab.CHATML + "{# [THINK] [/THINK] #}"
    speaks = speaker(tmp_path, monkeypatch, template, "[THINK]", "[/THINK]")
    assert speaks.say("[THINK]", *"So", "[/THINK]", *"Two") == ("So", "Two")


def test_text_that_is_continued_has_no_thinking_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    speaks = speaker(tmp_path, monkeypatch, tiny_vocab.CHATML)
    speaks._asked = {"text": "hello"}
    assert speaks.say("<") == ("", "<")
