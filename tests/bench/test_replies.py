"""Sides that answer the same prompts: order, scores, and continuing a study that was stopped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.bench.harness.journal import Journal, SideAnswer
from edgedec.bench.harness.memory_levels import Level
from edgedec.bench.harness.questions import Question
from edgedec.bench.harness.replies import ReplyStudy, collect_replies
from edgedec.bench.harness.study import PLAIN, StudySide
from edgedec.bench.studies.drafts import DraftsReport
from edgedec.cli.bench.drafts_tables import show
from edgedec.core.errors import BadFileError, UsageError
from edgedec.metrics.mbsu import Weights
from tests.bench.support import Fakes

QUESTIONS = (
    Question("1", "writing", ("a", "bc")),
    Question("2", "math", ("d",)),
    Question("3", "rag", ("efg",)),
)
WEIGHTS = Weights(200, 50)
CONDITIONS = {"model": "fake", "threads": 2}


class Script:
    """Token ids of a conversation: 100 for each letter of the user, and the replies."""

    dropped = 0

    def __init__(self) -> None:
        self.ids: list[int] = []

    def prompt(self, turn: str, capacity: int = 0, reply: int = 0) -> list[int]:
        self.ids += [100] * len(turn)
        return list(self.ids)

    def add_reply(self, tokens: Sequence[int]) -> None:
        self.ids += tokens


PLAN = ReplyStudy(QUESTIONS, Script, max_tokens=5, stop=(9,), settle=lambda: None)


def sides(fakes: Fakes, *modes: str) -> list[StudySide]:
    """Plain decoding and these modes of one process, and a peer that takes twice as long."""
    ours = fakes.side("edgedec")
    drafting = [StudySide(f"{PLAIN}+{mode}", ours, mode, {"sampling": {}}) for mode in modes]
    plain = StudySide(PLAIN, ours, arguments={"sampling": {}})
    return [plain, *drafting, StudySide("llama.cpp", fakes.side("llama.cpp", seconds=2.0))]


def run(fakes: Fakes, journal: Journal[SideAnswer], *modes: str) -> DraftsReport:
    everyone = sides(fakes, *modes)
    collect_replies(everyone, PLAN, journal, lambda stage, done, total: None)
    return DraftsReport(PLAN.questions, everyone, journal, WEIGHTS)


def test_all_sides_answer_the_same_ids_and_each_begins_in_turn(fakes: Fakes) -> None:
    run(fakes, Journal(CONDITIONS), "guess")
    warm, asked = [], []
    for line in fakes.asked("reply"):
        (warm if line["max_tokens"] == 4 else asked).append(line)
    assert {line["mode"] for line in warm} == {"off"}  # drafters have not seen the questions
    rounds = [asked[start : start + 3] for start in range(0, len(asked), 3)]
    # the second turn holds the first one's answer
    expected = [[100], [100, 0, 1, 2, 3, 4, 100, 100], [100], [100] * 3]
    assert [[line["tokens"] for line in one] for one in rounds] == [[ids] * 3 for ids in expected]
    assert all(line["stop"] == [9] for line in asked)
    first = [(one[0]["name"], one[0]["mode"]) for one in rounds]
    assert first == [("edgedec", "off"), ("edgedec", "guess"), ("llama.cpp", "off"), ("edgedec", "off")]
    assert len(fakes.asked("open")) == 2  # the ways of one runtime share a process


def test_a_cold_side_has_a_new_process_for_each_question(fakes: Fakes) -> None:
    plain = StudySide(PLAIN, fakes.side(PLAIN))
    cold = StudySide(f"{PLAIN}+guess cold", fakes.side("new"), "guess", cold=True)
    journal: Journal[SideAnswer] = Journal(CONDITIONS)
    collect_replies([plain, cold], PLAN, journal, lambda stage, done, total: None)
    log = [(line["op"], line.get("mode")) for line in fakes.asked() if line["name"] == "new"]
    asked, opened = ("reply", "guess"), ("open", None)
    # Its first request is the first turn: nothing else is decoded before. Both turns share a process.
    assert log == [opened, asked, asked, opened, asked, opened, asked]
    found = DraftsReport(QUESTIONS, [plain, cold], journal)
    assert [len(found.answers(side)) for side in found.sides] == [4, 4]


def test_scores(fakes: Fakes) -> None:
    facts = run(fakes, Journal(CONDITIONS), "guess").as_json()
    overall = facts["overall"]
    plain, guess, peer = overall["edgedec"], overall["edgedec+guess"], overall["llama.cpp"]
    assert (plain["tokens_per_s"]["median"], plain["block_efficiency"]) == (4.0, 1.0)
    assert (guess["total_tokens_per_s"], guess["block_efficiency"], guess["decoded_tokens"]) == (8.0, 2.0, 16)
    assert guess["speed_up"]["edgedec"]["median"] == guess["speed_up"]["edgedec"]["total"] == 2.0
    assert guess["speed_up"]["llama.cpp"]["median"] == 4.0
    assert peer["speed_up"]["edgedec"]["median"] == 0.5
    assert guess["acceptance_rate"] == 0.5
    assert guess["speed_up"]["edgedec"]["by_processor_time"] == 2.0
    # per reply 0.5 s in 2 passes, half of it in the model
    times = [guess[f"{part}_ms_per_round"] for part in ("draft", "verify", "own")]
    assert times == [50.0, 125.0, 125.0]
    assert facts["sides"]["edgedec+guess"] == {"process": "edgedec", "drafter_bytes": {"guess": 1000}}
    assert facts["processes"]["llama.cpp"]["peak_rss_bytes"] > 1 << 20
    assert facts["differing_replies"] == {"edgedec+guess": {"replies": 0, "of": 4}}
    assert guess["judged"] == {"guess": [(4 * 2, 4 * 1), (0, 0)]}
    assert (plain["acceptance_by_depth"], guess["acceptance_by_depth"]) == ([], [1.0, 0.5])


def test_bytes_of_drafting_are_shares_of_a_round(fakes: Fakes) -> None:
    overall = run(fakes, Journal(CONDITIONS), "guess").as_json()["overall"]
    plain, guess = overall["edgedec"], overall["edgedec+guess"]
    assert (plain["mbsu"], plain["mbsu_parameters"]) == (1.0, 1.0)
    # per reply 2 passes over 200 bytes (250 with the embedding), and 4 steps that read 100 bytes (200)
    assert guess["mbsu"] == pytest.approx(2.0 / (1 + 100 / 400))
    assert guess["mbsu_parameters"] == pytest.approx(2.0 / (1 + 200 / 500), rel=1e-5)
    found = guess["by_drafter"]["guess"]
    assert (found["bytes_per_round"], found["steps"]) == (50.0, 16)
    assert found["ms_per_step"] == pytest.approx(5.0)
    assert found["step_of_a_pass"] == pytest.approx(0.005 / 0.125)  # plain: 0.5 s in 4 passes


def test_categories_and_the_groups_of_spec_bench(fakes: Fakes) -> None:
    report = run(fakes, Journal(CONDITIONS), "guess")
    replies = {name: sides["edgedec"]["replies"] for name, sides in report.as_json()["categories"].items()}
    assert replies == {"mt_bench": 3, "writing": 2, "math": 1, "rag": 1}
    assert report.groups == ["mt_bench", "rag"]


def test_a_side_that_says_other_tokens_is_counted(fakes: Fakes) -> None:
    differing = run(fakes, Journal(CONDITIONS), "guess", "wrong").differing()
    assert {side: (found.replies, found.of) for side, found in differing.items()} == {
        "edgedec+guess": (0, 4),
        "edgedec+wrong": (4, 4),
    }


def test_what_is_saved_is_not_measured_again(fakes: Fakes, tmp_path: Path) -> None:
    path = tmp_path / "runs" / "run.jsonl"
    full = run(fakes, Journal.resume(CONDITIONS, path), "guess").as_json()
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    assert json.loads(lines[0])["conditions"] == CONDITIONS
    asked = len(fakes.asked())
    again = Journal.resume(CONDITIONS, path)
    assert run(fakes, again, "guess").as_json() == full
    assert len(fakes.asked()) == asked  # no process was even started
    # stopped in the middle of its third last answer
    path.write_text("".join(lines[:-3]) + lines[-3][:40], encoding="utf-8")
    rest = run(fakes, Journal.resume(CONDITIONS, path), "guess")
    new = [line for line in fakes.asked("reply")[asked - 2 :] if line["max_tokens"] == 5]
    assert len(new) == 3
    assert (
        rest.as_json()["overall"]["edgedec+guess"]["tokens_per_s"]
        == full["overall"]["edgedec+guess"]["tokens_per_s"]
    )
    assert len(path.read_text(encoding="utf-8").splitlines()) >= len(lines)


def test_ratios_of_different_runs_are_counted(
    fakes: Fakes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.jsonl"
    run(fakes, Journal.resume(CONDITIONS, path), "guess")
    report = run(fakes, Journal.resume(CONDITIONS, path), "guess", "more")
    ratios = {side: ratio for side in report.sides if (ratio := report.score(side).ratio(PLAIN))}
    apart = {side: ratio.pairs_of_different_runs for side, ratio in ratios.items()}
    assert apart == {"edgedec": 0, "edgedec+guess": 0, "edgedec+more": 4, "llama.cpp": 0}
    show(report, {}, "fake")
    out = capsys.readouterr().out
    assert "measured in 2 runs" in out
    assert "4 ratios are of replies" in out


class Fitted(Script):
    """Drops all turns but the last where the context is full."""

    def prompt(self, turn: str, capacity: int = 99, reply: int = 0) -> list[int]:
        found = super().prompt(turn)
        if len(found) + reply > capacity:
            self.dropped += 1
            self.ids = found = [100] * len(turn)
        return list(found)


def test_a_context_too_short_is_counted_and_old_turns_are_dropped(fakes: Fakes) -> None:
    plain = StudySide(PLAIN, fakes.side(PLAIN))
    small = StudySide(f"{PLAIN}+at 8", fakes.side("small", capacity=8), level=Level("size", 8))
    questions = (Question("1", "qa", ("a", "bc")), Question("2", "qa", ("d" * 9,)))
    study = replace(PLAN, questions=questions, script=Fitted)
    journal: Journal[SideAnswer] = Journal(CONDITIONS)
    collect_replies([plain, small], study, journal, lambda stage, done, total: None)
    first, second = (journal.answers["1", turn, small.name] for turn in (0, 1))
    assert (first.dropped, first.prompt_tokens, first.cut) == (0, 1, False)
    assert (second.dropped, second.prompt_tokens) == (1, 2)
    assert journal.answers["1", 1, PLAIN].prompt_tokens == 8
    assert "a prompt of 9 tokens does not fit a context of 8" in journal.answers["2", 0, small.name].refused


def test_files_of_other_runs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    Journal.resume(CONDITIONS, path)
    with pytest.raises(UsageError, match="other conditions: threads 2"):
        Journal.resume({**CONDITIONS, "threads": 4}, path)
    first = path.read_text("utf-8")
    answer = {"question": "1", "turn": 0, "side": "edgedec", "run": 1, "tokens": [1], "prefill_s": 1.0}
    damaged = [
        {},
        {"answer": answer},
        {"answer": {**answer, "decode_s": "1"}},
        {"answer": {**answer, "decode_s": 1.0, "tokens": ["a"]}},
        {"answer": {**answer, "decode_s": 1.0, "rounds": [[1, 2, 3]]}},
    ]
    bad = [first + json.dumps(line) + "\n" for line in damaged]
    for text in ("", "x\n", "[]\n", '{"conditions": 1}\n', *bad):
        path.write_text(text or "\n", encoding="utf-8")
        with pytest.raises(BadFileError, match="name another file"):
            Journal.resume(CONDITIONS, path)


def test_tables_cut_nothing(fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
    show(
        run(fakes, Journal(CONDITIONS), "guess", "guess-of-a-drafter-with-a-very-long-name"),
        [],
        "fake, 2 threads",
    )
    out = capsys.readouterr().out
    assert "…" not in out
    assert out.splitlines()[0] == "fake, 2 threads, 3 questions, 4 turns"
    for words in (
        "8.0 (8.0-8.0)",
        "  writing",
        "guess 1.0 kB",
        "none of 4 replies differ",
        "shared by edgedec, edgedec+guess, edgedec+guess-of-a-drafter-with-a-very-long-name",
        "edgedec+guess: it is a guess",
    ):
        assert words in out
