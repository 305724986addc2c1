"""text/: tables and template programs with any numbers in them give an answer or one error, in bounded time.

Run with sanitizers, too: ``tests/kernels/test_sanitized.py``.
"""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import pytest

from edgedec.native.text_probe import NativeError, TextProbe
from edgedec.text.bpe_table import HEADER
from edgedec.text.template_program import program_of, sealed
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures.files import replace_file
from tests.fixtures.tiny_tokenizers import bpe_metadata, built, spm_metadata
from tests.native.test_text import WORDS, native
from tests.native.test_text_template import EXPRESSIONS, PROGRAMS, SOURCES, talks

TEXTS = (
    "The quick brown fox's 12 jumps.\n\n  an an",
    "é日本🙂\u0301 <|im_end|>a <tool> ",
    "an" * 60,
    "\x00\xff  1",
)
ERRORS = {4, 5, 7, 11}


def damaged(content: bytes, rng: random.Random, first: int) -> bytes:
    """``content`` with other numbers at some places behind ``first``, and sometimes shorter."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5, 40))):
        at = rng.randrange(first, len(content) - 4) & ~3
        edge = (0, 1, 0xFF, 0xFFFFFFFF, 0x7FFFFFFF, 0x10FFFF, rng.randrange(1 << 32), rng.randrange(400))
        changed[at : at + 4] = rng.choice(edge).to_bytes(4, "little")
    return bytes(changed[: rng.randrange(first, len(changed))] if rng.random() < 0.02 else changed)


def with_checksum(content: bytes) -> bytes:
    return content[:8] + zlib.crc32(content[12:]).to_bytes(4, "little") + content[12:]


def rules_and_rest(content: bytes) -> list[int]:
    """Places where damage is likely to be seen: the header, and the parts behind the vocabulary."""
    parts = HEADER.unpack_from(content)[6:]
    return [12, 12, int(parts[2 * 9]), int(parts[2 * 12])]


def break_table(folder: Path, tokenizer: Tokenizer, content: bytes, rng: random.Random) -> bool:
    """Use a damaged table; False where it was refused."""
    path = folder / "tokenizer.table"
    replace_file(path, with_checksum(damaged(content, rng, rng.choice(rules_and_rest(content)))))
    try:
        with native(folder, tokenizer) as probe:
            for text in TEXTS:
                ids = probe.encode(text.encode(), specials=True)
                probe.ask("stream", ids=[*ids[:50], -1, 1 << 30], characters=True)
            probe.ask("facts", first=-1, end=300)
    except NativeError as error:
        if error.code not in ERRORS:
            raise
        return False
    return True


def table_of(kind: str, folder: Path) -> tuple[Tokenizer, bytes]:
    metadata = bpe_metadata(pre="llama-bpe") if kind == "bpe" else spm_metadata(WORDS, add_space_prefix=True)
    return built(folder, metadata), (folder / "tokenizer.table").read_bytes()


@pytest.mark.parametrize("kind", ["bpe", "spm"])
def test_hostile_tables(kind: str, tmp_path: Path) -> None:
    hostile_tables(kind, tmp_path, 250)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bpe", "spm"])
def test_a_hundred_thousand_hostile_tables(kind: str, tmp_path: Path) -> None:
    hostile_tables(kind, tmp_path, 50_000)


def hostile_tables(kind: str, folder: Path, count: int) -> None:
    tokenizer, content = table_of(kind, folder)
    rng = random.Random(count)
    used = sum(break_table(folder, tokenizer, content, rng) for _ in range(count))
    assert 0 < used < count


def test_hostile_programs() -> None:
    hostile_programs(1500)


@pytest.mark.slow
def test_a_hundred_thousand_hostile_programs() -> None:
    hostile_programs(100_000)


def test_a_flipped_bit_anywhere_in_a_program_is_seen() -> None:
    source = next(iter(SOURCES.values()))
    program = program_of(source)
    rng = random.Random(3)
    with TextProbe() as probe:
        for at in [*range(60), *(rng.randrange(len(program)) for _ in range(200))]:
            flipped = bytearray(program)
            flipped[at] ^= 1 << rng.randrange(8)
            with pytest.raises(NativeError, match=r"chat_template\.program is damaged"):
                probe.use_template(bytes(flipped), source)
        probe.use_template(program, source)


def hostile_programs(count: int) -> None:
    rng = random.Random(count)
    sources = [*SOURCES.values(), *PROGRAMS, *("{{ " + one + " }}" for one in EXPRESSIONS)]
    programs = [(source, program_of(source)) for source in sources]
    talk = talks(9, seed=5)[-1]
    used = 0
    with TextProbe() as probe:
        for _ in range(count):
            source, program = rng.choice(programs)
            try:
                hostile = sealed(damaged(program, rng, rng.choice((40, 56))), source)
                probe.use_template(hostile, source)
                probe.render(talk)
                used += 1
            except NativeError as error:
                if error.code not in ERRORS:
                    raise
    assert 0 < used < count
