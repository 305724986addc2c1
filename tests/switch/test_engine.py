"""Two models that take turns on one reply."""

from __future__ import annotations

import numpy as np
import pytest

from edgedec.control.switching import EntropySwitching, SwitchRule
from edgedec.core.errors import ContextFullError, UsageError
from edgedec.decode.engine import Engine
from edgedec.decode.records import ReplyDetails
from edgedec.sampling import DrawParams
from tests.fixtures.tiny_models import run_tiny, tiny_bundle
from tests.switch.pairs import (
    LARGE_ALONE,
    SMALL_ALONE,
    Pair,
    engine_of,
    fresh_logits,
    next_logits,
)
from tests.switch.random_switching import RandomSwitching

PARAMS = [DrawParams(), DrawParams(temperature=0.7, top_p=0.9, seed=5)]


def prompt_of(pair: Pair) -> list[int]:
    return pair.large.tokenizer.encode("hello world, the ending is a", add_bos=False)


def alone(engine: Engine, prompt: list[int], params: DrawParams, tokens: int) -> list[int]:
    return [step.token for step in engine.generate(prompt, params, max_tokens=tokens, stop_ids=())]


@pytest.mark.parametrize("seed", range(4))
def test_after_any_switches_the_next_logits_are_those_of_a_fresh_prefill(folder, seed):
    pair = Pair(folder)
    params = PARAMS[seed % 2]
    pair.reply(prompt_of(pair), lambda: RandomSwitching(0.5, 1 + 2 * seed, seed=seed), params, 20 + 17 * seed)
    record, committed = pair.engine.switched, list(pair.engine.committed)
    assert record.switches > 1
    assert record.catch_up_tokens > 0
    found = next_logits(pair.large.forward, committed)
    assert np.array_equal(found, fresh_logits(folder, "llama", 0, committed))
    pair.small.forward.rewind(pair.small_engine.reusable(committed))
    assert pair.small.forward.length > 0
    found = next_logits(pair.small.forward, committed)
    assert np.array_equal(found, fresh_logits(folder, "llama", 1, committed))


@pytest.mark.parametrize("params", PARAMS)
def test_each_token_is_the_one_its_writer_would_draw_after_a_fresh_prefill(folder, params):
    pair = Pair(folder, drafts=True)
    prompt = prompt_of(pair)
    steps = pair.reply(prompt, lambda: RandomSwitching(0.5, 4, seed=1), params, 40)
    judges = {
        "large": engine_of(run_tiny(tiny_bundle(folder, "llama", seed=0)), False),
        "small": engine_of(run_tiny(tiny_bundle(folder, "llama", seed=1)), False),
    }
    assert {step.writer for step in steps} == {"large", "small"}
    for at, step in enumerate(steps):
        before = [*prompt, *(one.token for one in steps[:at])]
        judge = judges[step.writer or ""]
        judge.reset()
        assert alone(judge, before, params, 1) == [step.token]


@pytest.mark.parametrize("params", PARAMS)
def test_thresholds_below_zero_give_the_tokens_of_the_large_model_alone(folder, params):
    pair = Pair(folder)
    steps = pair.reply(prompt_of(pair), lambda: EntropySwitching(LARGE_ALONE), params)
    large = engine_of(run_tiny(tiny_bundle(folder, "llama", seed=0)), False)
    assert [step.token for step in steps] == alone(large, prompt_of(pair), params, 60)
    assert pair.engine.switched.switches == 0
    assert pair.engine.switched.share_of_large == 1.0


@pytest.mark.parametrize("params", PARAMS)
def test_an_infinite_threshold_gives_the_tokens_of_the_small_model_alone(folder, params):
    pair = Pair(folder)
    steps = pair.reply(prompt_of(pair), lambda: EntropySwitching(SMALL_ALONE), params)
    small = engine_of(run_tiny(tiny_bundle(folder, "llama", seed=1)), False)
    assert [step.token for step in steps] == alone(small, prompt_of(pair), params, 60)
    assert pair.engine.switched.share_of_large == 0.0


def test_drafts_do_not_change_a_switched_reply(folder):
    rule = SwitchRule(7.5, least_run=3)
    plain, drafted = (
        Pair(folder, drafts=drafts).reply(
            [1, 70, 71, 72, 70, 71, 72, 70], lambda: EntropySwitching(rule), PARAMS[1]
        )
        for drafts in (False, True)
    )
    assert [(one.token, one.writer) for one in plain] == [(one.token, one.writer) for one in drafted]
    assert len({one.writer for one in plain}) == 2


