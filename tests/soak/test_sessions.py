"""Random sessions keep to their budgets: a few on a tiny model, and with ``-m slow`` many on a real one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fixtures.tiny_models import tiny_bundle
from tests.soak import sessions
from tests.soak.sessions import RandomSession, SessionsReport, SessionsStudy, random_sessions

DRAFTS = ("auto", "lookup", "recycling", "off")


def check(found: SessionsReport) -> None:
    """No session went over its budget or failed, and plans are not far from peaks."""
    assert not [one for one in found.sessions if one.over or one.killed]
    assert not [one for one in found.sessions if one.failed]
    assert found.ratios, "no session filled its context"
    assert 0.85 < found.ratios[0] <= found.ratios[-1] <= 1.0, found.ratios


def test_a_few_of_a_model_that_is_next_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEDEC_HOME", str(tmp_path / "home"))
    found = random_sessions(SessionsStudy(str(tiny_bundle(tmp_path)), DRAFTS, 6, seed=2, longest=256))
    assert len(found.sessions) == 6
    check(found)


@pytest.mark.slow
def test_many_of_a_real_model() -> None:
    model = os.environ.get("EDGEDEC_SOAK_MODEL", "smollm2-135m")
    count, seed = (int(os.environ.get(f"EDGEDEC_SOAK_{name}", usual)) for name, usual in
                   (("SESSIONS", "50"), ("SEED", "0")))  # fmt: skip
    check(random_sessions(SessionsStudy(model, DRAFTS, count, seed)))


def test_budgets_reach_up_to_the_plan_with_the_drafters_of_each_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranges = {"auto": (100.0, 200.0), "head,exit": (100.0, 5000.0)}
    asked: list[str] = []

    def budgets(model: str, draft: str) -> tuple[float, float]:
        asked.append(draft)
        return ranges[draft]

    def ran(model: str, budget: int, options: tuple[str, ...], *rest: object) -> RandomSession:
        return RandomSession(options, budget, 0)

    monkeypatch.setattr(sessions, "_budgets", budgets)
    monkeypatch.setattr(sessions, "_run", ran)
    found = random_sessions(SessionsStudy("tiny", ["auto", "head,exit", "auto"], 40))
    assert asked == ["auto", "head,exit"]
    most = {"auto": 0, "head,exit": 0}
    for run in found.sessions:
        draft = run.options[run.options.index("--draft") + 1]
        least, highest = ranges[draft]
        assert least <= run.budget <= highest
        most[draft] = max(most[draft], run.budget)
    assert most["auto"] > 150
    assert most["head,exit"] > 2500


@pytest.mark.parametrize(
    "bad",
    [
        RandomSession((), 100, 0, 100, 101, 1.0),
        RandomSession((), 100, 10, kills=1),
        RandomSession((), 100, 1),
    ],
    ids=["over", "killed", "failed"],
)
def test_what_went_wrong_is_found(bad: RandomSession) -> None:
    good = RandomSession((), 100, 0, 100, 96, 1.0)
    check(SessionsReport("tiny", "", [good]))
    with pytest.raises(AssertionError):
        check(SessionsReport("tiny", "", [good, bad]))
