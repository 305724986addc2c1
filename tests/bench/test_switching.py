"""The study of two models that take turns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgedec.bench.harness.pairing import wilson
from edgedec.bench.studies import switching
from edgedec.bench.studies.number_questions import easy_problems
from edgedec.bench.studies.quality import MathProblem
from edgedec.bench.studies.switching import LARGE, SMALL, TURNS, SwitchReport, ask_in_turns
from edgedec.cli.services import Services
from edgedec.control.switching import EntropySwitching, SwitchRule
from edgedec.models import Store
from tests.cli.support import run
from tests.fixtures.tiny_models import tiny_bundle
from tests.switch.pairs import LARGE_ALONE, SMALL_ALONE
from tests.switch.test_assembly import opened

OFTEN = SwitchRule(7.4, least_run=2)
ASKED = [MathProblem("1", "hello", "1"), MathProblem("2", "the world", "2")]


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of random weights are never sure: they need thresholds of their own to take turns."""
    monkeypatch.setitem(switching.SIDES, TURNS, OFTEN)


def test_wilsons_interval_is_the_published_one() -> None:
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)


def test_easy_problems_ask_for_a_number_at_the_end() -> None:
    found = easy_problems(3)
    assert [one.key for one in found] == ["1", "2", "3"]
    assert all(one.text.endswith("End with the number.") and one.answer.isdecimal() for one in found)
    assert len(easy_problems()) == 40


@pytest.mark.usefixtures("often")
def test_every_problem_is_asked_of_each_model_alone_and_of_both_in_turn(folder: Path) -> None:
    report, seen = SwitchReport(), []
    with opened(folder, draft="off") as model:
        ask_in_turns(model, ASKED, 20, report, lambda stage, done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]
    assert report.asked == 2
    sides = report.as_json()
    assert list(sides) == [SMALL, LARGE, TURNS]
    assert (sides[SMALL]["large_share"], sides[LARGE]["large_share"]) == (0.0, 1.0)
    assert 0.0 < sides[TURNS]["large_share"] < 1.0
    assert sides[TURNS]["switches"] > 0
    assert all(one["joules"] > 0 and one["seconds"] > 0 for one in sides.values())
    assert report.source.startswith("an estimate, not a measurement; ")


def test_the_small_model_alone_costs_none_of_the_large_ones_work(folder: Path) -> None:
    with opened(folder, draft="off") as model:
        chat, marks = model.chat(max_tokens=20), []
        for rule in (SMALL_ALONE, LARGE_ALONE, OFTEN):
            model.engine.forget()
            chat.reset()
            model.engine.decide_by(lambda rule=rule: EntropySwitching(rule))
            reply = chat.reply("hello", final=True)
            reply.read()
            start, end = reply.marks.start, reply.marks.end
            work = [(b.work.since(a.work)).passes for a, b in ((start, end), (start.small, end.small))]
            marks.append((*work, model.single.measures.energy(reply.marks, reply.stats).joules))
    small, large, both = marks
    assert small[0] == large[1] == 0
    assert small[1] > 0
    assert both[0] > 0
    assert both[1] > 0
    assert all(joules > 0.0 for _, _, joules in marks)


@pytest.fixture
def given(folder: Path, tmp_path: Path) -> tuple[str, ...]:
    questions = tmp_path / "two.jsonl"
    lines = [{"question": f"{number} and 1?", "answer": f"#### {number + 1}"} for number in (1, 2)]
    questions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    bundles = (str(tiny_bundle(folder, "llama")), "--switch", str(tiny_bundle(folder, "llama", seed=1)))
    return ("bench", "switch", "-m", *bundles, "--threads", "1", "--input", str(questions))


@pytest.mark.usefixtures("often")
def test_the_command_shows_each_side(folder: Path, given: tuple[str, ...]) -> None:
    services = Services(store=lambda: Store(folder / "home"))
    found = json.loads(run(services, *given, "--json").stdout)
    assert list(found["sides"]) == [SMALL, LARGE, TURNS]
    assert (found["questions"], found["answered"]) == (2, 2)
    shown = run(services, *given).stdout
    assert "2 of 2 questions; per reply" in shown
    assert [line.split("  ")[0] for line in shown.splitlines()[2:5]] == [SMALL, LARGE, TURNS]
    assert "J: an estimate, not a measurement; " in shown


@pytest.mark.usefixtures("often")
def test_ctrl_c_shows_the_questions_that_all_sides_answered(
    folder: Path, given: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = switching._asked

    def impatient(*args: object) -> object:
        if args[-1].key == "2":
            raise KeyboardInterrupt
        return asked(*args)

    monkeypatch.setattr(switching, "_asked", impatient)
    stopped = run(Services(store=lambda: Store(folder / "home")), *given)
    assert stopped.exit_code == 130
    assert "1 of 2 questions; per reply" in stopped.stdout
