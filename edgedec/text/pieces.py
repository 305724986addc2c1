"""Cutting a long text so that the tokens of its pieces are the tokens of the text.

Encoding takes up to 160 bytes of memory for each byte of text. So a long text is encoded piece by piece, and
cut only where that provably changes nothing:

- No added token's text reaches over the cut, nor the white space that it takes with it.
- Byte-level BPE: one of the patterns in ``word_patterns`` cuts there in any case. No pattern has a match that
  goes on from a character to a space, from a newline to a letter, or from a Chinese character to a full stop.
  None looks behind, and none looks ahead from a character to a space.
- SentencePiece BPE: no token of the vocabulary has the character before the cut followed by a space, so no
  merge ever joins the two sides.

A text without such places, and a tokenizer of another kind, is encoded whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from edgedec.core.quick_dataclass import dataclass
from edgedec.text.encoder import SPACE
from edgedec.text.word_patterns import GPT2, WORD_PATTERNS

if TYPE_CHECKING:
    from edgedec.text.added_tokens import AddedToken
    from edgedec.text.table_encoder import Encoder

_WORDS_CHARS = 8_192
"""Length of a piece for byte-level BPE, which takes most memory for each byte."""
_WHOLE_CHARS = 65_536
"""Length of a piece for SentencePiece; a shorter text spares the reading of the vocabulary."""
_LOOK_CHARS = 256

_IDEOGRAPHS = "\u4e00-\u9fa5\u3041-\u3096\u30a1-\u30fa"
_LETTERS = (
    "A-Za-z\u0100-\u017f\u0391-\u03a1\u03b1-\u03c9\u0400-\u0481\u048a-\u04ff\u05d0-\u05ea\u0620-\u064a"
    f"\u0904-\u0939\u0e01-\u0e30\uac00-\ud7a3{_IDEOGRAPHS}"
)
"""Letters of every version of Unicode."""
_STOPS = "\u3002\uff0c\u3001"


@dataclass(frozen=True, slots=True)
class PieceRule:
    """Where a tokenizer's text may be cut: at each match of ``cuts``, which is empty.

    ``chars`` is the usual length of a piece. ``drops_space``: the tokenizer puts a space in front of a text,
    so the one at the cut is left out.
    """

    cuts: re.Pattern[str]
    chars: int
    drops_space: bool = False

    def pieces(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where each piece of ``text`` begins and ends."""
        start = 0
        while len(text) - start > self.chars:
            cut = self._last_cut(text, start + 1, start + self.chars)
            if cut is None:
                found = self.cuts.search(text, start + self.chars)
                if found is None:
                    break
                cut = found.start()
            yield start, cut
            start = cut + self.drops_space
        yield start, len(text)

    def _last_cut(self, text: str, start: int, end: int) -> int | None:
        while end > start:
            begin = max(end - _LOOK_CHARS, start)
            found = [cut.start() for cut in self.cuts.finditer(text, begin, end + 2)]
            if cuts := [cut for cut in found if cut < end]:
                return cuts[-1]
            end = begin
        return None


def piece_rule(encoder: Encoder, *, adds_space: bool) -> PieceRule | None:
    """Find the rule for a tokenizer; None if it is of a kind that is always encoded whole."""
    added = list(encoder.added.values())
    if any(token.single_word for token in added):
        return None
    facts = encoder.facts
    if facts.model != "BPE" or facts.dropout:
        return None
    normalizer, splits = facts.normalizer, facts.pre_tokenizer
    if _cuts_words(normalizer, splits):
        return PieceRule(re.compile(_word_cuts(added)), _WORDS_CHARS)
    if _replaces_spaces(normalizer) and (not splits or splits["type"] == "Metaspace"):
        return _sentencepiece_rule(encoder, added, adds_space)
    return None


def _word_cuts(added: list[AddedToken]) -> str:
    """Build the expression for byte-level BPE: before words, after newlines, before Chinese stops."""
    contents = [token.content for token in added]
    takers, taken = _strippers(added)
    joined = _class({pair[0] for pair in _pairs(contents) if pair[1] == " "} | takers)
    after_newline = _class({pair[1] for pair in _pairs(contents) if pair[0] == "\n"} | taken)
    after_ideograph = _class({pair[1] for pair in _pairs(contents) if pair[1] in _STOPS})
    return (
        rf"(?<=[^\s{joined}])(?= [{_LETTERS}]){_but_not(_class(taken), ' ')}"
        rf"|(?<=[^\s{_class(takers)}]\n)(?=[{_LETTERS}]){_but_not(after_newline)}"
        rf"|(?<=[{_IDEOGRAPHS}])(?=[{_STOPS}]){_but_not(after_ideograph)}"
    )


