"""MTP layers in the bundles of real tiny models: their caches and trimmed heads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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
    (drafter,) = runner.engine.speculation._drafters
    assert isinstance(drafter, MtpDrafter)
    with always(runner.engine):
        reply(runner.engine, [index % 200 for index in range(350)], GREEDY, 30)
    assert len(drafter._cached) > 350
    assert drafter._cached == list(range(len(drafter._cached)))


def test_a_trimmed_head_of_the_target_is_its_own(tmp_path: Path) -> None:
    place = MtpPlace(tmp_path)
    kept = np.array(sorted({*ends_of(place.manifest), *range(100)}), dtype=np.int64)
    save_trim(place.manifest, place.home, kept, {SAVED: 0.3})
    plain, runner = place.runner("off").engine, place.runner()
    assert runner.engine.speculation
    (drafter,) = runner.engine.speculation._drafters
    assert isinstance(drafter, MtpDrafter)
    with always(runner.engine):
        drafter.begin(PROMPT, 0)
        assert reply(runner.engine, PROMPT, SAMPLED) == reply(plain, PROMPT, SAMPLED)
    assert drafter._layer.keep is None or drafter._layer.keep.size == kept.size
    assert drafter.nbytes() >= kept.nbytes


def test_the_head_of_a_large_vocabulary_is_trimmed_to_its_first_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = MtpPlace(tmp_path)
    monkeypatch.setattr(trim, "FIRST_IDS", 100)
    plain, runner = place.runner("off").engine, place.runner()
    assert runner.engine.speculation
    (drafter,) = runner.engine.speculation._drafters
    assert isinstance(drafter, MtpDrafter)
    drafter.begin(PROMPT, 0)
    drafter.propose(1)
    assert drafter._layer.keep is not None
    assert drafter._layer.keep.tolist() == sorted({*range(100), *ends_of(place.manifest)})
    with always(runner.engine):
        assert reply(runner.engine, PROMPT, SAMPLED) == reply(plain, PROMPT, SAMPLED)
