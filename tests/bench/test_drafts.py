"""``edgedec bench drafts``, on a model of random weights."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgedec.bench.harness import runtimes
from edgedec.bench.harness.runtimes import OwnRun
from tests.bench.support import Fakes
from tests.bench.test_commands import bench, report
from tests.bench.test_questions import written
from tests.cli.support import assert_one_line
from tests.drafters.test_resolved import add_head

QUESTIONS: list[Any] = [
    {"question_id": 81, "category": "writing", "turns": ["The cat sat on the mat.", "And the dog?"]},
    {"question_id": 82, "category": "writing", "turns": ["Who sat on the mat?", "Where?"]},
    {"question_id": 240, "category": "qa", "turns": ["What is a cat? A cat is what?"]},
]


def arguments(folder: Path, *more: str) -> list[str]:
    model = ["-m", str(folder / "bundle"), "--threads", "1", "--max-tokens", "12"]
    questions = written(folder / "questions.jsonl", QUESTIONS)
    return ["drafts", *model, "--input", str(questions), *more]


@pytest.mark.parametrize("sampling", [(), ("--temperature", "0.8")])
def test_all_ways_to_draft_say_the_same(folder: Path, tmp_path: Path, sampling: tuple[str, ...]) -> None:
    drafts = ["--draft", "off", "--draft", "lookup", "--draft", "recycling", "--draft", "auto"]
    save = ["--save", str(tmp_path / "run.jsonl")]
    args = arguments(folder, *drafts, *sampling, *save)
    facts = report(bench(folder, *args, "--json"))
    assert list(facts["overall"]) == ["edgedec", "edgedec+lookup", "edgedec+recycling", "edgedec+auto"]
    assert facts["differing_replies"] == {
        f"edgedec+{name}": {"replies": 0, "of": 5} for name in ("lookup", "recycling", "auto")
    }
    assert facts["conditions"]["sampling"]["temperature"] == (0.8 if sampling else 0.0)
    plain = facts["overall"]["edgedec"]
    assert plain["decoded_tokens"] == plain["rounds"] > 5
    assert plain["drafted_tokens"] == 0
    assert plain["verify_ms_per_round"] > 0 < plain["own_ms_per_round"]
    assert (plain["predicted_speed_up"], plain["by_drafter"]) == (None, {})
    assert all(side["speed_up"]["edgedec"]["by_processor_time"] > 0 for side in facts["overall"].values())
    both = facts["overall"]["edgedec+auto"]
    assert both["mbsu"] == both["mbsu_parameters"] == both["block_efficiency"]  # no drafter has a model
    assert set(both["by_drafter"]) == {"lookup", "recycling"}
    for found in both["by_drafter"].values():
        assert (found["ms_per_query"] is None) == (found["queries"] == 0)
        assert found["accepted_tokens"] <= found["drafted_tokens"] <= found["proposed_tokens"]
        assert found["bytes_per_round"] == 0
        assert 0 <= found["share_of_time"] < 1
    assert {name: sides["edgedec"]["replies"] for name, sides in facts["categories"].items()} == {
        "mt_bench": 4, "writing": 4, "qa": 1,
    }  # fmt: skip
    assert set(both["judged"]) <= {"lookup", "recycling"}
    assert all(0.0 <= rate <= 1.0 for rate in both["acceptance_by_depth"])
    assert all(0 <= right <= seen for counts in both["judged"].values() for seen, right in counts)
    assert facts["sides"]["edgedec+lookup"]["drafter_bytes"]["lookup"] > 0
    again = report(bench(folder, *args, "--json"))
    assert again.pop("runs") == facts.pop("runs") + 1
    assert again == facts  # nothing was measured a second time
    table = bench(folder, *args).stdout
    assert "ms/query" in table
    assert "to which a drafter gave this probability" in table
    assert "%" not in "".join(line for line in facts["notices"] if "measuring" in line)  # no progress
    assert "edgedec+auto: none of 5 replies differ from plain decoding" in table


def test_turns_go_on_from_the_reply_as_it_was_drawn(folder: Path, tmp_path: Path) -> None:
    save = tmp_path / "run.jsonl"
    choice = ["--limit", "1", "--draft", "off"]
    report(bench(folder, *arguments(folder, *choice, "--save", str(save), "--json")))
    lines = [json.loads(line) for line in save.read_text(encoding="utf-8").splitlines()]
    answers = [line["answer"] for line in lines if "answer" in line]
    first, second = (one for one in answers if one["question"] == "81")
    assert (first["question"], first["turn"], second["turn"]) == ("81", 0, 1)
    assert second["prompt_tokens"] > first["prompt_tokens"] + 10


def test_another_token_is_counted_and_the_status_says_so(
    folder: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OwnRun, "side", lambda run, bundle, name="edgedec": fakes.side(name))
    calm = bench(folder, *arguments(folder, "--draft", "lookup", "--json"))
    assert calm.exit_code == 0, calm.output
    honest = fakes.side("edgedec").program.read_text(encoding="utf-8")
    liar = folder / "liar.py"
    liar.write_text(honest.replace('mode == "wrong"', 'mode == "lookup"'), encoding="utf-8")
    side = replace(fakes.side("edgedec"), program=liar)
    monkeypatch.setattr(OwnRun, "side", lambda run, bundle, name="edgedec": side)
    result = bench(folder, *arguments(folder, "--draft", "lookup", "--draft", "auto", "--json"))
    assert result.exit_code == 1
    assert "differ from plain decoding: edgedec+lookup in 5 of 5" in result.stderr
    counted = json.loads(result.stdout)["differing_replies"]
    assert [found["replies"] for found in counted.values()] == [5, 0]


def test_peers_that_draft(folder: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "peer_side", lambda name, run: fakes.side(name))
    names = "llama.cpp,llama.cpp-ngram"
    peers = ["--peer", names, "--limit", "1", "-m", str(folder / "tiny.gguf")]
    facts = report(bench(folder, *arguments(folder, *peers, "--draft", "off", "--json")))
    assert list(facts["overall"]) == ["edgedec", *names.split(",")]
    assert list(facts["processes"]) == ["edgedec", "llama.cpp"]
    asked = [(line["name"], line["mode"]) for line in fakes.asked("reply") if line["max_tokens"] == 12]
    assert set(asked) == {("llama.cpp", "off"), ("llama.cpp", "ngram")}


def test_auto_has_the_drafters_that_belong_to_the_model(folder: Path, tmp_path: Path) -> None:
    add_head(folder / "bundle", tmp_path / "home")
    one = ["--limit", "1", "--mode", "unprepared"]
    facts = report(bench(tmp_path, *arguments(folder, *one, "--json")))
    for name in ("edgedec+auto", "edgedec+auto unprepared"):
        assert "head" in facts["overall"][name]["by_drafter"]
        assert facts["differing_replies"][name]["replies"] == 0


def test_a_cold_side_beside_the_warm_one(folder: Path) -> None:
    facts = report(bench(folder, *arguments(folder, "--draft", "recycling", "--mode", "cold", "--json")))
    warm, cold = (facts["sides"][f"edgedec+recycling{more}"]["process"] for more in ("", " cold"))
    assert (warm, cold) == ("edgedec", "edgedec+recycling cold")
    assert facts["differing_replies"][cold] == {"replies": 0, "of": 5}
    assert facts["overall"][cold]["by_drafter"]["recycling"]["queries"] > 0


def test_filled_passes_have_drafts_whether_they_pay_or_not(folder: Path) -> None:
    facts = report(bench(folder, *arguments(folder, "--draft", "recycling", "--mode", "filled", "--json")))
    planned, filled = (facts["overall"][f"edgedec+recycling{more}"] for more in ("", " filled"))
    assert facts["differing_replies"]["edgedec+recycling filled"]["replies"] == 0
    assert filled["drafted_tokens"] > planned["drafted_tokens"]
    assert filled["drafted_tokens"] <= 8 * filled["rounds"]


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (["--draft", "crystal-ball"], 2, ["no drafter 'crystal-ball'"]),
        (["--peer", "openvino-genai"], 2, ["openvino-genai does not reply"]),
        (["--peer", "llama.cpp-ngram", "--temperature", "1"], 2, ["greedily"]),
        (["--peer", "llama.cpp-ngram"], 2, ["--keep-source"]),
        (["--mode", "unprepared", "--memory", "full"], 2, ["--mode does not go with --memory"]),
        (["--mode", "cold", "--memory", "full"], 2, ["--mode does not go with --memory"]),
        (["--temperature", "-7"], 2, ["temperature cannot be -7"]),
        (["--max-tokens", "300"], 2, ["at most 256"]),
    ],
)
def test_errors_are_one_line(folder: Path, args: list[str], status: int, words: list[str]) -> None:
    assert_one_line(bench(folder, *arguments(folder, *args)), status, *words)
