"""Tokenizers of real models in the library as an app has it, in qemu: the ids and texts of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.bundle.manifest import Manifest
from edgedec.models import Store
from edgedec.text.tokenizer import Tokenizer
from tests.android.arm_engine import ArmRuns
from tests.fixtures.real_models import REAL_MODELS
from tests.kernels.arm import needs_arm
from tests.native.test_text_real import texts

COUNT = 4000

pytestmark = [needs_arm, pytest.mark.slow]


@pytest.fixture(params=REAL_MODELS)
def folder(request: pytest.FixtureRequest) -> Path:
    """The model's folder; pulls the model when it is missing."""
    return Store().ensure(request.param)


def test_texts_become_the_ids_of_x86_and_come_back(folder: Path) -> None:
    tokenizer = Tokenizer.load(folder, Manifest.load(folder).tokenizer)
    control = list(tokenizer.control_ids())
    vocabulary = [tokenizer.decode([token]) for token in range(0, tokenizer.size, 7)]
    seen = 0
    with ArmRuns(folder, "cortex-a76") as phone:
        for number, text in enumerate(texts(control, vocabulary, COUNT)):
            specials = bool(number % 2)
            ids = tokenizer.encode(text, parse_special=specials)
            assert phone.encode(text.encode(), specials=specials) == ids, (specials, text)
            assert phone.decode(ids).decode() == tokenizer.decode(ids), (specials, text)
            seen += len(ids)
        assert seen > 10 * COUNT
        whole = [*range(tokenizer.size)]
        assert phone.decode(whole).decode() == tokenizer.decode(whole)
