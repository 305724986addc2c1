"""Names of the parts of a GGUF model that lies in several files: ``NAME-00001-of-00003.gguf`` and so on."""

from __future__ import annotations

import re
from pathlib import Path

from edgedec.core.quick_dataclass import dataclass

_PIECE = re.compile(r"(.+\.gguf)[.-](?:part-?(?:\d+of\d+|\d+|[a-z])|split-[a-z]+)", re.IGNORECASE)
_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})(\.gguf)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PartName:
    """The name of a part: ``number`` of ``count``, from 1 on. ``stem`` is that of the model."""

    stem: str
    number: int
    count: int
    suffix: str

    def sibling(self, number: int) -> str:
        """Return the name of another part."""
        return f"{self.stem}-{number:05}-of-{self.count:05}{self.suffix}"

    def all(self) -> list[str]:
        """Return the names of all parts, in order."""
        return [self.sibling(number) for number in range(1, self.count + 1)]


def part_name(name: str) -> PartName | None:
    """Read the name of a file, or a path with /; None for one that is no part of several.

    >>> part_name("a/big-Q6_K-00002-of-00003.gguf")
    PartName(stem='a/big-Q6_K', number=2, count=3, suffix='.gguf')
    """
    found = _PART.fullmatch(name)
    if found is None:
        return None
    number, count = int(found[2]), int(found[3])
    return PartName(found[1], number, count, found[4]) if 1 <= number <= count and count > 1 else None


def whole_file(piece: str) -> str | None:
    """Return the name of the file of which a piece was cut, at any byte; None for the name of no piece.

    >>> whole_file("big.Q8_0.gguf.part1of2"), whole_file("big.gguf-split-a"), whole_file("big.gguf")
    ('big.Q8_0.gguf', 'big.gguf', None)
    """
    found = _PIECE.fullmatch(piece)
    return found[1] if found else None


def gguf_files(path: Path) -> list[Path]:
    """Return the files of the model that ``path`` is, or is a part of, in order; some may be missing."""
    found = part_name(path.name)
    return [path.with_name(name) for name in found.all()] if found else [path]


def model_stem(path: Path) -> str:
    """Return the name of a model's file without its ending, and without the number of a part."""
    found = part_name(path.name)
    return found.stem if found else path.stem
