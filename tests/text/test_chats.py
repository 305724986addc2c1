"""Chats of every vocabulary of the catalogue beside the ``tokenizers`` library: the same tokens.

A message that looks like a control token is spelt. All else is as the library has it for the whole text.
"""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Library

from edgedec.models.catalogue import CATALOGUE
from edgedec.session.prompt import Message, Prompts
from edgedec.text.bpe_table import BpeTable
from edgedec.text.encoder import LibraryEncoder
from edgedec.text.template import ChatTemplate
from edgedec.text.template_program import program_of
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures.real_models import installed
from tests.fixtures.tiny_tokenizers import built, library_of
from tests.fixtures.vocabularies import OTHER_VOCABULARIES, VOCABULARIES, metadata_of
from tests.native.test_text import native
from tests.text.multilingual import hard_texts

Talk = list[dict[str, str]]
_MARK = "\ue000"
"""Stands for a content in a rendered text; no token has it."""
_SPACE = r"[^\S\x1c-\x1f]*"


def test_every_vocabulary_is_here() -> None:
    assert {entry.vocabulary for entry in CATALOGUE.values()} == VOCABULARIES.keys() - OTHER_VOCABULARIES


class Side:
    """A tokenizer, its template, and the library over the same file."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, source: str, bos: str, eos: str) -> None:
        self.tokenizer, self.source, self.bos, self.eos = tokenizer, source, bos, eos
        self.template = ChatTemplate(source, bos=bos, eos=eos)
        self.library = library_of(folder)
        self.added = self.library.get_added_tokens_decoder()
        self.control = sorted(
            (one.content for one in self.added.values() if one.special), key=len, reverse=True
        )

    def expected(self, talk: Talk) -> list[int]:
        """The ids by the library: the template's control tokens, and all between them as plain text."""
        contents = [turn["content"] for turn in talk]
        marked = [{**turn, "content": _MARK} for turn in talk]
        text = self.template.render(marked)
        assert text.count(_MARK) == len(talk)
        if not any(self.looks(content) for content in contents):
            return self.ids(_filled(text, contents), special=True)
        found: list[int] = []
        pattern = "|".join(map(re.escape, self.control))
        parts = re.split(f"({pattern})", text)
        texts = [_filled(part, contents) if not at % 2 else part for at, part in enumerate(parts)]
        flags = {one.content: (id, one) for id, one in self.added.items()}
        for at, part in enumerate(texts):
            if at % 2:
                found.append(flags[part][0])
                continue
            if at and flags[texts[at - 1]][1].rstrip:
                part = re.sub(rf"\A{_SPACE}", "", part)
            if at + 1 < len(texts) and flags[texts[at + 1]][1].lstrip:
                part = re.sub(rf"{_SPACE}\Z", "", part)
            found += self.ids(part, special=False)
        return found

    def looks(self, content: str) -> bool:
        """Whether a content holds a control token, or begins one at its end."""
        return any(one in content for one in self.control) or any(
            content.endswith(one[:length]) for one in self.control for length in range(1, len(one))
        )

    def ids(self, text: str, *, special: bool) -> list[int]:
        self.library.encode_special_tokens = not special
        return list(self.library.encode(text, add_special_tokens=False).ids)

    def found(self, talk: Talk) -> list[int]:
        return self.tokenizer.encode_rendered(self.tokenizer.render_chat(self.template, talk))


def _filled(text: str, contents: list[str]) -> str:
    """Put the next contents in, trimmed where the template trims."""
    while _MARK in text:
        text = text.replace(_MARK, contents.pop(0), 1)
    return text


def talks(side: Side, count: int, seed: int) -> Iterator[Talk]:
    """Conversations of words, hard texts, control tokens and halves of them; no white space at ends."""
    rng = random.Random(seed)
    hard = [text.strip() for text in hard_texts() if len(text) < 200 and text.strip()]
    tags = [*side.control, *(one.content for one in side.added.values() if one.content.strip())]
    for _ in range(count):
        talk = []
        for turn in range(rng.choice((1, 1, 3, 5))):
            words = rng.choices(["the", "hello", "a", "<", "[", "\n", "é", "日本", "  "], k=rng.randint(1, 6))
            words += rng.choices(hard, k=rng.randint(0, 1))
            for _ in range(rng.choice((0, 0, 1, 2))):
                tag = rng.choice(tags)
                words.insert(rng.randrange(len(words) + 1), tag[: rng.choice((len(tag), len(tag), 2, -1))])
            content = rng.choice(("", " ")).join(words).strip().replace(_MARK, "")
            talk.append({"role": ("user", "assistant")[turn % 2], "content": content or "x"})
        yield talk


def compare(side: Side, count: int, seed: int) -> None:
    looked = 0
    for talk in talks(side, count, seed):
        assert side.found(talk) == side.expected(talk), talk
        looked += any(side.looks(turn["content"]) for turn in talk)
    assert count // 5 < looked < count * 0.95, "both kinds are there"


@pytest.fixture(params=VOCABULARIES)
def side(request: pytest.FixtureRequest, tmp_path: Path) -> Side:
    name: str = request.param
    given = VOCABULARIES[name]
    return Side(tmp_path, built(tmp_path, metadata_of(name)), given.template, given.bos, given.eos)


