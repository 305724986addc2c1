"""What a tokenizer needs of a ``tokenizer.json``: its facts, its vocabulary, and text to ids."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

SPACE = "▁"
"""SentencePiece's space."""
Step = dict[str, Any]
"""A normaliser or pre-tokeniser, as ``tokenizer.json`` spells it."""


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """The rules of a tokenizer, without its vocabulary."""

    model: str
    """The kind of model: "BPE", "Unigram", ..."""
    normalizer: Step | None
    pre_tokenizer: Step | None
    byte_fallback: bool = False
    unk_token: str | None = None
    dropout: bool = False


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token that is found in a text before anything else is."""

    content: str
    special: bool
    normalized: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


class Encoder(Protocol):
    """The vocabulary of one ``tokenizer.json``, and its way from text to ids. Several threads may use it."""

    @property
    def facts(self) -> TokenizerFacts: ...
    @property
    def added(self) -> Mapping[int, AddedToken]:
        """The added tokens by id."""

    def added_token(self, token: int) -> AddedToken | None:
        """Return the added token of an id; None for any other."""

    @property
    def size(self) -> int:
        """The number of tokens."""

    @property
    def mapped_bytes(self) -> int:
        """Bytes of a mapped file, of which encoding makes pages resident."""

    def encode(self, text: str, *, parse_special: bool) -> list[int]:
        """Return the ids of ``text``; without ``parse_special`` control tokens in it stay text.

        Raises UnicodeEncodeError for lone surrogates, and other exceptions for a tokenizer that contradicts
        itself.
        """

    @property
    def adds_space(self) -> bool:
        """Whether encoding puts SentencePiece's space in front of a text."""

    def spelling(self, token: int) -> str | None:
        """Return a token as the vocabulary spells it."""

    def spellings(self) -> Iterator[str]:
        """Yield every token as the vocabulary spells it, if possible without a copy of the vocabulary."""

    def id_of(self, spelling: str) -> int | None:
        """Return the id of the token that the vocabulary spells so."""

    def vocabulary(self) -> dict[str, int]:
        """Return the id of every token, by its spelling."""


class LibraryEncoder:
    """The ``tokenizers`` library, which knows every kind and holds some 400 bytes for each token."""

    mapped_bytes = 0

    def __init__(self, library: Library) -> None:
        self.library = library
        self._turn = threading.Lock()
        """Held while the library encodes: to find control tokens or not is a setting of the whole object."""
        model = library.model
        self.facts = TokenizerFacts(
            type(model).__name__,
            _state(library.normalizer),
            _state(library.pre_tokenizer),
            bool(getattr(model, "byte_fallback", False)),
            getattr(model, "unk_token", None),
            bool(getattr(model, "dropout", None)),
        )
        self.added = {
            id: AddedToken(one.content, one.special, one.normalized, one.lstrip, one.rstrip, one.single_word)
            for id, one in library.get_added_tokens_decoder().items()
        }

    def added_token(self, token: int) -> AddedToken | None:
        return self.added.get(token)

    @property
    def size(self) -> int:
        return self.library.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, *, parse_special: bool) -> list[int]:
        with self._turn:
            self.library.encode_special_tokens = not parse_special
            try:
                return list(self.library.encode(text, add_special_tokens=False).ids)
            except TypeError:  # its answer to a lone surrogate
                text.encode()
                raise

    @property
    def adds_space(self) -> bool:
        text, cutter = "a", self.library.pre_tokenizer
        if self.library.normalizer is not None:
            text = self.library.normalizer.normalize_str(text)
        if cutter is not None:
            text = "".join(word for word, _ in cutter.pre_tokenize_str(text))
        return text == f"{SPACE}a"

    def spelling(self, token: int) -> str | None:
        return self.library.id_to_token(token)

    def spellings(self) -> Iterator[str]:
        left = size = self.size
        for token in range(2 * size):
            text = self.library.id_to_token(token)
            if text is not None:
                yield text
                left -= 1
        if left:  # some ids are far above the number of tokens
            yield from self.vocabulary()

    def id_of(self, spelling: str) -> int | None:
        return self.library.token_to_id(spelling)

    def vocabulary(self) -> dict[str, int]:
        return self.library.get_vocab(with_added_tokens=True)


def _state(part: Any) -> Step | None:
    if part is None:
        return None
    state: Step = json.loads(part.__getstate__())
    return state
