"""Translation between a draft model's tokens and the target's: none, or by text.

With another vocabulary the two tokenise the same text differently. The draft model reads the committed text
in its own tokens and drafts text, which the target's tokenizer cuts into the target's tokens (string
alignment, after Timor et al. 2025); tokens that spell the same bytes share the noise of sampled decoding
(token-level intersection, ibid.).
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from edgedec.core.tree import ROOT
from edgedec.draft.tree_builder import TreeBuilder

if TYPE_CHECKING:
    from edgedec.text.tokenizer import Tokenizer

Ids = NDArray[np.int64]

_STRETCH = 16
"""Target tokens after which the next word begins a new stretch: only the last one is tokenised again."""
_LONGEST = 64
"""Target tokens of a stretch without a word's beginning."""
_TRIFLE = 0.02
"""Paths less probable than this are not worth tokenising."""
_UNSEEN, _NONE = -2, -1


class Bridge(Protocol):
    """Follows the target's committed tokens, and translates in both directions."""

    def begin(self, tokens: Sequence[int], kept: int) -> None: ...

    def commit(self, tokens: Sequence[int]) -> None: ...

    def read(self) -> list[int]:
        """The committed sequence in the drafter's ids, not to be changed; nothing if it has no such ids."""
        ...

    def to_target_ids(self, ids: Ids) -> Ids:
        """For each of the drafter's ids the target's id of the same meaning, or -1."""
        ...

    def ends(self, token: int) -> bool:
        """Whether nothing is drafted after this token of the drafter."""
        ...

    def in_target_ids(self, sketch: TreeBuilder) -> TreeBuilder:
        """A draft in the drafter's ids as one in the target's."""
        ...

    def length(self, tokens: Sequence[int]) -> int:
        """How many of the target's tokens spell these drafted ones, behind the committed text."""
        ...

    def nbytes(self) -> int: ...


