"""Comparisons in the same run: whose turn it is, and what the numbers come to."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.bench.harness.pairing import plain, spread
from edgedec.bench.studies.speed import SideSpeed, SpeedReport, SpeedStudy, measure_speed
from tests.bench.support import Fakes

PLAN = SpeedStudy(prompts=((1, 2, 3), (4, 5, 6, 7)), max_tokens=5, repeat=3, settle=lambda: None)


def run(fakes: Fakes, *names_and_seconds: tuple[str, float]) -> SpeedReport:
    sides = [fakes.side(name, seconds=seconds) for name, seconds in names_and_seconds]
    return measure_speed(sides, PLAN, lambda stage, done, total: None)


def test_sides_take_turns_on_every_prompt_and_each_begins_as_often(fakes: Fakes) -> None:
    run(fakes, ("ours", 1.0), ("theirs", 2.0))
    asked = fakes.asked("generate")
    assert sorted((line["name"], line["tokens"]) for line in asked[:2]) == [
        (name, [1, 2, 3]) for name in ("ours", "theirs")
    ]
    pairs = list(zip(asked[2::2], asked[3::2], strict=True))
    assert len(pairs) == 6
    for index, (first, second) in enumerate(pairs):
        assert {first["name"], second["name"]} == {"ours", "theirs"}
        assert first["tokens"] == second["tokens"] == list(PLAN.prompts[index % 2])
        assert first["max_tokens"] == second["max_tokens"] == 5
    beginners = [(first["name"], tuple(first["tokens"])) for first, _ in pairs]
    for prompt in PLAN.prompts:
        assert {name for name, tokens in beginners if tokens == prompt} == {"ours", "theirs"}


def test_loads_are_measured_in_fresh_processes(fakes: Fakes) -> None:
    report = run(fakes, ("ours", 1.0), ("theirs", 2.0))
    names = [line["name"] for line in fakes.asked("open")]
    assert sorted(names) == ["ours"] * 3 + ["theirs"] * 3
    assert report.sides["theirs"].load_s == [2.0] * 3


def test_the_largest_is_loaded_first_while_there_is_most_memory(fakes: Fakes) -> None:
    sides = [fakes.side("ours"), fakes.side("large", megabytes=100), fakes.side("middle", megabytes=50)]
    report = measure_speed(sides, PLAN, lambda stage, done, total: None)
    assert [line["name"] for line in fakes.asked("open")[-3:]] == ["large", "middle", "ours"]
    assert [line["name"] for line in fakes.asked("generate")[3:6]] == ["ours", "large", "middle"]
    peaks = {name: side.peak_rss_bytes for name, side in report.sides.items()}
    assert peaks["large"] - peaks["ours"] > 80 << 20
    assert report.sides["ours"].planned_bytes == {}


def test_a_side_that_makes_its_own_model_does_so_once_and_apart(fakes: Fakes, tmp_path: Path) -> None:
    sides = [fakes.side("ours"), fakes.side("theirs", cache=tmp_path / "cache" / "hash")]
    stages: list[tuple[str, int, int]] = []
    measure_speed(sides, PLAN, lambda *step: stages.append(step))
    asked = fakes.asked("prepare")
    assert asked == fakes.asked()[:1]
    assert (asked[0]["name"], asked[0]["model"]) == ("theirs", "model")
    assert asked[0]["folder"] == str(tmp_path / "cache" / "hash")
    opened = {line["name"]: line["model"] for line in fakes.asked("open")}
    assert opened == {"ours": "model", "theirs": "model-made"}
    assert stages[:2] == [("preparing theirs", 0, 1), ("preparing theirs", 1, 1)]
    assert list((tmp_path / "cache" / "hash").iterdir()) == []  # the lock is gone


def test_memory_above_what_was_planned() -> None:
    side = SideSpeed("1", "none", [1.0], [1.0], [1.0], 300, {"weights": 200, "kv_cache": 30})
    assert side.surplus_bytes == 70
    assert side.as_json()["memory_bytes"] == {"weights": 200, "kv_cache": 30, "surplus": 70}


def test_rates_and_ratios(fakes: Fakes) -> None:
    report = run(fakes, ("ours", 1.0), ("theirs", 2.0))
    ours = report.sides["ours"].as_json()
    assert set(ours["decode_tokens_per_s"].values()) == {4.0}  # 4 after the first, in 1 s
    assert ours["prefill_tokens_per_s"]["median"] == 3.5
    ratios = plain(report.ratios()["theirs"])
    assert ratios["decode"]["median"] == ratios["prefill"]["median"] == 2.0
    assert ratios["load"]["median"] == 0.5
    assert 0.5 < ratios["peak_rss"] < 2


def test_json(fakes: Fakes) -> None:
    facts = run(fakes, ("ours", 1.0)).as_json()
    assert facts["prompt_tokens"] == [3, 4]
    assert facts["ratios"] == {}
    assert set(facts) == {"prompts", "prompt_tokens", "max_tokens", "repeat", "sides", "ratios"}
    assert set(facts["sides"]["ours"]) == {
        "version", "isa", "decode_tokens_per_s", "prefill_tokens_per_s", "load_s", "peak_rss_bytes",
    }  # fmt: skip


def test_a_few_disturbed_measurements_do_not_move_the_median() -> None:
    calm = spread([1.0, 1.1, 0.9, 1.0, 50.0])
    assert calm.median == 1.0
    assert (calm.low, calm.high) == pytest.approx((1.0, 1.1))
