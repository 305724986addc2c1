"""Long texts that every checkout has, cut to a number of tokens, and facts that are hidden in them."""

from __future__ import annotations

import asyncio
import random
import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from edgedec.bundle.manifest import Manifest
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.home import default_home
from edgedec.models import Store
from edgedec.text.tokenizer import Tokenizer

SEED = 7
HERE = Path(__file__).parent
PLACES = {"prose": re.compile(r"[.!?] |\n"), "code": re.compile(r"\n\n")}
BEHIND = {"prose": " ", "code": "\n\n"}
DOCUMENTS = ("architecture.md", "verification.md", "papers.md", "experiments.md")


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement that is hidden in a text, questions about it, and texts one of which an answer has."""

    statement: str
    same: str
    other: str
    answers: tuple[str, ...]

    def in_reply(self, reply: str) -> bool:
        return any(one.lower() in reply.lower() for one in self.answers)


def facts(kind: str) -> list[Fact]:
    """Return the facts for prose, or for code."""
    told = tomllib.loads((HERE / "facts.toml").read_text(encoding="utf-8"))[kind]
    return [Fact(**{**one, "answers": tuple(one["answers"])}) for one in told]


def text(kind: str) -> str:
    """Return the guide ("prose"), source of the standard library ("code"), or other documents."""
    if kind == "prose":
        files = sorted((HERE.parent / "guide").glob("*.md"))
    elif kind == "code":
        folders = [Path(name).parent for name in (asyncio.__file__, re.__file__)]
        files = sorted(file for folder in folders for file in folder.glob("*.py"))
    else:
        files = [HERE.parent / name for name in DOCUMENTS]
    return "\n\n".join(file.read_text(encoding="utf-8") for file in files)


def sown(whole: str, kind: str, hidden: Sequence[Fact]) -> str:
    """Return a text with facts at ends of its sentences, or between paragraphs of code."""
    draw = random.Random(SEED)
    places = sorted(draw.sample([found.end() for found in PLACES[kind].finditer(whole)], len(hidden)))
    pieces = [whole[start:end] for start, end in zip([0, *places], [*places, len(whole)], strict=True)]
    shuffled = draw.sample(list(hidden), len(hidden))
    parts = (piece + fact.statement + BEHIND[kind] for piece, fact in zip(pieces, shuffled, strict=False))
    return "".join([*parts, pieces[-1]])


def tokenizer_of(model: str) -> Tokenizer:
    bundle = Store(default_home()).ensure(model)
    return Tokenizer.load(bundle, Manifest.load(bundle).tokenizer)


def cut(whole: str, tokens: int, tokenizer: Tokenizer) -> str:
    """Return the first ``tokens`` tokens of a text; end the program where it has fewer."""
    ids = tokenizer.encode(whole, add_bos=False)
    if len(ids) < tokens:
        sys.exit(f"the text has {len(ids)} tokens: ask for fewer than {tokens}")
    return tokenizer.decode(ids[:tokens])
