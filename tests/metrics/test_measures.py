"""Energy, memory-bound speed-up and the roofline of a reply, from the marks of its engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.core.model_spec import ModelSpec
from edgedec.memory.sizes import kv_bytes
from edgedec.metrics.marks import CounterSnapshot, Marks
from edgedec.metrics.mbsu import Weights, mbsu
from edgedec.metrics.measures import BANDWIDTH_FILE, IDLE_FILE, Measures, traffic_of
from edgedec.metrics.stats import ReplyStats
from edgedec.metrics.traffic import Traffic, Work
from edgedec.session.chat import Chat
from edgedec.session.reply import Reply, Settings
from edgedec.telemetry.bandwidth import Bandwidth, keep, kept, with_threads
from edgedec.telemetry.energy import Meter, NoMeter, Reading
from edgedec.telemetry.energy.estimate import MODEL
from edgedec.telemetry.energy.idle import IdlePower
from tests.fixtures.tiny_models import prepared_run, tiny_bundle
from tests.telemetry.test_energy_estimate import FakeMeter

MODEL_BYTES = 1000
TRAFFIC = Traffic(Weights(MODEL_BYTES, 100), slot_bytes=0, window_slot_bytes=0, products=2000)
PLAIN = ReplyStats(prompt_tokens=8, reused_tokens=0, completion_tokens=13, prefill_s=0.5, decode_s=2.0)


def measures(folder: Path | None = None, meter: Meter | None = None, traffic: Traffic = TRAFFIC) -> Measures:
    return Measures(traffic, meter, "no meter here", folder, threads=2)


def marks(passes: int, tokens: int, draft_bytes: int = 0, tables: int = 0) -> Marks:
    """A prompt of one pass over 8 tokens, then ``passes`` over ``tokens`` in all."""
    first = Work(1, 8, 8)
    end = Work(1 + passes, 8 + tokens, 8 + sum(range(9, 9 + passes)))
    return Marks(CounterSnapshot(Work()), CounterSnapshot(first), CounterSnapshot(end, draft_bytes, tables))


def metered(joules: tuple[float, float, float], *, interruptions: int = 0, seconds: float = 10.0) -> Marks:
    found = marks(12, 12)
    start, first, end = joules
    return Marks(
        replace(found.start, reading=Reading(0.0, start)),
        replace(found.first, reading=Reading(0.2 * seconds, first)),
        replace(found.end, reading=Reading(seconds, end, interruptions)),
    )


def test_without_drafts_the_memory_bound_speed_up_is_one() -> None:
    found = measures().mbsu(marks(12, 12), PLAIN)
    assert found is not None
    assert (found.streamed, found.parameters) == (1.0, 1.0)


def test_the_memory_bound_speed_up_by_hand() -> None:
    """12 tokens in 4 passes, a draft step of 100 bytes (200 with its embedding) four times a pass."""
    found = measures().mbsu(marks(4, 20, draft_bytes=4 * 400, tables=4 * 400), PLAIN)
    assert found is not None
    assert found.streamed == pytest.approx(3.0 / 1.4)
    assert found.parameters == pytest.approx(3.0 / (1.0 + 800 / 1100))
    by_steps = mbsu(3.0, 4, Weights(100.0, 100.0), Weights(1000.0, 100.0))
    assert (found.streamed, found.parameters) == pytest.approx((by_steps.streamed, by_steps.parameters))


def test_of_two_models_in_turn_both_count() -> None:
    """12 tokens: 2 passes of the large model, and 10 of a small one that reads a tenth."""
    small = Traffic(Weights(MODEL_BYTES / 10, 10), slot_bytes=0, window_slot_bytes=0, products=200)
    both, large, other = replace(measures(), small=small), marks(2, 6), marks(10, 10)
    found = Marks(*(replace(a, small=b) for a, b in zip(_three(large), _three(other), strict=True)))
    gain = both.mbsu(found, PLAIN)
    assert gain is not None
    assert gain.streamed == pytest.approx(12_000 / 3000)
    assert gain.parameters == pytest.approx(12 * 1100 / (2 * 1100 + 10 * 110))
    alone, small_alone = both.estimated(large, PLAIN), measures(traffic=small).estimated(other, PLAIN)
    assert both.estimated(found, PLAIN).low == pytest.approx(alone.low + small_alone.low)
    idle = replace(found, first=replace(found.first, work=Work()), end=replace(found.end, work=Work()))
    gain = both.mbsu(idle, PLAIN)
    assert gain is not None, "the large model wrote nothing"
    assert gain.streamed == pytest.approx(12.0)


def _three(found: Marks) -> tuple[CounterSnapshot, CounterSnapshot, CounterSnapshot]:
    return found.start, found.first, found.end


def test_a_reply_of_one_token_has_neither_speed_up_nor_rooflinelineline() -> None:
    single = replace(PLAIN, completion_tokens=1, decode_s=0.0)
    assert measures().mbsu(marks(0, 0), single) is None
    assert measures().roofline(marks(0, 0), single) is None
    assert measures().energy(marks(0, 0), single).joules_per_token is None


def test_the_estimate_counts_weights_once_a_pass_and_products_once_a_token() -> None:
    each = measures().estimated(marks(12, 12), PLAIN)
    fewer = measures().estimated(marks(6, 12), PLAIN)
    assert each.low is not None
    assert fewer.low is not None
    assert each.low - fewer.low == pytest.approx(6 * MODEL_BYTES * 80e-12)
    wasted = measures().estimated(marks(6, 24), PLAIN)
    assert wasted.low is not None
    assert wasted.low - fewer.low == pytest.approx(12 * TRAFFIC.products * 0.23e-12)


def test_bytes_that_drafters_read_are_in_the_estimate() -> None:
    without, drafted = (
        measures().estimated(marks(6, 12), PLAIN),
        measures().estimated(marks(6, 12, 900), PLAIN),
    )
    assert without.low is not None
    assert drafted.low is not None
    operations = 2 * TRAFFIC.products * 900 / MODEL_BYTES
    assert drafted.low - without.low == pytest.approx(900 * 80e-12 + operations / 2 * 0.23e-12)


def test_the_roofline_by_hand(tmp_path: Path) -> None:
    """6 tokens/s, each of 1,000,000 bytes, are 6 MB/s: a third of 18 MB/s."""
    keep([Bandwidth(2, 0.018)], tmp_path / BANDWIDTH_FILE)
    large = replace(TRAFFIC, weights=Weights(1_000_000))
    found = measures(tmp_path, traffic=large).roofline(marks(12, 12), PLAIN)
    assert found is not None
    assert (found.bytes_per_token, found.tokens_per_s, found.share) == pytest.approx((1e6, 6.0, 1 / 3))
    assert found.roof_tokens_per_s == pytest.approx(18.0)


def test_without_a_known_bandwidth_there_is_no_roofline(tmp_path: Path) -> None:
    assert measures(tmp_path).roofline(marks(12, 12), PLAIN) is None
    assert measures(None).as_json(marks(12, 12), PLAIN)["roof"] is None


def test_the_better_bandwidth_is_kept_and_damage_is_no_bandwidth(tmp_path: Path) -> None:
    file = tmp_path / "some" / BANDWIDTH_FILE
    keep([Bandwidth(1, 10.0), Bandwidth(4, 30.0)], file)
    keep([Bandwidth(1, 12.0), Bandwidth(4, 20.0)], file)
    assert kept(file) == [Bandwidth(1, 12.0), Bandwidth(4, 30.0)]
    assert with_threads(kept(file), 1) == Bandwidth(1, 12.0)
    assert with_threads(kept(file), 3) == Bandwidth(4, 30.0)
    file.write_text("[]")
    assert kept(file) == []
    assert with_threads([], 1) is None


def test_a_measurement_is_above_idle_power_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = IdlePower("fake", 2.0, at=0.0, seconds=1.0)
    files: list[Path | None] = []

    def known(meter: Meter, file: Path | None) -> IdlePower:
        files.append(file)
        return idle

    monkeypatch.setattr("edgedec.telemetry.energy.idle.known_idle", known)
    found = measures(tmp_path, FakeMeter(0.0)).energy(metered((5.0, 15.0, 55.0)), PLAIN)
    assert not found.estimated
    assert found.source == "fake"
    assert found.joules == pytest.approx(50.0 - 20.0)
    assert found.joules_per_token == pytest.approx((40.0 - 16.0) / 12)
    assert found.idle_w == 2.0
    assert found.low is found.high is None
    assert files == [tmp_path / IDLE_FILE]


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (metered((0.0, 1.0, 5.0), interruptions=1), "suspended or plugged in"),
        (metered((3.0, 3.0, 3.0)), "stand still"),
        (metered((0.0, 0.1, 0.2), seconds=0.001), "too short"),
        (marks(12, 12), "could no longer be read"),
    ],
)
def test_what_cannot_be_measured_is_estimated_and_says_why(found: Marks, reason: str) -> None:
    energy = measures(None, FakeMeter(0.0)).energy(found, PLAIN)
    assert energy.estimated
    assert energy.source == MODEL
    assert reason in energy.as_json()["reason"]  # type: ignore[operator]


def test_without_a_meter_the_estimate_names_the_reason() -> None:
    assert measures().energy(marks(12, 12), PLAIN).reason == "no meter here"


def test_a_slot_has_the_bytes_that_the_cache_plans_for_it() -> None:
    spec = ModelSpec("m", "gemma3", 100, 6, 4, 2, 32, 64, 512, ffn_size=128, n_window_layers=5, window=16)
    traffic = traffic_of(spec, 5000, "fp16")
    assert 10 * traffic.slot_bytes + 10 * traffic.window_slot_bytes == kv_bytes(spec, 10, "fp16")
    work = Work().plus(1, 10, spec.window).plus(3, 40, spec.window)
    assert work == Work(2, 4, 50, 26)
    assert traffic.bytes_read(work) == 2 * 5000 + 50 * traffic.slot_bytes + 26 * traffic.window_slot_bytes


def test_a_looked_up_table_is_not_read() -> None:
    spec = ModelSpec("m", "qwen2", 100, 2, 4, 2, 32, 64, 512, ffn_size=128, table_bytes=700)
    assert traffic_of(spec, 5000, None).weights == Weights(4300, 700)


def replied(folder: Path, meter: Meter | NoMeter, draft: str = "off") -> tuple[Reply, Runner]:
    config = RunConfig(threads=1, context=256, draft=draft)
    runner = Runner(prepared_run(tiny_bundle(folder), config, RunContext(meter=lambda: meter)))
    chat = Chat(runner.engine, runner.model.codec, Settings(max_tokens=12))
    reply = chat.complete("Once upon a time, once upon a")
    assert reply.marks is None
    reply.read()
    return reply, runner


def test_an_engine_counts_its_passes_and_the_slots_that_they_read(tmp_path: Path) -> None:
    reply, runner = replied(tmp_path, NoMeter(("nothing here",)))
    assert reply.marks is not None
    prompt, said = len(reply.prompt), len(reply.tokens)
    assert reply.marks.start.work == Work()
    assert reply.marks.first.work == Work(1, prompt, prompt)
    decoding = reply.marks.end.work.since(reply.marks.first.work)
    slots = sum(range(prompt + 1, prompt + said))
    assert decoding == Work(said - 1, said - 1, slots)
    found = runner.measures.as_json(reply.marks, reply.stats)
    assert found["mbsu"] == found["mbsu_with_embedding"] == 1.0
    assert found["energy"]["reason"] == "nothing here"  # type: ignore[index]


def test_the_meter_is_read_three_times_a_reply_however_long_it_is(tmp_path: Path) -> None:
    meter = FakeMeter(1.0)
    reads: list[int] = []
    meter.read = lambda: reads.append(1) or {"all": float(len(reads))}  # type: ignore[method-assign, func-returns-value]
    reply, _ = replied(tmp_path, meter)
    assert len(reply.tokens) == 12
    assert len(reads) == 3
    assert reply.marks is not None
    assert [mark.reading.joules for mark in (reply.marks.start, reply.marks.end) if mark.reading] == [
        1.0,
        3.0,
    ]


def test_rejected_tokens_take_operations_and_fewer_passes_take_fewer_bytes(tmp_path: Path) -> None:
    reply, runner = replied(tmp_path, NoMeter(("none",)), draft="lookup")
    assert reply.marks is not None
    assert runner.engine.speculation is not None
    tally = runner.engine.speculation.tally
    work = reply.marks.end.work
    assert work.passes == tally.rounds
    assert work.tokens == len(reply.prompt) + tally.rounds - 1 + tally.drafted


def test_a_batch_is_measured_as_a_whole_with_its_prompts() -> None:
    found = metered((5.0, 15.0, 55.0))
    energy = measures(None, FakeMeter(0.0)).batch_energy(found.start, found.end, 40, 2.0)
    assert not energy.estimated
    assert (energy.joules, energy.joules_per_token) == pytest.approx((30.0, 0.75))
    assert energy.idle_w == 2.0
    unknown = measures(None, FakeMeter(0.0)).batch_energy(found.start, found.end, 0, None)
    assert (unknown.joules, unknown.joules_per_token) == (50.0, None)


def test_a_batch_without_a_measurement_is_estimated_and_says_why() -> None:
    found = marks(12, 12)
    energy = measures().batch_energy(found.start, found.end, 10, None)
    assert (energy.estimated, energy.source, energy.reason) == (True, MODEL, "no meter here")
    assert energy.joules_per_token == pytest.approx(energy.joules / 10)
    assert energy.per_token_low is not None
    assert energy.per_token_high is not None
    assert energy.per_token_low < energy.joules_per_token < energy.per_token_high
    broken = metered((0.0, 1.0, 5.0), interruptions=1)
    asleep = measures(None, FakeMeter(0.0)).batch_energy(broken.start, broken.end, 10, None)
    assert "suspended" in asleep.reason
