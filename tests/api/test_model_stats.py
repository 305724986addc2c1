"""``Model.stats`` and ``Model.plan``: what a caller may know of a running model without its parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgedec.core.errors import UsageError
from tests.api.opening import opened

TEXT = "Once upon a time, once upon a"


def test_they_are_the_figures_of_the_parts(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, tmp_path, draft="auto", memory="1GB") as model:
        reply = model.complete(TEXT * 3, max_tokens=24)
        reply.read()
        stats, runner = model.stats(reply), model.single
        assert runner.engine.speculation
        assert dict(stats.nbytes) == runner.forward.nbytes()
        assert (stats.kv, stats.context, stats.threads) == ("fp16", 256, 1)
        assert stats.drafts
        assert stats.drafts.names == runner.engine.speculation.drafters == ("lookup", "recycling")
        assert stats.drafts.tally == runner.engine.speculation.tally
        assert stats.reply
        assert reply.marks
        energy = runner.measures.energy(reply.marks, reply.stats)
        assert stats.reply.as_json()["energy"] == energy.as_json()
        assert runner.budget
        assert stats.plan == model.plan()
        assert stats.plan
        assert stats.plan.as_json()["parts"] == runner.budget.plan.parts
        assert stats.plan.overrun == 0
        json.dumps(stats.as_json())


def test_they_stay_as_they_are_when_the_model_goes_on(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, tmp_path, draft="auto") as model:
        before = model.stats()
        assert before.drafts
        assert before.reply is None
        model.complete(TEXT, max_tokens=24).read()
        after = model.stats()
        assert after.drafts
        assert before.drafts.tally.rounds == 0 < after.drafts.tally.rounds


def test_nothing_drafts_and_nothing_is_planned(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, tmp_path) as model:
        assert model.stats().drafts is None
        assert model.plan() is None
        assert model.stats().as_json()["draft"] == []
        assert "memory" not in model.stats().as_json()


def test_several_conversations_have_a_plan_and_no_stats_of_one(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, tmp_path, conversations=2, memory="600MB") as model:
        plan = model.plan()
        assert plan
        assert plan.planned <= plan.budget == 600_000_000
        with pytest.raises(UsageError, match="opened for 2 conversations"):
            model.stats()
