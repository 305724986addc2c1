"""The parts of a ``tokenizer.json`` that a tokenizer needs: its facts, its vocabulary, and text to ids."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from edgedec.core.quick_dataclass import dataclass
from edgedec.text.added_tokens import AddedToken, cut_at_special

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
        self.added: dict[int, AddedToken] = {
            id: AddedToken(one.content, one.special, one.normalized, one.lstrip, one.rstrip, one.single_word)
            for id, one in library.get_added_tokens_decoder().items()
        }

    def added_token(self, token: int) -> AddedToken | None:
        """Return the added token of an id; None for any other."""
        return self.added.get(token)

    @property
    def size(self) -> int:
        """The number of tokens."""
        return self.library.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, *, parse_special: bool, literal: Sequence[int] = ()) -> list[int]:
        """Return the ids of ``text``; without ``parse_special`` control tokens in it stay text.

        With it, those stay text that contain one of the characters at ``literal``, ascending indices.
        Raises UnicodeEncodeError for lone surrogates, and other exceptions for a tokenizer that contradicts
        itself.
        """
        with self._turn:
            if parse_special and literal:
                return self._encode_apart(text, literal)
            return self._encode(text, parse_special)

    def _encode(self, text: str, parse_special: bool) -> list[int]:
        self.library.encode_special_tokens = not parse_special
        try:
            return list(self.library.encode(text, add_special_tokens=False).ids)
        except TypeError:  # its answer to a lone surrogate
            text.encode()
            raise

    def _encode_apart(self, text: str, literal: Sequence[int]) -> list[int]:
        """Encode what is between control tokens: the library knows no places where they are text."""
        ids: list[int] = []
        begin = self.library.pre_tokenizer
        try:
            for part in cut_at_special(text, self.added, literal):
                if isinstance(part, int):
                    ids.append(part)
                else:
                    ids += self._encode(part, parse_special=False)
                if begin is not None:
                    self.library.pre_tokenizer = self._inside
        finally:
            if begin is not None:
                self.library.pre_tokenizer = begin
        return ids

    @cached_property
    def _inside(self) -> Any:
        """The pre-tokeniser behind the beginning of a text, where Metaspace may put no space in front."""
        inside = pickle.loads(pickle.dumps(self.library.pre_tokenizer))
        inside.__setstate__(json.dumps(self.facts.pre_tokenizer).replace('"first"', '"never"').encode())
        return inside

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

    def ids_with(self, beginning: bytes) -> list[int]:
        """Return the ids of the tokens whose spelling in UTF-8 begins so, in the order of their bytes."""
        found = ((text.encode("utf-8", "replace"), id) for text, id in self.vocabulary().items())
        return [id for _, id in sorted(one for one in found if one[0].startswith(beginning))]

    def vocabulary(self) -> dict[str, int]:
        return self.library.get_vocab(with_added_tokens=True)


def _state(part: Any) -> Step | None:
    if part is None:
        return None
    state: Step = json.loads(part.__getstate__())
    return state