def test_chats_have_the_tokens_of_the_library(side: Side) -> None:
    compare(side, 60, seed=1)


@pytest.mark.slow
def test_many_chats_have_the_tokens_of_the_library(side: Side) -> None:
    compare(side, 100_000 // len(VOCABULARIES) + 1, seed=2)


def test_the_library_alone_has_them_too(side: Side) -> None:
    """Where no table can be made: it knows no places where a control token is text."""
    side.tokenizer._encoder = LibraryEncoder(Library.from_str(side.library.to_str()))
    compare(side, 30, seed=3)


def test_the_engine_has_them_too(side: Side, tmp_path: Path) -> None:
    with native(tmp_path, side.tokenizer) as probe:
        probe.use_template(program_of(side.source), side.source, bos=side.bos, eos=side.eos)
        prompts = Prompts(side.tokenizer, side.template)
        for talk in talks(side, 15, seed=4):
            said = prompts.build([Message(turn["role"], turn["content"]) for turn in talk])
            asked = probe.ask("prompt", messages=talk)
            assert (asked["text"], asked["ids"]) == (said.text, said.ids), talk


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count"), [("smollm2-135m", 3000), ("qwen2.5-coder-1.5b", 3000), ("gemma3-270m", 300)]
)
def test_chats_of_real_models(name: str, count: int) -> None:
    """Gemma's file is of a base model: its chats have the template of the tuned ones.

    It has thousands of added tokens, on which the library takes a quarter of a second for a chat.
    """
    from edgedec.bundle.manifest import Manifest

    bundle = installed(name)
    tokenizer = Tokenizer.load(bundle, Manifest.load(bundle).tokenizer)
    own, given = bundle / "chat_template.jinja", VOCABULARIES[CATALOGUE[name].vocabulary]
    source = own.read_text(encoding="utf-8") if own.exists() else given.template
    compare(Side(bundle, tokenizer, source, given.bos or "<|im_start|>", given.eos), count, seed=5)


def test_phi3_takes_the_line_behind_a_role(tmp_path: Path) -> None:
    """Line breaks behind control tokens are no tokens, as in transformers, also beside a ``<``."""
    given = VOCABULARIES["phi3"]
    tokenizer = built(tmp_path, metadata_of("phi3"))
    template = ChatTemplate(given.template, bos=given.bos, eos=given.eos)

    def spelt(content: str) -> list[str]:
        ids = tokenizer.encode_chat(template, [{"role": "user", "content": content}])
        return [tokenizer.token_text(token) for token in ids]

    assert spelt("hello") == ["<s>", "<|user|>", "▁", "hello", "<|end|>", "<|assistant|>"]
    assert spelt("hello <") == ["<s>", "<|user|>", "▁", "hello", "▁", "<", "<|end|>", "<|assistant|>"]


def rewriting(folder: Path, **renamed: str) -> Tokenizer:
    """Phi-3's tokens found after a normaliser that composes, puts a space in front and rewrites spaces."""
    tokenizer = built(folder, metadata_of("phi3"))
    path = folder / "tokenizer.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    for token in document["added_tokens"]:
        token |= {"normalized": True, "content": renamed.get(token["content"].strip("<|>"), token["content"])}
    document["normalizer"]["normalizers"].insert(0, {"type": "NFC"})
    document["model"]["vocab"] |= {token["content"]: token["id"] for token in document["added_tokens"]}
    document["model"]["vocab"] = {
        text: id for text, id in document["model"]["vocab"].items() if text.strip("<|>") not in renamed
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return Tokenizer.load(folder, tokenizer.info)


def test_control_tokens_that_are_found_after_the_normaliser(tmp_path: Path) -> None:
    """A message's places are followed: the template's tokens stay tokens, the message's are text."""
    tokenizer = rewriting(tmp_path)
    assert isinstance(tokenizer._encoder, BpeTable)
    template = ChatTemplate("{{ messages[0].content }} <|user|>\u00e9 <|user|>", bos="", eos="")
    user = tokenizer.control_ids()["<|user|>"]
    for content in (
        "the",
        " <|user|> e\u0301",
        "e\u0301 <|user|>e\u0301e\u0301 <",
        "\u00e9 <|user|>",
        "<|",
        "<|user|>",
    ):
        ids = tokenizer.encode_chat(template, [{"role": "user", "content": content}])
        assert ids.count(user) == 2, content
        shown = tokenizer.decode(ids).replace(" ", "")
        assert shown == unicodedata.normalize("NFC", f"{content}\u00e9").replace(" ", ""), content


def test_where_places_cannot_be_followed_no_control_token_is_found(tmp_path: Path) -> None:
    """The end of a message, half a control token, composes with what the template writes behind it."""
    tokenizer = rewriting(tmp_path, user="e|user|>")
    user = tokenizer.control_ids()["e|user|>"]
    template = ChatTemplate("{{ messages[0].content }}\u0301 e|user|>", bos="", eos="")
    assert tokenizer.encode_chat(template, [{"role": "user", "content": "the a"}]).count(user) == 1
    ids = tokenizer.encode_chat(template, [{"role": "user", "content": "the"}])
    assert (ids.count(user), tokenizer.decode(ids)) == (0, "th\u00e9 e|user|>")
