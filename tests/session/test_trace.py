"""Which tokens were drafted, by whom, and in which round."""

from __future__ import annotations

from edgedec.session.trace import Traced, summary, traced

SOURCES = [None, "lookup", "lookup", None, None, "recycling"]


def test_rounds_end_with_the_targets_own_token() -> None:
    trace = traced([5, 6, 7, 8, 9, 10], list("abcdef"), SOURCES)
    assert [(one.text, one.source, one.depth, one.round) for one in trace] == [
        ("a", None, 0, 1),
        ("b", "lookup", 1, 2),
        ("c", "lookup", 2, 2),
        ("d", None, 0, 2),
        ("e", None, 0, 3),
        ("f", "recycling", 1, 4),  # an end token that was drafted: the round is cut there
    ]
    assert trace[1].as_json() == {"token": 6, "text": "b", "source": "lookup", "depth": 1, "round": 2}


def test_summary() -> None:
    trace = traced([5, 6, 7, 8, 9, 10], list("abcdef"), SOURCES)
    assert summary(trace) == "4 rounds, 1.50 tokens each: 3 of the target, lookup 2, recycling 1"
    assert summary([Traced(1, "a", None, 0, 1)]) == "1 round, 1.00 tokens each: 1 of the target"
    assert summary([]) == "no tokens"