def _strippers(added: list[AddedToken]) -> tuple[set[str], set[str]]:
    """Return the last characters of tokens that take space behind them, the first of those before them."""
    behind = {token.content[-1] for token in added if token.rstrip and token.content}
    return behind, {token.content[0] for token in added if token.lstrip and token.content}


def _sentencepiece_rule(encoder: Encoder, added: list[AddedToken], adds_space: bool) -> PieceRule | None:
    """Make the rule for SentencePiece: before words, and after newlines where those are added tokens."""
    facts, contents = encoder.facts, [token.content for token in added if token.content]
    if encoder.id_of(SPACE) is None or (facts.unk_token is None and not facts.byte_fallback):
        return None
    takers, taken = _strippers(added)
    joined = {SPACE} | takers | {pair[0] for pair in _pairs(contents) if pair[1] in (SPACE, " ")}
    for text in encoder.spellings():
        if SPACE in text[1:]:
            joined |= {pair[0] for pair in _pairs([text]) if pair[1] == SPACE}
    if not adds_space:
        cuts = rf"(?<=[^\s{_class(joined)}])(?= [{_LETTERS}]){_but_not(_class(taken), ' ')}"
        if any(token.content == "\n" and not token.special for token in added):
            after_newline = _class({pair[1] for pair in _pairs(contents) if pair[0] == "\n"} | taken)
            cuts += rf"|(?<=\n)(?=[{_LETTERS}]){_but_not(after_newline)}"
        return PieceRule(re.compile(cuts), _WHOLE_CHARS)
    # Text behind an added token gets a space in front too, so neither side of the cut may be one.
    ends, starts = {text[-1] for text in contents}, {text[0] for text in contents}
    if starts & {SPACE, " "}:
        return None
    cuts = rf"(?<=[^\s{_class(joined | ends)}])(?= [{_LETTERS}]){_but_not(_class(starts), ' ')}"
    return PieceRule(re.compile(cuts), _WHOLE_CHARS, drops_space=True)


def _cuts_words(normalizer: dict[str, Any] | None, splits: dict[str, Any] | None) -> bool:
    """Whether the steps are those of byte-level BPE with known patterns."""
    if normalizer and not all(step["type"] == "NFC" for step in _steps(normalizer, "normalizers")):
        return False
    if not splits:
        return False
    *cutting, last = _steps(splits, "pretokenizers")
    if last["type"] != "ByteLevel" or last["add_prefix_space"]:
        return False
    patterns: list[str] = []
    for step in cutting:
        if step["type"] == "Digits" and step["individual_digits"]:
            patterns.append(r"\p{N}")
        elif step["type"] == "Split" and step["behavior"] == "Isolated" and not step["invert"]:
            patterns.append(step["pattern"].get("Regex", ""))
        else:
            return False
    return (*patterns, *(GPT2 if last["use_regex"] else ())) in WORD_PATTERNS


def _replaces_spaces(normalizer: dict[str, Any] | None) -> bool:
    """Whether the normaliser does nothing but write spaces as SentencePiece does."""
    for step in _steps(normalizer, "normalizers") if normalizer else []:
        space = step["type"] == "Replace" and step["pattern"] == {"String": " "} and step["content"] == SPACE
        if not space and not (step["type"] == "Prepend" and step["prepend"] == SPACE):
            return False
    return True


def _steps(state: dict[str, Any], key: str) -> list[dict[str, Any]]:
    if state["type"] != "Sequence":
        return [state]
    return [step for part in state[key] for step in _steps(part, key)]


def _pairs(texts: Iterable[str]) -> Iterator[str]:
    """Yield every two neighbouring characters."""
    for text in texts:
        for at in range(len(text) - 1):
            yield text[at : at + 2]


def _class(chars: set[str]) -> str:
    """Write characters as they stand inside of square brackets."""
    return "".join(f"\\U{ord(char):08x}" for char in sorted(chars))


def _but_not(chars: str, after: str = "") -> str:
    return f"(?!{after}[{chars}])" if chars else ""
