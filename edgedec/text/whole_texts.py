"""Whole texts, or pairs of them, as the tokens that an encoder reads: cut at its context, with its ends."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgedec.bundle.manifest import TOKENIZER
from edgedec.core.errors import BadFileError
from edgedec.core.quick_dataclass import dataclass
from edgedec.text.encoder import LibraryEncoder
from edgedec.text.tokenizer import valid_text
from edgedec.text.tokenizer_guard import check_steps

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_AGAIN = "pull or export the model again"
_USUAL_CHARS = 16
"""Characters of a token, at most, in a text that is not looked at as a whole first."""


@dataclass(frozen=True, slots=True)
class TokenText:
    """The tokens of a text. ``types`` are 1 in the second text of a pair; ``cut``: it was longer."""

    ids: Sequence[int]
    types: Sequence[int]
    cut: bool = False


class WholeTexts:
    """The tokenizer of an encoder. The text of a control token is ordinary text. Several threads may use it.

    ``longest``: tokens of the longest text, with those at its ends. ``pair``: see ``EmbeddingFacts``.
    """

    def __init__(self, library: Tokenizer, longest: int, pair: Sequence[str] = ()) -> None:
        self._library, self._longest, self._pair = library, longest, pair
        self._turn = threading.Lock()
        library.encode_special_tokens = True

    @classmethod
    def load(cls, bundle: Path, longest: int, pair: Sequence[str] = ()) -> WholeTexts:
        """Read ``tokenizer.json`` of a bundle. Raises BadFileError or UnsupportedError."""
        from tokenizers import Tokenizer  # slow import, needed only here

        path = bundle / TOKENIZER
        try:
            library = Tokenizer.from_buffer(path.read_bytes())
        except Exception as error:  # the library raises bare Exception
            raise BadFileError(f"{path} is not a valid tokenizer: {error}", hint=_AGAIN) from error
        check_steps(LibraryEncoder(library).facts)
        return cls(library, longest, pair)

    def limit(self, longest: int) -> None:
        """Cut texts at so many tokens from now on."""
        self._longest = longest

    def encode(self, texts: Sequence[str]) -> list[TokenText]:
        """Return the tokens of each text. Raises BadFileError for a tokenizer that contradicts itself."""
        return self._encoded([valid_text(text) for text in texts])

    def encode_pairs(self, query: str, documents: Sequence[str]) -> list[TokenText]:
        """Return the tokens of ``query`` together with each document, which is cut first."""
        query = valid_text(query)
        if not self._pair:
            return self._encoded([(query, valid_text(one)) for one in documents])
        before, body, behind = self._pair
        ends = [self._control(before), self._control(behind)]
        room = self._longest - sum(map(len, ends))
        made = [body.replace("{query}", query).replace("{document}", valid_text(one)) for one in documents]
        found = []
        for ids in (self._plain(text) for text in made):
            whole = [*ends[0], *ids[:room], *ends[1]]
            found.append(TokenText(whole, [0] * len(whole), len(ids) > room))
        return found

    def _encoded(self, texts: Sequence[Any]) -> list[TokenText]:
        most = self._longest * _USUAL_CHARS
        first = [_cut(text, most) for text in texts]
        with self._turn, _faults():
            self._library.enable_truncation(self._longest)
            found = self._library.encode_batch(first)
            made = []
            for text, begin, one in zip(texts, first, found, strict=True):
                if begin != text and not one.overflowing:  # few tokens of many characters
                    one = self._library.encode_batch([text])[0]
                made.append(TokenText(one.ids, one.type_ids, bool(one.overflowing) or begin != text))
            return made

    def _plain(self, text: str) -> list[int]:
        with self._turn, _faults():
            self._library.no_truncation()
            return list(self._library.encode(text, add_special_tokens=False).ids)

    def _control(self, text: str) -> list[int]:
        with self._turn, _faults():
            self._library.no_truncation()
            self._library.encode_special_tokens = False
            try:
                return list(self._library.encode(text, add_special_tokens=False).ids)
            finally:
                self._library.encode_special_tokens = True


def _cut(text: Any, most: int) -> Any:
    return text[:most] if isinstance(text, str) else (text[0][:most], text[1][:most])


class _faults:  # noqa: N801 - used like the context managers of contextlib
    """Turn the bare exceptions of the library into BadFileError."""

    def __enter__(self) -> None:
        """There is nothing to prepare."""

    def __exit__(self, raised: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception):
            message = f"the model's tokenizer cannot encode this text: {error}"
            raise BadFileError(message, hint=_AGAIN) from error
