"""Tokenizers of installed models: ids of the library and of llama.cpp, and the memory of plain decoding."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata

import pytest

from edgedec.bundle.manifest import Manifest
from edgedec.text.bpe_table import BpeTable
from edgedec.text.encoder import LibraryEncoder
from edgedec.text.table_encoder import open_encoder
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures.real_models import REAL_MODELS, installed
from tests.project.sources import ROOT
from tests.text.multilingual import hard_texts, mixtures

pytestmark = pytest.mark.slow

RECORDED = {"smollm2-135m": "smollm2", "qwen2.5-coder-1.5b": "qwen", "gemma3-270m": "gemma3"}
MOST_BYTES = {"smollm2-135m": 170_000_000, "gemma3-270m": 330_000_000}
"""Most that plain decoding may have resident, with the default context and a short prompt."""


@pytest.mark.parametrize("name", REAL_MODELS)
def test_a_table_has_the_ids_of_the_library(name: str) -> None:
    from tokenizers import Tokenizer as Library

    bundle = installed(name)
    encoder = open_encoder(bundle)
    assert isinstance(encoder, BpeTable)
    library = LibraryEncoder(Library.from_buffer((bundle / "tokenizer.json").read_bytes()))
    control = [token.content for token in library.added.values()][:5]
    texts = [*hard_texts(), *mixtures(300), "a" * 3000, *control, "x" + "y".join(control)]
    differ = [
        (text, specials)
        for text in texts
        for specials in (False, True)
        if encoder.encode(text, parse_special=specials) != library.encode(text, parse_special=specials)
    ]
    assert differ == []
    assert encoder.vocabulary() == library.vocabulary()


@pytest.mark.parametrize("name", MOST_BYTES)
def test_plain_decoding_stays_small(name: str) -> None:
    installed(name)
    words = ("generate", "-m", name, "--raw", "-p", "The history of the city of Rome begins", "--json")
    tail = ("--draft", "off", "--max-tokens", "32")
    peaks = []
    for _ in range(2):  # the first one may make the table
        done = subprocess.run(
            [sys.executable, "-m", "edgedec", *words, *tail], capture_output=True, text=True, check=True
        )
        peaks.append(json.loads(done.stdout)["stats"]["peak_rss_bytes"])
    assert peaks[-1] <= MOST_BYTES[name]


@pytest.mark.parametrize("name", RECORDED)
def test_ids_are_those_that_llama_cpp_gave(name: str) -> None:
    """llama.cpp composes no texts; Qwen2 was taught with composed ones, whose ids are compared."""
    bundle = installed(name)
    tokenizer = Tokenizer.load(bundle, Manifest.load(bundle).tokenizer)
    recorded = json.loads((ROOT / "tests/fixtures/tokenizer_expected.json").read_text(encoding="utf-8"))
    for text, ids in zip(recorded["texts"], recorded["ids"][RECORDED[name]], strict=True):
        if not name.startswith("qwen") or unicodedata.is_normalized("NFC", text):
            assert tokenizer.encode(text, add_bos=False, parse_special=True) == ids, text
