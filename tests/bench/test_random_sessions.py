"""Random sessions: which budgets and drafters they get."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.bench.harness.saved_lines import SavedLines
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


def test_sessions_go_on_from_a_file_where_they_were_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[int] = []

    def run(model: str, budget: int, options: tuple[str, ...], *rest: object) -> RandomSession:
        if len(ran) == 3:
            raise KeyboardInterrupt
        ran.append(budget)
        return RandomSession(options, budget, 0, budget, budget - 1, 0.5, ("a shorter context",))

    monkeypatch.setattr(study, "_budgets", lambda model, draft: (100.0, 10_000.0))
    monkeypatch.setattr(study, "_run", run)
    asked, file = SessionsStudy("tiny", ["auto"], 6), tmp_path / "sessions.jsonl"
    with pytest.raises(KeyboardInterrupt):
        random_sessions(asked, silent, SavedLines({"seed": 0}, file))
    first = list(ran)
    ran.clear()
    found = random_sessions(asked, silent, SavedLines({"seed": 0}, file))
    assert [one.budget for one in found.sessions] == first + ran
    assert len(ran) == 3
    assert found.sessions[0].given_up == ("a shorter context",)
    assert found.sessions == random_sessions(asked, silent, SavedLines({"seed": 0}, file)).sessions
