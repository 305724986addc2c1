"""The study of two models that take turns, and the sandbox for code that models write."""

from __future__ import annotations

import pytest

from edgedec.bench.harness.code_problems import CODE_PROBLEMS
from edgedec.bench.harness.sandbox import code_of, passes
from edgedec.bench.plots.switching import draw_calibration, draw_sides
from edgedec.bench.studies.switching import (
    LARGE,
    SMALL,
    SwitchJournal,
    SwitchProblem,
    SwitchStudy,
    code_problems,
    wilson,
)
from edgedec.control.switching import SwitchRule
from edgedec.core.errors import BadFileError, UsageError
from edgedec.switch.traces import CalibrationPoint
from tests.switch.test_assembly import folder, opened  # noqa: F401 - a fixture

OFTEN = SwitchRule(7.4, 7.4, window=1, least_run=2)


def test_code_stands_in_the_first_fence_or_is_all_of_the_reply():
    assert code_of("Sure:\n```python\nx = 1\n```\nor\n```\nx = 2\n```") == "x = 1\n"
    assert code_of("```py\nx = 1") == "x = 1"
    assert code_of("x = 1") == "x = 1"


def test_the_sandbox_tells_right_code_from_wrong():
    assert passes("def f(x):\n    return x + 1", ["f(1) == 2", "f(-1) == 0"])
    assert not passes("def f(x):\n    return x", ["f(1) == 2"])
    assert not passes("def f(x:", ["f(1) == 2"])


@pytest.mark.parametrize(
    "code",
    [
        "open('left', 'w')",
        "import os; os.system('true')",
        "import subprocess; subprocess.run(['true'])",
        "import socket; socket.socket()",
        "import os; os.fork()",
        "x = bytearray(4 << 30)",
        "import os; os.remove('left')",
    ],
)
def test_code_that_would_leave_its_process_fails(code):
    assert not passes(code, ["True"])


def test_code_without_end_is_stopped():
    assert not passes("while True: pass", ["True"], seconds=0.5)


def test_the_problems_are_twenty_with_tests_that_an_empty_solution_fails():
    assert len({one.key for one in CODE_PROBLEMS}) == 20
    assert len(code_problems()) == 20
    name = CODE_PROBLEMS[0].key.partition("(")[0]
    assert not passes(f"def {name}(*given): return None", CODE_PROBLEMS[0].tests)
    assert all(len(one.tests) >= 2 for one in CODE_PROBLEMS)


def test_wilsons_interval_is_the_published_one():
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)


def test_a_study_asks_every_side_and_goes_on_where_it_was_stopped(folder, tmp_path):  # noqa: F811
    problems = [SwitchProblem(key, key, lambda text: len(text) % 2 == 0) for key in ("hello", "the world")]
    path = tmp_path / "found.jsonl"
    with opened(folder, "gemma3", switch_rule=OFTEN, draft="off") as model:

        def study(conditions: str = "one") -> SwitchStudy:
            journal = SwitchJournal(path, {"conditions": conditions})
            return SwitchStudy(model.chat(max_tokens=20), model.engine, problems, journal)

        seen: list[tuple[int, int]] = []
        results = study().run([OFTEN], lambda done, total: seen.append((done, total)))
        assert [one.side for one in results] == [SMALL, LARGE, "7.4,7.4", "random for 7.4,7.4"]
        assert [one.share for one in results[:2]] == [0.0, 1.0]
        assert 0.0 < results[2].share < 1.0
        assert results[2].switches > 0
        assert seen[-1] == (8, 8)
        lines = path.read_text().splitlines()
        path.write_text("\n".join(lines[:-3]) + "\n")
        again = study().run([OFTEN], lambda done, total: None)
        assert [(one.right, one.share) for one in again] == [(one.right, one.share) for one in results]
        assert len(path.read_text().splitlines()) == len(lines) == 9
        with pytest.raises(UsageError, match="another study"):
            study("two")
        path.write_text("nonsense\n")
        with pytest.raises(BadFileError, match="no journal"):
            study()
    draw_sides(results, tmp_path / "sides.svg", title="two")
    assert "right answers" in (tmp_path / "sides.svg").read_text()


def test_a_calibration_is_drawn(tmp_path):
    points = [
        CalibrationPoint(SwitchRule(-1.0, -1.0), 1.0, 1.0),
        CalibrationPoint(SwitchRule(0.5, 1.0), 0.4, 0.9),
        CalibrationPoint(SwitchRule(0.0, float("inf")), 0.0, 0.7),
    ]
    draw_calibration(points, points[1], tmp_path / "quality.svg", title="two")
    assert "<svg" in (tmp_path / "quality.svg").read_text()
