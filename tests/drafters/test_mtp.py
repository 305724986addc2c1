"""MTP layers in the bundles of real tiny models: their caches and trimmed heads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgedec.core_lib.promises import first_ids
from edgedec.draft.mtp import MtpDrafter
from edgedec.drafters import trim
from edgedec.drafters.trim import SAVED, ends_of, save_trim
from tests.fixtures.carried import MtpPlace
from tests.fixtures.replies import GREEDY, PROMPT, SAMPLED, always, reply


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> MtpPlace:
    return MtpPlace(tmp_path_factory.mktemp("mtp"))


def test_its_cache_keeps_step_with_the_targets(place: MtpPlace) -> None:
    runner = place.runner(context=400)
    assert runner.engine.speculation
    (drafter,) = runner.engine.speculation._places.values()
    assert isinstance(drafter, MtpDrafter)
    with always(runner.engine):
        reply(runner.engine, [index % 200 for index in range(350)], GREEDY, 30)
    assert drafter.layer.length > 350  # every position: it began with the first one


def test_a_trimmed_head_of_the_target_is_its_own(tmp_path: Path) -> None:
    place = MtpPlace(tmp_path)
    kept = np.array(sorted({*ends_of(place.manifest), *range(100)}), dtype=np.int64)
    save_trim(place.manifest, place.home, kept, {SAVED: 0.3})
    plain, runner = place.runner("off").engine, place.runner()
    assert runner.engine.speculation
    (drafter,) = runner.engine.speculation._places.values()
    assert isinstance(drafter, MtpDrafter)
    with always(runner.engine):
        drafter.begin(PROMPT, 0)
        assert reply(runner.engine, PROMPT, SAMPLED) == reply(plain, PROMPT, SAMPLED)
    assert drafter.layer.keep is None or drafter.layer.keep.size >= kept.size
    assert drafter.nbytes() >= kept.nbytes


def test_the_head_of_a_large_vocabulary_is_trimmed_to_first_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, chosen = MtpPlace(tmp_path), 100
    monkeypatch.setattr(trim, "first_ids", lambda own, head, vocabulary: chosen)
    plain, runner = place.runner("off").engine, place.runner()
    assert runner.engine.speculation
    (drafter,) = runner.engine.speculation._places.values()
    assert isinstance(drafter, MtpDrafter)
    drafter.begin(PROMPT, 0)
    drafter.read(0, np.ones((len(PROMPT) - 1, drafter.layer.sizes.width), np.float32))
    drafter.propose(1)
    assert drafter.layer.keep is not None
    assert drafter.layer.keep.tolist() == sorted({*range(chosen), *ends_of(place.manifest), *PROMPT})
    with always(runner.engine):
        assert reply(runner.engine, PROMPT, SAMPLED) == reply(plain, PROMPT, SAMPLED)


@pytest.mark.parametrize(
    ("own", "head", "whole", "ids"),
    [(0.012, 0.27, 0.55, 16_384), (0.064, 0.675, 2.6, 32_768), (0.1, 0.5, 20.0, 65_536)],
    ids=["0.8B", "4B", "larger"],
)
def test_a_small_model_has_a_smaller_head(own: float, head: float, whole: float, ids: int) -> None:
    """Gigabytes of the layer, of the model's head and of a pass."""
    assert first_ids(own / whole, head / whole, 248_320) == ids
    assert first_ids(own / whole, head / whole, 16_000) == 0
