"""A model's vocabulary as llguidance needs it: made once for a tokenizer, of its own bytes.

The library keeps a trie of all tokens, about ``TOKEN_BYTES`` of memory for each of them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

from edgedec.core.errors import UnsupportedError
from edgedec.system.allocator import release_freed

if TYPE_CHECKING:
    from llguidance import LLTokenizer

    from edgedec.core.ledger import Ledger
    from edgedec.core.model_spec import ModelSpec
    from edgedec.text.tokenizer import Tokenizer

PART = "grammar"
"""Name of its memory in plan and ledger."""
TOKEN_BYTES = 180
"""Bytes for each token while the trie is made, as measured; more than half of them stay."""
TRIAL_BYTES, TRIAL_TOKEN_BYTES = 11_000_000, 45
"""Memory of the process that tries grammars (``trial``), and for each token, as measured."""

_known: WeakKeyDictionary[Tokenizer, LLTokenizer] = WeakKeyDictionary()
_turn = threading.Lock()


def vocabulary_bytes(spec: ModelSpec) -> int:
    """Return the bytes that grammars take for a model, at most: the vocabulary, and the process of trials."""
    return TRIAL_BYTES + (TOKEN_BYTES + TRIAL_TOKEN_BYTES) * spec.vocab_size


def vocabulary_of(tokenizer: Tokenizer, spec: ModelSpec, ledger: Ledger) -> LLTokenizer:
    """Return the library's view of a tokenizer; made at the first call, which takes up to two seconds.

    Raises UnsupportedError for a model without an end token, MemoryBudgetError.
    """
    if not spec.eos_ids:
        raise UnsupportedError(
            f"{spec.name} has no end token, which structured output needs", hint="export it with one"
        )
    with _turn:
        if (found := _known.get(tokenizer)) is None:
            from llguidance import LLTokenizer  # slow import, needed only here

            ledger.hold(tokenizer, PART, vocabulary_bytes(spec))
            # Slices of the trie would make masks of long strings quicker, and take three times the memory.
            wrapped = _Wrapped(tokenizer, spec)
            found = LLTokenizer(  # it asks for the attributes, not for the class
                wrapped,  # type: ignore[arg-type]
                eos_token=[*spec.eos_ids],
                slices=[],
            )
            wrapped.read()
            _known[tokenizer] = found
            release_freed()
        return found


class _Pieces(Sequence[bytes]):
    """The bytes of each token, made one by one: a list of them would take as much memory as the trie."""

    def __init__(self, tokenizer: Tokenizer, spec: ModelSpec) -> None:
        self._tokenizer = tokenizer
        self._size = spec.vocab_size
        self.control = {token: text.encode() for text, token in tokenizer.control_ids().items()}

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, token):  # type: ignore[no-untyped-def]  # nobody asks for slices
        if not 0 <= token < self._size:
            raise IndexError(token)
        return self.control.get(token) or self._tokenizer.spell(token)


class _Wrapped:
    """The attributes of a tokenizer that ``LLTokenizer`` reads, and its call to encode text."""

    is_tokenizer_wrapper = True

    def __init__(self, tokenizer: Tokenizer, spec: ModelSpec) -> None:
        pieces = _Pieces(tokenizer, spec)
        self.tokens: Sequence[bytes] = pieces
        self.special_token_ids = sorted({*pieces.control, *spec.eos_ids})
        self.eos_token_id = spec.eos_ids[0]
        self.bos_token_id = tokenizer.info.bos_id
        self._tokenizer = ref(tokenizer)

    def __call__(self, text: str) -> list[int]:
        tokenizer = self._tokenizer()
        return [] if tokenizer is None else tokenizer.encode_inside(text)

    def read(self) -> None:
        """Let go of the tokenizer, which would else live as long as what was made of it."""
        self.tokens = ()
