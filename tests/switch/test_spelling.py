"""Text of a model elsewhere in the tokens of the reply's own."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from edgedec.switch.spelling import StreamingDecoder, spelled
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures.tiny_tokenizers import bpe_metadata, built, spm_metadata
from tests.session.parrot import make_tokenizer

TEXT = "hello world, the ending: é 🙂\n\n    of the hello\tlll 12"


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    def folder(name: str) -> Path:
        return tmp_path_factory.mktemp(name)

    letters = {chr(code): -20.0 - code for code in range(0x21, 0x7F)}
    words = {"▁t": -1.0, "he": -2.0, "▁the": -3.0, "ll": -5.0, "llo": -6.0, "hello": -7.0, "▁": -8.0}
    return {
        "bpe": built(folder("bpe"), bpe_metadata()),
        "words": make_tokenizer(folder("words")),
        "spm": built(folder("spm"), spm_metadata({**words, **letters})),
    }


def bytes_of(tokenizer: Tokenizer, ids: list[int]) -> bytes:
    return b"".join(tokenizer.token_bytes(token) for token in ids)


@pytest.mark.parametrize("kind", ["bpe", "words", "spm"])
@pytest.mark.parametrize("raw", [TEXT.encode(), b"a\xff\xfeb", "é".encode()[:1], b"", b" \xe2\x82"])
def test_spelled_tokens_add_the_very_bytes(vocabularies, kind, raw):
    assert bytes_of(vocabularies[kind], spelled(vocabularies[kind], raw)) == raw


@pytest.mark.parametrize("kind", ["bpe", "words", "spm"])
def test_text_heard_in_any_pieces_is_the_same_text(vocabularies, kind):
    raw, rng = TEXT.encode(), np.random.default_rng(0)
    for _ in range(20):
        cuts = sorted({0, len(raw), *rng.integers(0, len(raw), 12).tolist()})
        decoder = StreamingDecoder(vocabularies[kind])
        found = [token for start, end in itertools.pairwise(cuts) for token in decoder.push(raw[start:end])]
        assert bytes_of(vocabularies[kind], [*found, *decoder.flush()]) == raw


def test_tokens_are_handed_out_behind_a_boundary_only(vocabularies):
    decoder, words = StreamingDecoder(vocabularies["words"]), vocabularies["words"]
    assert decoder.push(b"hel") == []
    assert decoder.push(b"lo") == []  # "hello" is one token
    assert bytes_of(words, decoder.push(b" world")) == b"hello"
    assert decoder.flush() == [words.id_of(b" world")]


def test_text_without_a_boundary_is_handed_out_at_some_length(vocabularies):
    class Joined:
        """One token for any text, so that nothing has a boundary inside."""

        def token_bytes(self, token: int) -> bytes:
            return self.known[token]

        known: dict[int, bytes] = {}  # noqa: RUF012

        def id_of(self, piece: bytes) -> None:
            return None

        def encode_inside(self, text: str) -> list[int]:
            self.known[len(self.known)] = text.encode()
            return [len(self.known) - 1]

    decoder, joined = StreamingDecoder(Joined()), Joined()
    found = [token for _ in range(80) for token in decoder.push(b"abcd")]
    assert found
    assert all(joined.token_bytes(token).startswith(b"abcd") for token in found)
