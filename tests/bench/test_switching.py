"""The study of two models that take turns, and the sandbox for code that models write."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from click.testing import Result

from edgedec.bench.harness.code_problems import CODE_PROBLEMS
from edgedec.bench.harness.journal import Journal
from edgedec.bench.harness.pairing import wilson
from edgedec.bench.harness.sandbox import code_of, passes
from edgedec.bench.plots.switching import draw_sides
from edgedec.bench.studies.switch_problems import CODE, GSM8K, SwitchProblem, code_problems
from edgedec.bench.studies.switching import LARGE, SMALL, SideResult, SwitchStudy, read_outcome
from edgedec.cli.services import Services
from edgedec.control.switching import EntropySwitching, SwitchRule
from edgedec.core.errors import BadFileError, UsageError
from edgedec.models import Store
from tests.cli.support import run
from tests.fixtures.tiny_models import tiny_bundle
from tests.switch.pairs import LARGE_ALONE, SMALL_ALONE
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


def even(text: str) -> bool:
    return len(text) % 2 == 0


def test_a_study_asks_every_side_and_goes_on_where_it_was_stopped(folder, tmp_path):  # noqa: F811
    pytest.importorskip("matplotlib")
    problems = [SwitchProblem(CODE, "hello", even), SwitchProblem(GSM8K, "the world", even)]
    path = tmp_path / "found.jsonl"
    with opened(folder, "gemma3", switch_rule=OFTEN, draft="off") as model:
        measures = model.single.measures

        def study(conditions: str = "one", asked: Sequence[SwitchProblem] = problems) -> SwitchStudy:
            journal = Journal.resume({"conditions": conditions}, path, read_outcome)
            chat = model.chat(max_tokens=20)
            return SwitchStudy(
                chat, model.engine, asked, journal, lambda one: measures.energy(one.marks, one.stats)
            )

        def answers(found: SwitchStudy) -> list[SideResult]:
            found.run([OFTEN], lambda stage, done, total: seen.append((done, total)))
            return [one for sides in found.results([OFTEN]).values() for one in sides]

        seen: list[tuple[int, int]] = []
        results = answers(study())
        assert [one.side for one in results] == 2 * [SMALL, LARGE, "7.4,7.4", "random for 7.4,7.4"]
        assert [one.share for one in results[:2]] == [0.0, 1.0]
        assert 0.0 < results[2].share < 1.0
        assert results[2].switches > 0
        assert results[2].catch_up_tokens > 0
        assert seen[-1] == (8, 8)
        assert all(one.estimated and one.low < one.joules < one.high for one in results)
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(lines[:-3]) + lines[-3][:20])  # stopped in the middle of a line
        assert [one.side for one in study().results([OFTEN])[CODE]] == [one.side for one in results[:4]]
        assert GSM8K not in study().results([OFTEN])
        again = answers(study(asked=problems[1:]))
        assert [(one.right, one.share) for one in again] == [(one.right, one.share) for one in results[4:]]
        assert len(path.read_text().splitlines()) == len(lines) + 1 == 11
        with pytest.raises(UsageError, match="other conditions"):
            study("two")
        path.write_text("nonsense\n")
        with pytest.raises(BadFileError, match="no saved replies"):
            study()
    draw_sides({CODE: results[:4], GSM8K: results[4:]}, tmp_path / "sides.svg", title="two")
    assert "joules per reply (estimate)" in (tmp_path / "sides.svg").read_text()


def test_the_small_model_alone_costs_none_of_the_large_ones_work(folder):  # noqa: F811
    with opened(folder, "gemma3", draft="off") as model:
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


def test_the_command_goes_on_from_its_file(folder, tmp_path):  # noqa: F811
    pytest.importorskip("matplotlib")
    questions = tmp_path / "two.jsonl"
    lines = [{"question": f"{number} and 1?", "answer": f"#### {number + 1}"} for number in (1, 2)]
    questions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    services = Services(store=lambda: Store(folder / "home"))
    bundles = ["-m", tiny_bundle(folder, "llama"), "--switch", tiny_bundle(folder, "gemma3", seed=1)]
    fixed = ["--max-tokens", "12", "--threads", "1", "--at", "7.4,7.5"]
    fixed += ["--save", str(tmp_path / "found.jsonl"), *map(str, bundles)]

    def bench(*args: object) -> Result:
        return run(services, "bench", "switch", *map(str, (*args, *fixed)))

    first = bench("--input", questions, "--json", "--plot", tmp_path / "two.svg")
    assert first.exit_code == 0, first.output
    found = json.loads(first.stdout)
    assert [one["side"] for one in found["tasks"]["gsm8k"]] == [SMALL, LARGE, "7.4,7.5", "random for 7.4,7.5"]
    assert found["conditions"]["small"] == "Tiny gemma3"
    shown = bench("--input", questions).stdout
    assert "gsm8k: 2 of 2 problems" in shown
    assert "J: an estimate with its bounds, not a measurement" in shown


def test_ctrl_c_shows_the_problems_that_all_sides_answered(folder, tmp_path, monkeypatch):  # noqa: F811
    services, asked = Services(store=lambda: Store(folder / "home")), SwitchStudy._asked

    def impatient(study: SwitchStudy, problem: SwitchProblem, *rest: object) -> object:
        if problem.prompt == "2 and 1?":
            raise KeyboardInterrupt
        return asked(study, problem, *rest)

    monkeypatch.setattr(SwitchStudy, "_asked", impatient)
    questions = tmp_path / "two.jsonl"
    lines = [{"question": f"{number} and 1?", "answer": f"#### {number + 1}"} for number in (1, 2)]
    questions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    bundles = ["-m", tiny_bundle(folder, "llama"), "--switch", tiny_bundle(folder, "gemma3", seed=1)]
    given = [*bundles, "--max-tokens", "6", "--threads", "1", "--at", "7.4,7.5", "--input", questions]
    stopped = run(services, "bench", "switch", *map(str, given))
    assert stopped.exit_code == 130
    assert "gsm8k: 1 of 2 problems" in stopped.stdout
