"""Text to ids by a mapped table; the library, without a vocabulary, does the steps before the merges."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgedec.core.errors import BadFileError, EdgeDecError, StorageError, UnsupportedError
from edgedec.core.files import atomic_path, sha256_of
from edgedec.text.bpe_table import FILE_NAME, NONE, BpeTable, available, damaged
from edgedec.text.encoder import AddedToken, Encoder, LibraryEncoder, Step, TokenizerFacts, words
from edgedec.text.tokenizer_guard import check_steps

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

JSON = "tokenizer.json"
_AGAIN = "export or pull the model again"
_OTHER_SHAPES = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What a table's facts raise that are none."""


def write_table(bundle: Path) -> None:
    """Make the table of a bundle that is being written, so that no start has to.

    A tokenizer that cannot be opened is left as it is: the start says why.
    """
    with suppress(EdgeDecError):
        open_encoder(bundle)


def tokenizer_form(bundle: Path) -> str:
    """Return in words how the tokenizer of a bundle is held."""
    if not available():
        return "in the tokenizers library: these kernels were built before they read tables"
    if (bundle / FILE_NAME).is_file():
        return "a mapped table"
    return "in the tokenizers library: its kind has no table, or none was made yet"


def open_encoder(bundle: Path, sha256: str | None = None) -> Encoder:
    """Return the encoder of the ``tokenizer.json`` in ``bundle``, by its table where it can have one.

    ``sha256``: the hash of that file, if it is known. A table that is missing, or of another file, is made;
    where it cannot be written the library is used. A bundle for devices has the table alone.
    Raises BadFileError when the file is missing or broken, UnsupportedError when its steps could multiply
    text.
    """
    path = bundle / JSON
    if not path.exists() and (bundle / FILE_NAME).is_file():
        return _only_table(bundle / FILE_NAME)
    try:
        source = bytes.fromhex(sha256 or sha256_of(path))
    except OSError as error:
        raise BadFileError(f"cannot read {path}: {error}", hint=_AGAIN) from error
    if not available():
        return _library_encoder(path)
    if (found := _by_table(bundle / FILE_NAME, source)) is not None:
        return found
    encoder = _library_encoder(path)
    if not _made(path, bundle / FILE_NAME, encoder):
        return encoder
    return _by_table(bundle / FILE_NAME, source) or encoder


def _by_table(path: Path, source: bytes) -> TableEncoder | None:
    """Return the encoder of the table of ``source``; None where there is none, or a damaged one."""
    try:
        table = BpeTable(path)
        if table.source != source:
            return None
        check_steps(table.facts)
        return TableEncoder(table)
    except (EdgeDecError, OSError, *_OTHER_SHAPES):
        return None


def _only_table(path: Path) -> TableEncoder:
    """Return the encoder of a table without a ``tokenizer.json``. Raises BadFileError, UnsupportedError."""
    if not available():
        raise UnsupportedError(
            "the bundle's tokenizer is a table, which these kernels cannot read", hint="update EdgeDec"
        )
    try:
        table = BpeTable(path)
        check_steps(table.facts)
        return TableEncoder(table)
    except OSError as error:
        raise BadFileError(f"cannot read {path}: {error.strerror}", hint=_AGAIN) from error
    except (BadFileError, *_OTHER_SHAPES) as error:
        raise BadFileError(damaged().message, hint=_AGAIN) from error


def _library_encoder(path: Path) -> LibraryEncoder:
    from tokenizers import Tokenizer as Library  # slow import, needed only here

    try:
        encoder = LibraryEncoder(Library.from_buffer(path.read_bytes()))  # a str would take 50 MB more
    except Exception as error:  # the library raises bare Exception
        raise BadFileError(f"{path} is not a valid tokenizer: {error}", hint=_AGAIN) from error
    check_steps(encoder.facts)
    return encoder


def _made(path: Path, table: Path, encoder: LibraryEncoder) -> bool:
    """Write the table of a ``tokenizer.json``; False where its rules or the folder do not allow it."""
    from edgedec.text.table_maker import table_of

    content = table_of(path.read_bytes(), encoder)
    if content is None:
        return False
    try:
        with atomic_path(table) as temporary:
            temporary.write_bytes(content)
    except (StorageError, OSError):
        return False
    return True


