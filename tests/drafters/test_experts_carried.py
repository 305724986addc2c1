"""Drafters of the makers of models with experts draft unnamed, also where experts come from the disk."""

from __future__ import annotations

import pytest

from edgedec.backends.onnx import expert_store
from edgedec.core.drafter_manifest import ASSISTANT
from tests.fixtures.carried import PLACES, Place
from tests.fixtures.replies import always, check_replies, check_turns

TARGETS = {ASSISTANT: "gemma4moe"}


@pytest.fixture(scope="module", params=TARGETS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return PLACES[request.param](tmp_path_factory.mktemp(request.param), TARGETS[request.param])


@pytest.mark.parametrize("on_disk", [False, True])
def test_it_drafts_unnamed_and_replies_are_those_without_drafts(
    place: Place, on_disk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = place.runner("off").engine
    if on_disk:
        monkeypatch.setattr(expert_store, "available_bytes", lambda: 1)
    runner = place.runner("auto")
    assert (runner.prepared.target.backend.experts is not None) == on_disk
    assert place.kind in [spec.name for spec in runner.drafting.drafters]
    drafted = runner.engine
    assert drafted.speculation
    with always(drafted):
        check_replies(plain, drafted)
        check_turns(plain, drafted, 1)
    assert drafted.speculation.tally.by_drafter[place.kind].bytes_read > 0
    assert not any("runs without" in line for line in place.said)
