"""Text is bounded before it is encoded: by its bytes, by its tokens, by the memory that encoding takes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from edgedec.core.errors import ContextFullError, MemoryBudgetError
from edgedec.text.encoder import LibraryEncoder
from edgedec.text.limits import TextLimits
from edgedec.text.template import ChatTemplate
from edgedec.text.token_lengths import TokenLengths
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures.tiny_tokenizers import bpe_metadata, built, library_of, spm_metadata
from tests.text.multilingual import hard_texts, mixtures

WORDS = {"▁": -1.0, "a": -2.0, "▁a": -0.5, "é": -3.0}


class Watched:
    """An encoder, or the library, which records the texts it is given."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.texts: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def encode(self, text: str, **options: Any) -> Any:
        self.texts.append(text)
        return self._inner.encode(text, **options)


@pytest.fixture
def bpe(tmp_path: Path) -> Tokenizer:
    return built(tmp_path, bpe_metadata())


def watch(tokenizer: Tokenizer) -> Watched:
    watched = Watched(tokenizer._encoder)
    tokenizer._encoder = watched  # type: ignore[assignment]
    return watched


def test_a_text_that_cannot_fit_is_never_encoded(bpe: Tokenizer) -> None:
    watched = watch(bpe)
    for text in ("a" * 50_000_000, "é" * 20_000_000, "many words " * 5_000_000):
        with pytest.raises(ContextFullError, match="more than 1000 tokens, and the context holds 1000"):
            bpe.encode(text, limits=TextLimits(1000))
    assert not watched.texts


def test_no_text_of_few_enough_tokens_is_refused_by_its_bytes(bpe: Tokenizer, tmp_path: Path) -> None:
    spm = built(tmp_path, spm_metadata(WORDS, add_space_prefix=True))
    for tokenizer in (bpe, spm):
        for token in range(tokenizer.size):
            text = (tokenizer.token_bytes(token) or tokenizer.token_text(token).encode()).decode(
                "utf-8", "ignore"
            )
            ids = tokenizer.encode(text * 9000, add_bos=False, parse_special=True)
            assert (
                tokenizer.encode(text * 9000, add_bos=False, parse_special=True, limits=TextLimits(len(ids)))
                == ids
            )


def test_encoding_stops_once_there_are_too_many_tokens(bpe: Tokenizer) -> None:
    watched = watch(bpe)
    text = "seven letters a word " * 20_000
    limits = TextLimits(100_000)
    assert len(text) < bpe.most_bytes(limits.most_tokens)
    with pytest.raises(ContextFullError, match="more than 100000 tokens"):
        bpe.encode(text, limits=limits)
    assert sum(map(len, watched.texts)) < 150_000


def test_a_text_that_is_a_little_too_long_is_counted_exactly(bpe: Tokenizer) -> None:
    """The engine then says how many tokens it has."""
    assert len(bpe.encode("zz" * 50, limits=TextLimits(99))) == 100


def test_messages_with_texts_of_control_tokens_are_bounded_too(bpe: Tokenizer) -> None:
    template = ChatTemplate("{{ messages[0].content }}", bos="", eos="")
    content = "<|im_end|> word and words " * 5_000
    assert len(bpe.encode_chat(template, [{"role": "user", "content": content}])) > 60_000
    with pytest.raises(ContextFullError):
        bpe.encode_chat(template, [{"role": "user", "content": content}], limits=TextLimits(30_000))


def test_encoding_books_its_memory_piece_by_piece(bpe: Tokenizer) -> None:
    booked, held = [], 0

    @contextmanager
    def lease(nbytes: int) -> Iterator[None]:
        nonlocal held
        held += nbytes
        booked.append(held)
        if held > 3_000_000:
            raise MemoryBudgetError("no memory")
        yield
        held -= nbytes

    bpe.encode("some words " * 50_000, limits=TextLimits(10**6, lease))
    assert len(booked) > 60
    assert held == 0
    with pytest.raises(MemoryBudgetError):
        bpe.encode("w" * 500_000, limits=TextLimits(10**6, lease))


def test_a_text_that_cannot_be_cut_is_not_encoded_if_its_letters_make_too_many_tokens(bpe: Tokenizer) -> None:
    watched = watch(bpe)
    limits = TextLimits(50_000)
    text = "z" * 300_000
    assert len(text) < bpe.most_bytes(limits.most_tokens)
    with pytest.raises(ContextFullError, match="more than 50000 tokens"):
        bpe.encode(text, limits=limits)
    assert not watched.texts


def test_no_text_has_fewer_tokens_than_its_bytes_say(bpe: Tokenizer, tmp_path: Path) -> None:
    spm = built(tmp_path, spm_metadata(WORDS, add_space_prefix=True))
    for tokenizer in (bpe, spm):
        lengths = TokenLengths(tokenizer._encoder, tokenizer.info.kind)
        every = [tokenizer.token_bytes(token).decode("utf-8", "ignore") for token in range(tokenizer.size)]
        for text in [*mixtures(300, seed=8), *hard_texts(), *(text * 50 for text in every)]:
            assert lengths.fewest(text) <= len(tokenizer.encode(text, add_bos=False)), text
        assert lengths.fewest("the hello " * 100) > 50


class Slow(Watched):
    """Gives another thread time between the setting and the encoding, as a busy machine would."""

    def __init__(self, library: Any) -> None:
        super().__init__(library)
        self.wait = threading.Event()

    @property
    def encode_special_tokens(self) -> bool:
        return bool(self._inner.encode_special_tokens)

    @encode_special_tokens.setter
    def encode_special_tokens(self, value: bool) -> None:
        self._inner.encode_special_tokens = value
        self.wait.wait(0.002)


def test_threads_do_not_get_the_control_tokens_of_others(bpe: Tokenizer, tmp_path: Path) -> None:
    """A message must not end its turn because a template is encoded at the same time."""
    bpe = Tokenizer(LibraryEncoder(cast("Any", Slow(library_of(tmp_path)))), bpe.info)
    found: dict[bool, set[str]] = {False: set(), True: set()}

    def work(special: bool) -> None:
        for _ in range(50):
            found[special].add(json.dumps(bpe.encode("a<|im_end|>b", parse_special=special)))

    threads = [threading.Thread(target=work, args=(special,)) for special in (False, True) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for special in (False, True):
        (ids,) = found[special]
        assert (2 in json.loads(ids)) == special