class TableEncoder:
    """Encodes with a table; see ``Encoder``."""

    def __init__(self, table: BpeTable) -> None:
        """Raises BadFileError for a table whose facts are none."""
        self.table = table
        try:
            self._steps = _Steps(table.facts)
        except _OTHER_SHAPES as error:
            raise damaged() from error

    @property
    def facts(self) -> TokenizerFacts:
        return self.table.facts

    @property
    def added(self) -> Mapping[int, AddedToken]:
        return self.table.added

    def added_token(self, token: int) -> AddedToken | None:
        return self.table.added_token(token)

    @property
    def size(self) -> int:
        return self.table.size

    @property
    def mapped_bytes(self) -> int:
        return self.table.nbytes

    def encode(self, text: str, *, parse_special: bool) -> list[int]:
        data = text.encode()  # before the rest: a lone surrogate is the caller's
        try:
            return self._encode(data, parse_special)
        except _OTHER_SHAPES as error:
            raise damaged() from error

    def _encode(self, text: bytes, parse_special: bool) -> list[int]:
        pieces: list[bytes] = []
        tokens: list[int] = []
        for part, token in self._parts(text, specials=parse_special):
            cut = self._steps.cut(part, first=not tokens) if token == NONE else [b""]
            pieces += cut
            tokens += [token] * len(cut)
        return self.table.encode(pieces, tokens)

    def _parts(self, text: bytes, *, specials: bool) -> Iterator[tuple[bytes, int]]:
        """Yield added tokens, and the normal form of the text between them with NONE."""
        for part, token in self.table.split(text, rewritten=False, specials=specials):
            if token != NONE:
                yield part, token
                continue
            normal = self._steps.normalize(part.decode()).encode()
            if self.table.rewrites:
                yield from self.table.split(normal, rewritten=True, specials=specials)
            else:
                yield normal, NONE

    def rewritten(self, text: str) -> list[str]:
        cut = self._steps.cut(self._steps.normalize(text).encode(), first=True)
        return [piece.decode() for piece in cut]

    def spelling(self, token: int) -> str | None:
        return self.table.spelling(token)

    def spellings(self) -> Iterator[str]:
        return self.table.spellings()

    def id_of(self, spelling: str) -> int | None:
        return self.table.find(spelling)

    def vocabulary(self) -> dict[str, int]:
        spelled = ((token, self.spelling(token)) for token in range(self.table.ids))
        return {text: token for token, text in spelled if text is not None}


class _Steps:
    """Normaliser and pre-tokeniser. Plain replacements are done here; the library takes 6 MB for the rest."""

    def __init__(self, facts: TokenizerFacts) -> None:
        plain = _replacements(facts.normalizer) if facts.pre_tokenizer is None else None
        self.normalize: Callable[[str], str]
        if plain is not None:
            self.normalize, self._first, self._later = plain, None, None
            return
        self._first = self._later = _without_vocabulary(facts.normalizer, facts.pre_tokenizer)
        normalizer = self._first.normalizer
        self.normalize = normalizer.normalize_str if normalizer is not None else _as_it_is
        if facts.pre_tokenizer is not None and facts.pre_tokenizer.get("prepend_scheme") == "first":
            later = facts.pre_tokenizer | {"prepend_scheme": "never"}
            self._later = _without_vocabulary(None, later)

    def cut(self, text: bytes, *, first: bool) -> list[bytes]:
        """Return the pieces of a text; ``first``: it is the beginning of a whole one."""
        library = self._first if first else self._later
        if library is None or library.pre_tokenizer is None:
            return [text]
        return [word.encode() for word in words(library, text.decode())]


def _as_it_is(text: str) -> str:
    return text


def _replacements(step: Step | None) -> Callable[[str], str] | None:
    """Return a normaliser of plain replacements as a function; None for any other."""
    if step is None:
        return _as_it_is
    if step["type"] == "Sequence":
        inner = [_replacements(one) for one in step["normalizers"]]
        if any(one is None for one in inner):
            return None
        return lambda text: _in_turn(inner, text)
    if step["type"] == "Prepend":
        return lambda text: step["prepend"] + text if text else text
    if step["type"] == "Replace" and step["pattern"].get("String"):
        return lambda text: text.replace(step["pattern"]["String"], step["content"])
    return None


def _in_turn(steps: list[Any], text: str) -> str:
    for step in steps:
        text = step(text)
    return text


def _without_vocabulary(normalizer: Step | None, pre_tokenizer: Step | None) -> Library:
    from tokenizers import Tokenizer as Library  # slow import, needed only here

    empty: dict[str, Any] = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": []}
    none = {"post_processor": None, "decoder": None, "model": {"type": "BPE", "vocab": {}, "merges": []}}
    document = empty | none | {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer}
    try:
        return Library.from_str(json.dumps(document))
    except Exception as error:  # the library raises bare Exception
        raise BadFileError(f"{JSON} is not a valid tokenizer: {error}", hint=_AGAIN) from error
