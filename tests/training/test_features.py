"""Features are the target's own, are kept on disk in bounded shards, and are never those of other texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.fake import MarkovForward
from edgedec.core.errors import UnsupportedError
from edgedec.core.rows import ALL_ROWS, Rows
from edgedec.training import features
from edgedec.training.features import (
    SHARD_ROLLOUTS,
    FeatureCache,
    Features,
    Teacher,
    bytes_a_token,
    trained_length,
)


@dataclass(frozen=True)
class Text:
    prompt: Sequence[int]
    reply: Sequence[int]


def texts(count: int) -> list[Text]:
    draw = np.random.default_rng(2)
    return [
        Text(draw.integers(0, 24, size).tolist(), draw.integers(0, 24, 3 + size // 2).tolist())
        for size in draw.integers(1, 40, count).tolist()
    ]


def equal(one: Features, other: Features) -> bool:
    names = ("tokens", "hidden", "ids", "logp")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


class Counting:
    """A teacher that counts the texts it computes."""

    def __init__(self, dies_after: int = 10**9) -> None:
        self._teacher = Teacher(MarkovForward())
        self._dies_after = dies_after
        self.computed = 0

    def __call__(self, text: Text) -> Features:
        if self.computed == self._dies_after:
            raise KeyboardInterrupt
        self.computed += 1
        return self._teacher.features(text)


def test_features_are_those_of_one_pass_over_prompt_and_reply() -> None:
    text = Text(range(10), [5, 3, 8, 1])
    forward = MarkovForward(max_pass=4)
    found = Teacher(forward).features(text)
    tokens = [*text.prompt, *text.reply]
    whole = MarkovForward().extend(tokens, rows=Rows(taps=(0, 0, 0)))
    assert found.tokens.tolist() == tokens
    assert found.first == 9
    assert whole.hidden is not None
    np.testing.assert_array_equal(found.hidden, whole.hidden.astype(np.float16))
    np.testing.assert_array_equal(found.ids, whole.ids[9:, :8])
    logits = MarkovForward().extend(tokens, rows=replace(ALL_ROWS, full=True)).logits
    assert logits is not None
    probs = np.exp(logits[9:]) / np.exp(logits[9:]).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        np.exp(found.logp.astype(np.float32)), np.take_along_axis(probs, found.ids, axis=1), rtol=5e-3
    )


def test_hidden_states_beyond_half_precision_are_cut_to_it() -> None:
    class Large(MarkovForward):
        def extend(self, tokens, **given):  # type: ignore[no-untyped-def, override]
            found = super().extend(tokens, **given)
            assert found.hidden is not None
            return replace(found, hidden=found.hidden * np.float32(1e9))

    hidden = Teacher(Large()).features(Text([1, 2], [3])).hidden
    assert np.isfinite(hidden).all()
    assert hidden.max() == np.float16(65504)


def test_a_target_without_hidden_states_is_refused() -> None:
    without = MarkovForward()
    without.caps = replace(without.caps, taps=())
    with pytest.raises(UnsupportedError, match="hands out no hidden states"):
        Teacher(without)


def test_kept_features_are_those_that_would_be_computed(tmp_path: Path) -> None:
    given, teacher = texts(70), Counting()
    cache = FeatureCache(given, teacher, tmp_path)
    cache.fill()
    assert teacher.computed == 70
    for index, text in enumerate(given):
        assert equal(cache[index], Counting()(text))
    assert teacher.computed == 70
    again = FeatureCache(given, Counting(dies_after=0), tmp_path)
    again.fill()
    assert equal(again[69], cache[69])


def test_without_a_folder_features_are_computed_at_every_use(tmp_path: Path) -> None:
    given, teacher = texts(5), Counting()
    cache = FeatureCache(given, teacher, None)
    assert cache.fill() == 0
    assert equal(cache[3], cache[3])
    assert teacher.computed == 2


def test_an_interrupt_costs_one_shard(tmp_path: Path) -> None:
    given = texts(100)
    with pytest.raises(KeyboardInterrupt):
        FeatureCache(given, Counting(dies_after=80), tmp_path).fill()
    rest = Counting()
    FeatureCache(given, rest, tmp_path).fill()
    assert rest.computed == 100 - 80


def test_more_texts_fill_up_the_last_shard(tmp_path: Path) -> None:
    given = texts(50)
    FeatureCache(given[:44], Counting(), tmp_path).fill()
    teacher = Counting()
    cache = FeatureCache(given, teacher, tmp_path)
    cache.fill()
    assert teacher.computed == 10  # the 4 of the partial shard again, and 6 new ones
    assert equal(cache[45], Counting()(given[45]))


def test_the_limit_of_bytes_holds_and_the_rest_is_computed(tmp_path: Path) -> None:
    given, teacher = texts(100), Counting()
    whole = FeatureCache(given, Counting(), tmp_path / "whole").fill()
    limit = whole // 2
    cache = FeatureCache(given, teacher, tmp_path / "half", limit)
    assert 0 < cache.fill() <= limit
    written = sum(file.stat().st_size for file in (tmp_path / "half").rglob("*.npy"))
    assert written <= limit + 16 * 128  # a header of 128 bytes a file
    assert equal(cache[99], Counting()(given[99]))


def test_the_stated_bytes_of_a_token_are_at_least_those_written(tmp_path: Path) -> None:
    given = [Text([3], range(20)) for _ in range(32)]
    kept = FeatureCache(given, Counting(), tmp_path).fill()
    assert kept <= 32 * 21 * bytes_a_token(Teacher(MarkovForward()).width)
    assert kept >= 0.9 * 32 * 21 * bytes_a_token(Teacher(MarkovForward()).width)


def test_features_of_other_texts_are_not_used(tmp_path: Path) -> None:
    FeatureCache(texts(40), Counting(), tmp_path).fill()
    others = [Text([*text.prompt, 7], text.reply) for text in texts(40)]
    cache = FeatureCache(others, Counting(), tmp_path)
    assert equal(cache[3], Counting()(others[3]))
    cache.fill()
    assert equal(cache[3], Counting()(others[3]))


@pytest.mark.parametrize("name", ["hidden.npy", "tokens.npy", "shard.json"])
def test_a_damaged_shard_is_computed_again(tmp_path: Path, name: str) -> None:
    given = texts(10)
    FeatureCache(given, Counting(), tmp_path).fill()
    file = tmp_path / "00000" / name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    teacher = Counting()
    cache = FeatureCache(given, teacher, tmp_path)
    cache.fill()
    assert teacher.computed == SHARD_ROLLOUTS
    assert equal(cache[3], Counting()(given[3]))


def test_training_sees_the_reply_and_the_end_of_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "CONTEXT_TOKENS", 8)
    for text in (Text(range(20), [5, 3, 8]), Text(range(6), [5, 3, 8]), Text([], [5, 3]), Text([1], [2])):
        whole = Teacher(MarkovForward()).features(text)
        found = whole.end_of_prompt()
        assert len(found.tokens) == trained_length(text)
        assert found.tokens.tolist() == [*text.prompt, *text.reply][-len(found.tokens) :]
        assert found.first == min(whole.first, 8)
        np.testing.assert_array_equal(found.hidden[-2:], whole.hidden[-2:])
        np.testing.assert_array_equal(found.ids, whole.ids)


def test_long_texts_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "LONGEST_TOKENS", 30)
    found = Teacher(MarkovForward()).features(Text([1] * 25, [2] * 50))
    assert len(found.tokens) == 30
    assert found.first == 24
