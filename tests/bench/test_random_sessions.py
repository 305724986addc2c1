"""Random sessions: which budgets and drafters they get."""

from __future__ import annotations

import pytest

from edgedec.bench.studies import random_sessions as study
from edgedec.bench.studies.random_sessions import RandomSession, SessionsStudy, random_sessions
from edgedec.core.progress import silent


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

    monkeypatch.setattr(study, "_budgets", budgets)
    monkeypatch.setattr(study, "_run", ran)
    found = random_sessions(SessionsStudy("tiny", ["auto", "head,exit", "auto"], 40), silent)
    assert asked == ["auto", "head,exit"]
    most = {"auto": 0, "head,exit": 0}
    for run in found.sessions:
        draft = run.options[run.options.index("--draft") + 1]
        least, highest = ranges[draft]
        assert least <= run.budget <= highest
        most[draft] = max(most[draft], run.budget)
    assert most["auto"] > 150
    assert most["head,exit"] > 2500