class SameVocabulary:
    """Ids mean the same on both sides. ``size``: ids that both models have; some have more, as padding."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._ids: list[int] = []
        self._readable = True

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        self._ids, self._readable = [], True
        self.commit(tokens)

    def commit(self, tokens: Sequence[int]) -> None:
        self._ids += tokens
        self._readable = self._readable and max(tokens, default=0) < self._size

    def read(self) -> list[int]:
        return self._ids if self._readable else []

    def to_target_ids(self, ids: Ids) -> Ids:
        return np.where(ids < self._size, ids, _NONE)

    def ends(self, token: int) -> bool:
        return token >= self._size

    def in_target_ids(self, sketch: TreeBuilder) -> TreeBuilder:
        if all(token < self._size for token in sketch.tokens):
            return sketch
        known, places = TreeBuilder(), {ROOT: ROOT}
        for node, token in enumerate(sketch.tokens):  # nothing follows an unknown one: it ``ends``
            if token < self._size:
                places[node] = known.add(token, places[sketch.parents[node]], sketch.reach[node])
        return known

    def length(self, tokens: Sequence[int]) -> int:
        return len(tokens)

    def nbytes(self) -> int:
        return 8 * len(self._ids)


class TextBridge:
    """Between vocabularies that share text alone.

    ``controls`` maps the target's control tokens to the drafter's of the same role; ``opening`` has the
    first tokens of the drafter's sequences. Control tokens of the target that have no counterpart are left
    out.
    """

    def __init__(
        self,
        target: Tokenizer,
        draft: Tokenizer,
        controls: Mapping[int, int],
        *,
        draft_size: int,
        opening: Sequence[int] = (),
    ) -> None:
        self._target = target
        self._draft = draft
        self._controls = dict(controls)
        self._back = {mine: theirs for theirs, mine in reversed(self._controls.items())}
        self._target_ids = np.full(draft_size, _UNSEEN, dtype=np.int32)
        self._opening = list(opening)
        self._closed = list(opening)
        # Where stretches end: in target tokens, and in the drafter's.
        self._marks: list[tuple[int, int]] = [(0, len(opening))]
        self._open: list[int] = []
        self._half = b""
        self._cuts: dict[bytes, tuple[list[int], bool]] = {}
        """What ``_cut`` found since the text was read. Sampled drafts ask for a path twice."""

    @property
    def opening(self) -> int:
        """Tokens that begin each of the drafter's sequences, and that no text of the target's makes."""
        return len(self._opening)

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        while self._marks[-1][0] > kept:
            self._marks.pop()
        start, length = self._marks[-1]
        del self._closed[length:]
        self._open = []
        self.commit(tokens[start:])

    def commit(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            piece = self._target.token_bytes(token)
            if not piece:
                self._close()
                self._control(token)
                continue
            count = len(self._open)
            if (count >= _STRETCH and _begins_word(piece)) or (count >= _LONGEST and self._is_whole()):
                self._close()
            self._open.append(token)

    def read(self) -> list[int]:
        text, self._half = whole_text(self._spelled())
        self._cuts.clear()
        return [*self._closed, *(self._draft.encode_inside(text) if text else ())]

    def to_target_ids(self, ids: Ids) -> Ids:
        found = self._target_ids[ids]
        if (found == _UNSEEN).any():
            for token in ids[found == _UNSEEN].tolist():
                piece = self._draft.token_bytes(token)
                theirs = self._target.id_of(piece) if piece else self._back.get(token)
                self._target_ids[token] = _NONE if theirs is None else theirs
            found = self._target_ids[ids]
        return found.astype(np.int64)

    def ends(self, token: int) -> bool:
        return not self._draft.token_bytes(token)

    def in_target_ids(self, sketch: TreeBuilder) -> TreeBuilder:
        """Each path is a text, and another path may continue it into another token (" photo", "synthesis").

        So a target token is as probable as all paths together that are tokenised so, each counted with the
        probability that the text goes on along it and then along none that was drafted.
        """
        result = TreeBuilder()
        for node, probability in enumerate(sketch.ends()):
            if probability > _TRIFLE:
                self._say(sketch.spelled(node), probability, result)
        return result

    def nbytes(self) -> int:
        entries = len(self._closed) + len(self._open) + 2 * len(self._marks) + 2 * len(self._controls)
        return int(self._target_ids.nbytes) + 8 * entries

    def length(self, tokens: Sequence[int]) -> int:
        return len(self._cut(tokens)[0])

    def _say(self, tokens: list[int], probability: float, result: TreeBuilder) -> None:
        cut, whole = self._cut(tokens)
        parent = ROOT
        for token in cut:
            parent = result.add(token, parent, probability)
        last = self._back.get(tokens[-1])
        if last is not None and self.ends(tokens[-1]) and whole:
            result.add(last, parent, probability)

    def _cut(self, tokens: Sequence[int]) -> tuple[list[int], bool]:
        """The target's tokens that spell ``tokens``, and whether they do so to the last byte.

        They stop where the target's tokenizer spells something else, or crosses the end of the committed
        text. A character that the committed text ends inside of belongs to that text.
        """
        raw = b"".join([self._draft.token_bytes(token) for token in tokens])
        if (known := self._cuts.get(raw)) is None:
            known = self._cuts[raw] = self._cut_text(raw)
        return known

    def _cut_text(self, raw: bytes) -> tuple[list[int], bool]:
        found: list[int] = []
        if not raw.startswith(self._half):
            return found, False
        text, rest = whole_text(raw)
        done = 0
        for token in self._target.encode_inside(text) if text else ():
            piece = self._target.token_bytes(token)
            if not piece or raw[done : done + len(piece)] != piece:
                return found, False
            begun, done = done, done + len(piece)
            if begun >= len(self._half):
                found.append(token)
            elif done > len(self._half):
                return found, False
        return found, not rest and done == len(raw)

    def _control(self, token: int) -> None:
        mine = self._controls.get(token)
        if mine is not None and not (self._marks == [(0, len(self._opening))] and [mine] == self._opening):
            self._closed.append(mine)
        self._marks.append((self._marks[-1][0] + 1, len(self._closed)))

    def _close(self) -> None:
        if self._open:
            text = self._spelled().decode("utf-8", "replace")
            self._closed += self._draft.encode_inside(text)
            self._marks.append((self._marks[-1][0] + len(self._open), len(self._closed)))
            self._open = []

    def _is_whole(self) -> bool:
        return not whole_text(self._spelled())[1]

    def _spelled(self) -> bytes:
        return b"".join([self._target.token_bytes(token) for token in self._open])


def whole_text(raw: bytes) -> tuple[str, bytes]:
    """``raw`` as text, and the bytes of a character that its end cuts; U+FFFD for bytes that are no UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(raw)
    return text, decoder.getstate()[0]


def _begins_word(piece: bytes) -> bool:
    return len(piece) > 1 and piece[0] == 0x20 and chr(piece[1]).isalpha()
