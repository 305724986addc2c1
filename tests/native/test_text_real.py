"""text/: the engine beside the tokenizers library, with a hundred thousand texts for each installed model."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgedec.bundle.manifest import Manifest, TokenizerInfo
from edgedec.core.errors import NotFoundError
from edgedec.models import Store
from edgedec.native.text_probe import TextProbe
from edgedec.text.encoder import LibraryEncoder
from edgedec.text.table_encoder import open_encoder
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures.real_models import REAL_MODELS
from tests.text.multilingual import SENTENCES, WHITE_SPACE, hard_texts, mixtures

pytestmark = pytest.mark.slow

COUNT = 100_000


@pytest.fixture(params=REAL_MODELS)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, TokenizerInfo]:
    """A copy of an installed model's tokenizer; the model's folder is not written to."""
    try:
        installed = Store().path(request.param)
    except NotFoundError:
        pytest.skip(f"the real model is not installed: edgedec pull {request.param}")
    shutil.copy(installed / "tokenizer.json", tmp_path)
    return tmp_path, Manifest.load(installed).tokenizer


def texts(control: list[str], vocabulary: list[str], count: int = COUNT) -> Iterator[str]:
    """Mixtures of sentences, and soups of words, tokens, code, white space, emoji and any characters."""
    yield from hard_texts()
    yield from mixtures(count // 2, seed=31)
    rng = random.Random(32)
    words = [word for sentence in SENTENCES for word in sentence.split()]
    emoji = ("👩‍👩‍👧‍👦", "👍🏽", "🏳️‍🌈", "🇫🇷", "e\u0301", "\u1112\u1161\u11ab", "\u0f71\u0f74")
    marks = [chr(code) for code in range(0x300, 0x370)]
    code = ("def f(x):\n    ", "    return ", "0x1F", "1234567", "{};\n\n\t", "'re", "I'LL")
    pools = (words, control, vocabulary, WHITE_SPACE, emoji, marks, code)
    codes = [*range(0xD800), *range(0xE000, 0x30000)]
    for _ in range(count // 2):
        parts = [rng.choice(rng.choice(pools)) for _ in range(rng.randint(1, 12))]
        if rng.random() < 0.3:
            parts.append("".join(chr(code) for code in rng.choices(codes, k=5)))
        rng.shuffle(parts)
        yield rng.choice(("", " ")).join(parts)


def test_tokens_and_streams_are_those_of_the_library(model: tuple[Path, TokenizerInfo]) -> None:
    from tokenizers import Tokenizer as Library

    bundle, info = model
    tokenizer = Tokenizer(open_encoder(bundle), info)
    library = LibraryEncoder(Library.from_buffer((bundle / "tokenizer.json").read_bytes()))
    control = [token.content for token in library.added.values()]
    vocabulary = [tokenizer.decode([token]) for token in range(0, tokenizer.size, 7)]
    with TextProbe(str(bundle / "tokenizer.table"), spm=info.kind == "spm") as probe:
        for number, text in enumerate(texts(control, vocabulary)):
            specials = bool(number % 2)
            ids = library.encode(text, parse_special=specials)
            assert probe.encode(text.encode(), specials=specials) == ids, (specials, text)
            if number % 10 == 0:
                pieces = probe.ask("stream", ids=ids, characters=True)["pieces"]
                assert "".join(pieces) == tokenizer.decode(ids)
