"""Models with recurrent layers: replies with drafts are those without, also after rewinds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.runner import Runner
from edgedec.decode.engine import Engine
from edgedec.export import export_gguf
from edgedec.sampling import DrawParams
from tests.fixtures.nightly import diagonal
from tests.fixtures.replies import always, reply
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import HYBRIDS, DeltaShape
from tests.fixtures.tiny_models import prepared_run

PROMPT = [5, 6, 7, 8, 9, 10, 11, 5, 6, 7, 8]
CONTEXT = 256
GREEDY = DrawParams()
SAMPLED = DrawParams(temperature=1.5, top_k=8, seed=3)
PENALISED = DrawParams(temperature=1.0, top_k=5, repetition_penalty=1.1, seed=4)


class Place:
    """A model with recurrent layers, and a coarser copy of it that drafts."""

    def __init__(self, architecture: str, folder: Path) -> None:
        delta = DeltaShape(nextn=int(architecture == "qwen35"))
        self.architecture = architecture
        self.bundle = self._made(folder / "large", TinyShape(layers=5, context=CONTEXT, delta=delta), "q8_0")
        self.small = self._made(folder / "small", TinyShape(layers=5, context=CONTEXT, delta=delta), "q5_0")

    def _made(self, folder: Path, shape: TinyShape, formats: str) -> Path:
        """A model that says few different tokens, so that drafts are often right."""
        folder.mkdir()
        gguf = write_tiny(
            folder / "model.gguf",
            self.architecture,
            shape=shape,
            formats=formats,
            mute=tuple(range(24, 260)),
            sharpness=4.0,
        )
        export_gguf(gguf, folder / "bundle", backend="edgedec")
        return folder / "bundle"

    def engine(self, draft: str) -> Engine:
        config = RunConfig(draft=draft, threads=1, context=CONTEXT)
        models = {"small": self.small} if "small" in draft else {}
        return Runner(prepared_run(self.bundle, config, None, **models)).engine


@pytest.fixture(scope="module", params=HYBRIDS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(request.param, tmp_path_factory.mktemp(request.param))


WAYS = ("lookup", "recycling", "lookup,recycling", "small", "lookup,small")


@pytest.mark.parametrize(("draft", "params"), diagonal(WAYS, (GREEDY, SAMPLED, PENALISED)), ids=str)
def test_replies_are_those_without_drafts(place: Place, draft: str, params: DrawParams) -> None:
    plain, drafted = place.engine("off"), place.engine(draft)
    assert drafted.speculation
    with always(drafted):
        said = reply(plain, PROMPT, params, 60)
        assert reply(drafted, PROMPT, params, 60) == said
        longer = [*PROMPT, *said[:20], 3, 4, 5]  # a turn that keeps some and changes the rest
        assert reply(drafted, longer, params, 60) == reply(plain, longer, params, 60)
    tally = drafted.speculation.tally
    assert tally.drafted > (5 if draft == "lookup" else 100)


def test_random_conversations_that_rewind_are_those_without_drafts(place: Place) -> None:
    plain, drafted = place.engine("off"), place.engine("lookup,recycling")
    draw, text = random.Random(1), list(PROMPT)
    with always(drafted):
        for turn in range(25):
            text = [*text[: draw.randrange(1, len(text) + 1)], *(draw.randrange(200) for _ in range(3))][:180]
            params = DrawParams(temperature=draw.choice([0.0, 0.9]), seed=turn)
            said = reply(plain, text, params, 12)
            assert reply(drafted, text, params, 12) == said
            if turn % 8 == 0:  # as one that has read nothing before
                assert reply(place.engine("off"), text, params, 12) == said
            text += said


def test_the_layer_for_further_tokens_drafts(tmp_path: Path) -> None:
    place = Place("qwen35", tmp_path)
    plain, drafted = place.engine("off"), place.engine("mtp,lookup")
    assert drafted.speculation
    assert "mtp" in drafted.speculation.drafters
    with always(drafted):
        for params in (GREEDY, SAMPLED):
            assert reply(drafted, PROMPT, params, 60) == reply(plain, PROMPT, params, 60)
    assert drafted.speculation.tally.by_drafter["mtp"].bytes_read > 0
