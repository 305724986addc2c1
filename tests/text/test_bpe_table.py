"""A mapped table gives the ids of the library for every file that it can hold; damage is one line."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgedec.core.errors import BadFileError, StorageError
from edgedec.disk.files import sha256_of
from edgedec.export.tokenizer.pretokenizers import PRE_TOKENIZERS
from edgedec.text import table_encoder
from edgedec.text.bpe_table import FILE_NAME, HEADER, BpeTable
from edgedec.text.encoder import LibraryEncoder
from edgedec.text.table_encoder import Encoder, open_encoder, reason_for_no_table
from tests.fixtures.tiny_tokenizers import bpe_metadata, built, library_of, spm_metadata
from tests.text.multilingual import hard_texts, mixtures

WORDS = {
    **{"▁": -1.0, "a": -2.0, "▁a": -0.5, "an": -0.6, "n": -2.0, "▁an": -0.4, "▁▁": -0.8},
    **{"é": -3.0, "日": -3.0, "日本": -0.9, "本": -3.0, "aa": -0.7, "aaaa": -0.65},
}
Document = dict[str, Any]
ADDED = ("<|im_end|>", "<|im_", "<tool>", "<eos>", "<bos>", "\n\n", "[PAD4]", "the", " the ", "▁a")


def bpe(folder: Path, change: Callable[[Document], object] | None = None, **metadata: Any) -> Encoder:
    built(folder, bpe_metadata(**metadata))
    return changed(folder, change)


def spm(folder: Path, change: Callable[[Document], object] | None = None, **metadata: Any) -> Encoder:
    built(folder, spm_metadata(WORDS, **metadata))
    return changed(folder, change)


def changed(folder: Path, change: Callable[[Document], object] | None) -> Encoder:
    path = folder / "tokenizer.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    if change:
        change(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    return open_encoder(folder)


def soups(count: int, seed: int = 1) -> list[str]:
    """Texts of added tokens, spaces of all kinds, words, and characters from everywhere."""
    rng = random.Random(seed)
    parts = (
        *ADDED,
        " ",
        "  ",
        "\t",
        "\n",
        "\u3000",
        "\u00a0",
        "\u2028",
        "a",
        "an",
        "hello",
        "é",
        "日本",
        "<",
        "1",
    )
    texts = ["".join(rng.choices(parts, k=rng.randint(1, 30))) for _ in range(count)]
    codes = [*range(0x80), *range(0x80, 0xD800, 91), *range(0xE000, 0x110000, 997)]
    return texts + ["".join(chr(rng.choice(codes)) for _ in range(rng.randint(1, 60))) for _ in range(count)]


def long_runs() -> list[str]:
    rng = random.Random(2)
    runs = [char * n for char in ("a", " ", "\n", "é", "🙂", "日") for n in (47, 48, 49, 50, 700)]
    return [*runs, "".join(rng.choices("an▁ helo", k=5000)), "ab" * 2000]


def assert_same(encoder: Encoder, folder: Path, texts: list[str]) -> None:
    """The table, not the library, and the same in everything that a tokenizer asks for."""
    library = LibraryEncoder(library_of(folder))
    assert isinstance(encoder, BpeTable)
    for text in texts:
        for special in (False, True):
            expected = library.encode(text, parse_special=special)
            assert encoder.encode(text, parse_special=special) == expected, (special, text)
    assert (encoder.size, encoder.facts, encoder.added) == (library.size, library.facts, library.added)
    assert encoder.vocabulary() == library.vocabulary()
    for token in range(-1, encoder.ids + 2):
        spelled = library.spelling(token) if token >= 0 else None
        assert encoder.spelling(token) == spelled
        assert encoder.added_token(token) == library.added_token(token)
        if spelled is not None:
            assert encoder.id_of(spelled) == token
    assert [encoder.id_of(text) for text in ("", "nowhere", "\ud800", "\x00")] == [
        None,
        None,
        None,
        library.id_of("\x00"),
    ]


@pytest.mark.parametrize("name", ["qwen2", "smollm", "llama-bpe", "gpt-4o", "deepseek-v3"])
def test_byte_level_bpe(name: str, tmp_path: Path) -> None:
    assert name in PRE_TOKENIZERS
    assert_same(bpe(tmp_path, pre=name), tmp_path, [*hard_texts(), *mixtures(60), *soups(150), *long_runs()])


def metaspace(scheme: str, split: bool) -> Callable[[Document], object]:
    step = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}
    return lambda document: document.update(normalizer=None, pre_tokenizer=step)


@pytest.mark.parametrize("prefix", [False, True])
def test_sentencepiece_by_a_normaliser(prefix: bool, tmp_path: Path) -> None:
    encoder = spm(tmp_path, add_space_prefix=prefix)
    assert_same(encoder, tmp_path, [*hard_texts(), *mixtures(60), *soups(150), *long_runs()])


@pytest.mark.parametrize("scheme", ["first", "always", "never"])
@pytest.mark.parametrize("split", [False, True])
def test_sentencepiece_by_a_pretokeniser(scheme: str, split: bool, tmp_path: Path) -> None:
    encoder = spm(tmp_path, metaspace(scheme, split))
    assert_same(encoder, tmp_path, [*hard_texts(), *soups(150), *long_runs()])


FLAGS = ("lstrip", "rstrip", "normalized")


@pytest.mark.parametrize("number", range(1, 8))
@pytest.mark.parametrize("make", [bpe, spm])
def test_added_tokens_with_flags(make: Callable[..., Encoder], number: int, tmp_path: Path) -> None:
    def change(document: Document) -> None:
        for at, token in enumerate(document["added_tokens"]):
            token |= {flag: bool((number + at) >> bit & 1) for bit, flag in enumerate(FLAGS)}

    assert_same(make(tmp_path, change), tmp_path, [*hard_texts(), *soups(150)])


CHANGES: dict[str, Callable[[Document], object]] = {
    "whole words first": lambda d: d["model"].update(ignore_merges=True, merges=d["model"]["merges"][:3]),
    "unknown ones are left out": lambda d: d["model"].update(byte_fallback=False, unk_token=None),
    "unknown ones": lambda d: d["model"].update(byte_fallback=False, unk_token="<unk>", fuse_unk=False),
    "fused unknown ones": lambda d: d["model"].update(byte_fallback=False, unk_token="<unk>", fuse_unk=True),
    "a merge twice": lambda d: d["model"]["merges"].append(d["model"]["merges"][0]),
    "no merges": lambda d: d["model"].update(merges=[]),
    "composed": lambda d: d.update(normalizer={"type": "NFC"}),
    "composed twice": lambda d: d.update(
        normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "NFC"}]}
    ),
    "spaces with the word before": lambda d: d.update(pre_tokenizer=at_spaces("MergedWithPrevious")),
    "spaces with the word behind": lambda d: d.update(pre_tokenizer=at_spaces("MergedWithNext")),
    "spaces removed": lambda d: d.update(pre_tokenizer=at_spaces("Removed")),
    "spaces together": lambda d: d.update(pre_tokenizer=at_spaces("Contiguous")),
    "all but spaces together": lambda d: d.update(pre_tokenizer=at_spaces("Contiguous", invert=True)),
    "digits apart": lambda d: d.update(pre_tokenizer={"type": "Digits", "individual_digits": True}),
    "digits together": lambda d: d.update(pre_tokenizer={"type": "Digits", "individual_digits": False}),
}


def at_spaces(behaviour: str, *, invert: bool = False) -> Document:
    return {"type": "Split", "pattern": {"String": "▁"}, "behavior": behaviour, "invert": invert}


@pytest.mark.parametrize("name", CHANGES)
def test_other_rules(name: str, tmp_path: Path) -> None:
    encoder = spm(tmp_path, CHANGES[name])
    assert_same(encoder, tmp_path, [*hard_texts(), *mixtures(60), *soups(150), *long_runs()])


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.text() | st.text(alphabet="an▁ <|>im_end\n日"))
def test_any_text(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    for make in (bpe, spm):
        folder = tmp_path_factory.getbasetemp() / make.__name__
        if not folder.exists():
            folder.mkdir()
            make(folder)
        assert_same_ids(folder, text)


def assert_same_ids(folder: Path, text: str) -> None:
    library = LibraryEncoder(library_of(folder))
    for special in (False, True):
        found = open_encoder(folder).encode(text, parse_special=special)
        assert found == library.encode(text, parse_special=special)


OTHERS: dict[str, Callable[[Document], object]] = {
    "lower case": lambda d: d.update(normalizer={"type": "Lowercase"}),
    "words behind a space": lambda d: d.update(
        pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    ),
    "an expression with a loop": lambda d: d.update(
        pre_tokenizer={
            "type": "Split",
            "pattern": {"Regex": "(an)+"},
            "behavior": "Isolated",
            "invert": False,
        }
    ),
    "dropout": lambda d: d["model"].update(dropout=0.1),
    "suffixes": lambda d: d["model"].update(end_of_word_suffix="</w>", merges=[]),
    "whole words": lambda d: d["added_tokens"][0].update(single_word=True),
    "truncation": lambda d: d.update(
        truncation={"max_length": 3, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    ),
    "words": lambda d: d.update(
        model={"type": "WordLevel", "vocab": {"<unk>": 0, "a": 1}, "unk_token": "<unk>"}
    ),
    "unigram": lambda d: d.update(
        model={"type": "Unigram", "vocab": [["<unk>", 0.0], ["a", -1.0]], "unk_id": 0}
    ),
    "two tokens, one id": lambda d: d["model"]["vocab"].update(twin=d["model"]["vocab"]["a"]),
}


REASONS = {
    "lower case": "the normaliser 'Lowercase'",
    "words behind a space": "the pre-tokeniser 'ByteLevel'",
    "an expression with a loop": "'(an)+' (a group that is repeated)",
    "suffixes": "ends of words",
    "truncation": "truncates",
    "words": "WordLevel",
    "unigram": "Unigram",
    "two tokens, one id": "two spellings",
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_kinds_stay_with_the_library(name: str, tmp_path: Path) -> None:
    encoder = spm(tmp_path, OTHERS[name])
    assert isinstance(encoder, LibraryEncoder)
    encoder.encode("a an", parse_special=False)
    assert REASONS.get(name, name) in (reason_for_no_table(tmp_path) or "")


def test_a_table_is_made_once_and_again_for_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bpe(tmp_path)
    before = (tmp_path / FILE_NAME).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(table_encoder, "_library_encoder", None)
        assert isinstance(open_encoder(tmp_path), BpeTable)
    encoder = changed(tmp_path, lambda d: d["model"].update(merges=[]))
    assert (tmp_path / FILE_NAME).read_bytes() != before
    assert_same(encoder, tmp_path, hard_texts())


def test_a_hash_that_is_known_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bpe(tmp_path)
    known = sha256_of(tmp_path / "tokenizer.json")
    monkeypatch.setattr(table_encoder, "sha256_of", None)
    assert isinstance(open_encoder(tmp_path, known), BpeTable)


def test_where_no_table_can_be_written_the_library_encodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(target: Path) -> None:
        raise StorageError(f"no permission to write {target}")

    monkeypatch.setattr(table_encoder, "atomic_path", refused)
    built(tmp_path, bpe_metadata())
    assert isinstance(open_encoder(tmp_path), LibraryEncoder)
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.json"]


def test_encoding_needs_no_library(tmp_path: Path) -> None:
    spm(tmp_path)
    lines = (
        "import sys",
        "from pathlib import Path",
        "from edgedec.text.table_encoder import Encoder, open_encoder",
        f"assert open_encoder(Path({str(tmp_path)!r})).encode('a an', parse_special=False)",
        "assert 'tokenizers' not in sys.modules",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)


def test_an_encoder_is_used_again_after_short_texts_only(tmp_path: Path) -> None:
    encoder = bpe(tmp_path)
    assert isinstance(encoder, BpeTable)
    texts = [*soups(20), "x" * 5000, "the end"]
    first = [encoder.encode(text, parse_special=False) for text in texts]
    assert len(encoder._idle) == 1
    again = [BpeTable(tmp_path / FILE_NAME).encode(text, parse_special=False) for text in texts]
    assert first == again
    encoder.encode("x" * 5000, parse_special=False)
    assert not encoder._idle


def test_threads_encode_at_the_same_time(tmp_path: Path) -> None:
    encoder, texts = bpe(tmp_path), soups(30)
    expected = [encoder.encode(text, parse_special=False) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda text: encoder.encode(text, parse_special=False), texts * 8)
        assert list(found) == expected * 8


def test_a_piece_of_a_million_characters_is_not_quadratic(tmp_path: Path) -> None:
    encoder = spm(tmp_path)
    text = "an a" * 250_000
    ids = encoder.encode(text, parse_special=False)
    assert "".join(encoder.spelling(token) or "" for token in ids) == text.replace(" ", "▁")


def with_checksum(content: bytes) -> bytes:
    return content[:8] + zlib.crc32(content[12:]).to_bytes(4, "little") + content[12:]


@pytest.mark.parametrize("make", [bpe, spm])
def test_a_truncated_table_is_one_line_and_made_again(make: Callable[..., Encoder], tmp_path: Path) -> None:
    make(tmp_path)
    path = tmp_path / FILE_NAME
    content = path.read_bytes()
    for length in [*range(0, HEADER.size + 9), *range(HEADER.size, len(content), 997)]:
        for cut in (content[:length], with_checksum(content[:length]) if length > 12 else b""):
            path.write_bytes(cut)
            with pytest.raises(BadFileError, match=r"tokenizer\.table of the bundle is damaged"):
                BpeTable(path)
    assert isinstance(open_encoder(tmp_path), BpeTable)
    assert path.read_bytes() == content


@pytest.mark.parametrize("make", [bpe, spm])
def test_a_flipped_byte_is_noticed(make: Callable[..., Encoder], tmp_path: Path) -> None:
    make(tmp_path)
    path = tmp_path / FILE_NAME
    content = path.read_bytes()
    for at in range(0, len(content), 101):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(BadFileError):
            BpeTable(path)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("make", [bpe, spm])
def test_a_hostile_table_gives_ids_or_one_line(
    make: Callable[..., Encoder], seed: int, tmp_path: Path
) -> None:
    """Its checksum is right, and its numbers are anything."""
    make(tmp_path)
    path, rng = tmp_path / FILE_NAME, random.Random(seed)
    content = path.read_bytes()
    texts, refused = [*soups(6, seed), "an" * 60], 0
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(rng.choice((1, 3, 50))):
            at = rng.randrange(12, len(content) - 4) & ~3
            edge = rng.choice(
                (0, 1, 0xFF, 0xFFFFFFFF, 0x7FFFFFFF, rng.randrange(1 << 32), rng.randrange(400))
            )
            damaged[at : at + 4] = edge.to_bytes(4, "little")
        path.write_bytes(with_checksum(bytes(damaged)))
        try:
            encoder = BpeTable(path)
            for text in texts:
                encoder.encode(text, parse_special=True)
                encoder.id_of(text)
            assert len(list(encoder.spellings())) <= encoder.ids
        except BadFileError:
            refused += 1
    assert refused > 0
