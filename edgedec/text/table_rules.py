"""From normaliser and pre-tokeniser to the rules of a table: ``kernels/text/steps.h`` has their form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import numpy as np

from edgedec.text import characters
from edgedec.text.bpe_table import TablePart
from edgedec.text.encoder import Step, TokenizerFacts
from edgedec.text.word_patterns import GPT2
from edgedec.text.word_programs import ClassTable, NoTableError, literal, one_of, program_of

_COMPOSE, _REPLACE, _PREPEND, _SPACES, _SPLIT, _ALPHABET = range(6)
_WHEN = {"never": 0, "always": 1, "first": 2}
_BEHAVIOURS = {"Isolated": 0, "Removed": 1, "Contiguous": 2, "MergedWithPrevious": 3, "MergedWithNext": 4}


def rules_of(facts: TokenizerFacts) -> dict[TablePart, bytes]:
    """Return the parts of a table that say what happens to a text before merging.

    Raises NoTableError, which names it, for a step that ``kernels/text/steps.h`` does not have.
    """
    rules = _Rules()
    for step in _steps(facts.normalizer, "normalizers"):
        rules.add_normalizer(step)
    for number, step in enumerate(_steps(facts.pre_tokenizer, "pretokenizers")):
        rules.add_pre_tokenizer(step, first=number == 0)
    return {
        TablePart.RULES: np.array(rules.words, np.uint32).tobytes(),
        TablePart.RULE_TEXT: bytes(rules.texts),
        TablePart.MASKS: rules.classes.masks(),
        **_composing(needed=rules.composes),
    }


class _Rules:
    def __init__(self) -> None:
        self.words: list[int] = []
        self.texts = bytearray()
        self.classes = ClassTable()
        self.composes = False
        self._in_bytes = False

    def add_normalizer(self, step: Step) -> None:
        match step:
            case {"type": "NFC"}:
                self.words.append(_COMPOSE)
                self.composes = True
            case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)} if old:
                self.words += [_REPLACE, *self._text(old), *self._text(new)]
            case {"type": "Prepend", "prepend": str(text)}:
                self.words += [_PREPEND, *self._text(text)]
            case _:
                _refuse("normaliser", step)

    def add_pre_tokenizer(self, step: Step, *, first: bool) -> None:
        if self._in_bytes:
            _refuse("pre-tokeniser behind ByteLevel", step)
        match step:
            case {
                "type": "Split",
                "pattern": {"Regex": str(pattern)},
                "behavior": behaviour,
                "invert": invert,
            }:
                self._split(program_of(pattern, self.classes), behaviour, invert=invert)
            case {
                "type": "Split",
                "pattern": {"String": str(text)},
                "behavior": behaviour,
                "invert": invert,
            } if text:
                self._split(literal(text, self.classes), behaviour, invert=invert)
            case {"type": "Digits", "individual_digits": bool(single)}:
                program = one_of(characters.digits(), self.classes)
                self._split(program, "Isolated" if single else "Contiguous")
            case {"type": "ByteLevel", "add_prefix_space": False, "use_regex": bool(cuts)}:
                if cuts:
                    self._split(program_of(GPT2[0], self.classes), "Isolated")
                self.words.append(_ALPHABET)
                self._in_bytes = True
            case {
                "type": "Metaspace",
                "replacement": str(space),
                "prepend_scheme": scheme,
                "split": cuts,
            } if first:
                self.words += [_SPACES, *self._text(space), _WHEN[scheme]]
                if cuts:
                    self._split(literal(space, self.classes), "MergedWithNext")
            case _:
                _refuse("pre-tokeniser", step)

    def _split(self, program: list[int], behaviour: str, *, invert: bool = False) -> None:
        self.words += [_SPLIT, _BEHAVIOURS[behaviour], int(invert), len(program) // 4, *program]

    def _text(self, text: str) -> tuple[int, int]:
        content = text.encode()
        self.texts += content
        return len(self.texts) - len(content), len(content)


def _refuse(kind: str, step: Step) -> NoReturn:
    raise NoTableError(f"it has the {kind} {step.get('type', '')!r}")


def _steps(step: Step | None, key: str) -> Iterator[Step]:
    if step is None:
        return
    if step.get("type") == "Sequence":
        for part in step[key]:
            yield from _steps(part, key)
    else:
        yield step


def _composing(*, needed: bool) -> dict[TablePart, bytes]:
    """Return the tables of the composed normal form; empty ones where no step needs them."""
    decomposed: list[tuple[int, int, int]] = []
    codes: list[int] = []
    combining: list[tuple[int, int]] = []
    composed: list[tuple[int, int, int]] = []
    if needed:
        for code, parts in sorted(characters.decompositions().items()):
            decomposed.append((code, len(codes), len(parts)))
            codes += map(ord, parts)
        combining = sorted(characters.combining_classes().items())
        composed = [(*pair, both) for pair, both in sorted(characters.compositions().items())]
    return {
        TablePart.DECOMPOSED: np.array(decomposed, np.uint32).tobytes(),
        TablePart.DECOMPOSITION: np.array(codes, np.uint32).tobytes(),
        TablePart.COMBINING: np.array(combining, np.uint32).tobytes(),
        TablePart.COMPOSED: np.array(composed, np.uint32).tobytes(),
    }
