"""Reads and checks the ``tokenizer.ggml.*`` key-values of a GGUF file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from edgedec.core.errors import BadFileError
from edgedec.core.quick_dataclass import dataclass

# tokenizer.ggml.token_type, from the GGUF specification.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

PREFIX = "tokenizer.ggml."


@dataclass(frozen=True, slots=True)
class GgufVocabulary:
    """The parallel arrays of a GGUF vocabulary; the index is the token id.

    ``tokens`` are distinct and non-empty. ``scores`` may be empty for byte-level BPE, ``merges`` for SPM.
    ``doubled`` are ids whose text an earlier id has: they have a name of their own, are unused, and cannot be
    written.
    """

    tokens: tuple[str, ...]
    types: tuple[int, ...]
    scores: tuple[float, ...]
    merges: tuple[tuple[str, str], ...]
    doubled: frozenset[int] = frozenset()

    @property
    def ids(self) -> dict[str, int]:
        """The id of each token."""
        return {text: i for i, text in enumerate(self.tokens)}

    def of_type(self, *types: int) -> list[int]:
        """Return the ids of all tokens of the given types, ascending."""
        return [i for i, kind in enumerate(self.types) if kind in types]


def token_id(metadata: Mapping[str, Any], name: str, vocab_size: int) -> int | None:
    """Return ``tokenizer.ggml.<name>_token_id``, or None if it is absent or outside the vocabulary.

    Raises BadFileError if it is not a whole number.
    """
    value = metadata.get(f"{PREFIX}{name}_token_id")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadFileError(f"{PREFIX}{name}_token_id is not a token id")
    return value if 0 <= value < vocab_size else None


def read_vocabulary(metadata: Mapping[str, Any]) -> GgufVocabulary:
    """Collect and check the arrays. Raises BadFileError, which names the missing or inconsistent key."""
    tokens = _strings(metadata, "tokens")
    if not tokens:
        raise BadFileError(f"the GGUF file has no tokenizer: {PREFIX}tokens is missing or empty")
    # llama.cpp gives empty tokens this name; it keeps the texts distinct.
    tokens = [text or f"[EMPTY_{i}]" for i, text in enumerate(tokens)]
    types = [int(kind) for kind in _parallel(metadata, "token_type", len(tokens))] or [NORMAL] * len(tokens)
    doubled = _doubled(tokens)
    for i in doubled:
        tokens[i], types[i] = f"[DOUBLED_{i}]", UNUSED
    return GgufVocabulary(
        tokens=tuple(tokens),
        types=tuple(types),
        scores=tuple(float(score) for score in _parallel(metadata, "scores", len(tokens))),
        merges=tuple(_merges(metadata)),
        doubled=frozenset(doubled),
    )


def _doubled(tokens: Sequence[str]) -> list[int]:
    """Return the ids of tokens that are listed before: of those of one text, the first counts."""
    first: dict[str, int] = {}
    return [i for i, text in enumerate(tokens) if first.setdefault(text, i) != i]


def _strings(metadata: Mapping[str, Any], name: str) -> list[str]:
    values = metadata.get(PREFIX + name, [])
    if isinstance(values, list | tuple) and any(isinstance(value, bytes) for value in values):
        raise BadFileError(f"{PREFIX}{name} has a text that is not UTF-8")
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise BadFileError(f"{PREFIX}{name} is not a list of strings")
    return list(values)


def _parallel(metadata: Mapping[str, Any], name: str, length: int) -> Sequence[Any]:
    values = metadata.get(PREFIX + name, [])
    if not isinstance(values, list | tuple) or not all(_is_number(value) for value in values):
        raise BadFileError(f"{PREFIX}{name} is not a list of numbers")
    if len(values) not in (0, length):
        raise BadFileError(f"{PREFIX}{name} has {len(values)} entries for {length} tokens")
    return values


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _merges(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = []
    for number, text in enumerate(_strings(metadata, "merges")):
        # The first half is never empty, so a leading space belongs to it.
        cut = text.find(" ", 1)
        if cut < 0 or cut + 1 == len(text):
            raise BadFileError(f"{PREFIX}merges: entry {number} is not a pair")
        pairs.append((text[:cut], text[cut + 1 :]))
    return pairs
