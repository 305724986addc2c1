"""The tables of installed models against the tokenizers library, and the memory of plain decoding."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from edgedec.core.errors import NotFoundError
from edgedec.models import Store
from edgedec.text.encoder import LibraryEncoder
from edgedec.text.table_encoder import TableEncoder, open_encoder
from tests.fixtures.real_models import REAL_MODELS
from tests.text.multilingual import hard_texts, mixtures

pytestmark = pytest.mark.slow

MOST_BYTES = {"smollm2-135m": 170_000_000, "gemma3-270m": 330_000_000}
"""Most that plain decoding may have resident, with the default context and a short prompt."""


def installed(name: str) -> Path:
    try:
        return Store().path(name)
    except NotFoundError:
        pytest.skip(f"the real model is not installed: edgedec pull {name}")


@pytest.mark.parametrize("name", REAL_MODELS)
def test_a_table_has_the_ids_of_the_library(name: str) -> None:
    from tokenizers import Tokenizer as Library

    bundle = installed(name)
    encoder = open_encoder(bundle)
    assert isinstance(encoder, TableEncoder)
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
