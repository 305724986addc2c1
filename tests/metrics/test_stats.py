from __future__ import annotations

from collections.abc import Callable

import pytest

from edgedec.metrics.stats import ReplyStats, ReplyTimer


def ticking(*times: float) -> Callable[[], float]:
    left = iter(times)
    return lambda: next(left)


def test_prefill_ends_and_decoding_begins_at_the_first_token() -> None:
    timer = ReplyTimer(prompt_tokens=30, reused_tokens=10, clock=ticking(100.0, 102.0, 102.5, 103.0))
    for _ in range(3):
        timer.token()
    stats = timer.stats()
    assert stats == ReplyStats(30, 10, 3, prefill_s=2.0, decode_s=1.0)
    assert stats.prefill_tokens_per_s == 10.0
    assert stats.decode_tokens_per_s == 2.0
    assert stats.context_tokens == 33


def test_nothing_measured_is_none_not_zero_or_infinite() -> None:
    empty = ReplyTimer(prompt_tokens=5, reused_tokens=0, clock=ticking(1.0)).stats()
    assert (empty.prefill_tokens_per_s, empty.decode_tokens_per_s) == (None, None)
    single = ReplyTimer(prompt_tokens=5, reused_tokens=5, clock=ticking(1.0, 2.0))
    single.token()
    assert (single.stats().prefill_tokens_per_s, single.stats().decode_tokens_per_s) == (None, None)


def test_json_has_the_documented_fields() -> None:
    assert ReplyStats(20, 0, 5, 2.0, 1.0).as_json() == {
        "prompt_tokens": 20,
        "reused_tokens": 0,
        "completion_tokens": 5,
        "prefill_s": 2.0,
        "decode_s": 1.0,
        "prefill_tokens_per_s": 10.0,
        "decode_tokens_per_s": 4.0,
    }


@pytest.mark.parametrize(
    ("stats", "line"),
    [
        (ReplyStats(18, 0, 43, 0.1, 1.2), "43 tokens, 35.0 tok/s | prompt 18 at 180 tok/s | context 61/2048"),
        (ReplyStats(18, 8, 1, 0.1, 0.0), "1 token | prompt 18 (8 reused) at 100 tok/s | context 19/2048"),
        (ReplyStats(18, 0, 0, 0.0, 0.0), "0 tokens | prompt 18 | context 18/2048"),
    ],
)
def test_summary_line(stats: ReplyStats, line: str) -> None:
    assert stats.summary(2048) == line
