"""Random sessions keep to their budgets: a few on a tiny model, and with ``-m slow`` many on a real one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fixtures.tiny_models import tiny_bundle
from tests.soak.sessions import SessionsReport, SessionsStudy, random_sessions

DRAFTS = ("auto", "lookup", "recycling", "off")


def check(found: SessionsReport) -> None:
    """No session went over its budget or failed, and plans are not far from peaks."""
    assert not [one for one in found.sessions if one.over or one.killed]
    assert not [one for one in found.sessions if one.failed]
    assert found.ratios, "no session filled its context"
    assert 0.85 < found.ratios[0] <= found.ratios[-1] <= 1.0, found.ratios


def test_a_few_of_a_model_that_is_next_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEDEC_HOME", str(tmp_path / "home"))
    found = random_sessions(SessionsStudy(str(tiny_bundle(tmp_path)), DRAFTS, 4, seed=2, longest=256))
    assert len(found.sessions) == 4
    check(found)


@pytest.mark.slow
def test_many_of_a_real_model() -> None:
    model = os.environ.get("EDGEDEC_SOAK_MODEL", "smollm2-135m")
    count, seed = (int(os.environ.get(f"EDGEDEC_SOAK_{name}", usual)) for name, usual in
                   (("SESSIONS", "50"), ("SEED", "0")))  # fmt: skip
    check(random_sessions(SessionsStudy(model, DRAFTS, count, seed)))