def test_steps_have_the_entropy_at_temperature_1_whatever_the_reply_is_drawn_at(folder):
    steps = []
    for params in (DrawParams(), DrawParams(temperature=0.6, seed=1)):
        engine = engine_of(run_tiny(tiny_bundle(folder, "llama", seed=0)), False)
        reply = engine.generate(
            [1, 70, 71], params, max_tokens=1, stop_ids=(), details=ReplyDetails(entropy=True)
        )
        steps.append(next(reply))
    logits = fresh_logits(folder, "llama", 0, [1, 70, 71])[0].astype(np.float64)
    probabilities = np.exp(logits - logits.max())
    probabilities /= probabilities.sum()
    expected = float(-(probabilities * np.log2(probabilities)).sum())
    assert [step.entropy_bits for step in steps] == pytest.approx([expected] * 2, rel=1e-5)


def test_a_reply_ends_at_the_length_asked_for_and_positions_run_on(folder):
    pair = Pair(folder)
    prompt = prompt_of(pair)
    steps = pair.reply(prompt, lambda: RandomSwitching(0.5, 2, seed=3), tokens=25)
    assert [step.position for step in steps] == list(range(len(prompt), len(prompt) + 25))
    assert [step.finish_reason for step in steps] == [*[None] * 24, "length"]


def test_a_token_of_which_the_small_model_is_unsure_is_the_large_ones(folder):
    """And the large one hands back behind the first token of which it is sure itself."""
    pair, bits = Pair(folder), 7.45
    prompt = prompt_of(pair)
    steps = pair.reply(prompt, lambda: EntropySwitching(SwitchRule(bits)), tokens=50)
    assert {step.writer for step in steps} == {"small", "large"}
    assert pair.engine.switched.dropped_tokens == (pair.engine.switched.switches + 1) // 2 > 3
    small = engine_of(run_tiny(tiny_bundle(folder, "llama", seed=1)), False)
    writers = ["small", *(step.writer for step in steps)]
    for at, step in enumerate(steps):
        asked = [*prompt, *(one.token for one in steps[:at])]
        details = ReplyDetails(entropy=True)
        (one,) = small.generate(asked, DrawParams(), max_tokens=1, stop_ids=(), details=details)
        before_sure = at == 0 or writers[at] == "small" or steps[at - 1].entropy_bits <= bits
        assert (step.writer == "small") == (before_sure and one.entropy_bits <= bits)


def test_the_small_model_drafts_while_the_large_one_writes_and_each_drafts_for_itself(folder, monkeypatch):
    monkeypatch.setattr("edgedec.core_lib.drafters.DOUBTS", (100.0, 0.02))  # random models are never sure

    def decide() -> RandomSwitching:
        return RandomSwitching(0.5, least_run=6, seed=2)

    pair, plain = Pair(folder, drafts=True), Pair(folder)
    pair.small_drafts_for_large()
    seen: list[tuple[int, int]] = []
    drafting = [one.speculation for one in (pair.large_engine, pair.small_engine)]
    for engine in (pair.engine, plain.engine):
        engine.decide_by(decide)
    found = []
    for step in pair.engine.generate(prompt_of(pair), DrawParams(), max_tokens=120, stop_ids=()):
        found.append(step.token)
        drafted = tuple(one.tally.drafted for one in drafting)
        if seen and drafted != seen[-1]:
            changed = [now != before for now, before in zip(drafted, seen[-1], strict=True)]
            assert step.writer == "large" or changed == [False, True], "only who writes drafts"
        seen.append(drafted)
    steps = plain.engine.generate(prompt_of(pair), DrawParams(), max_tokens=120, stop_ids=())
    assert [step.token for step in steps] == found
    assert min(seen[-1]) > 0
    assert drafting[0].tally.effort("small").proposed > 0


def test_a_newer_reply_ends_an_older_one(folder):
    pair = Pair(folder)
    old = pair.engine.generate(prompt_of(pair), DrawParams(), max_tokens=9, stop_ids=())
    next(old)
    pair.reply(prompt_of(pair), lambda: EntropySwitching(SMALL_ALONE), tokens=2)
    with pytest.raises(UsageError, match="newer reply"):
        next(old)


def test_a_prompt_longer_than_the_context_and_log_probabilities_are_refused(folder):
    pair = Pair(folder)
    with pytest.raises(ContextFullError, match="context holds"):
        pair.engine.generate([70] * 300, DrawParams(), max_tokens=1, stop_ids=())
    with pytest.raises(UsageError, match="two take turns"):
        pair.engine.generate([70], DrawParams(), max_tokens=1, stop_ids=(), details=ReplyDetails(logprobs=2))
