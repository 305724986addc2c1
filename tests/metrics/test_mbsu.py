"""MBSU: by hand, and the ablation that VocabTrim published, from its own numbers."""

from __future__ import annotations

import pytest

from edgedec.metrics.mbsu import Mbsu, Weights, chain_efficiency, mbsu

WIDTH, VOCABULARY, STEPS = 3072, 128_256, 4
TARGET = Weights(3_212_749_824)  # Llama-3.2-3B, whose embedding is its head
LAYER = WIDTH * WIDTH * 2 + WIDTH * 1024 * 2 + 3 * WIDTH * 8192
JOIN = 2 * WIDTH * WIDTH  # joins the hidden state and the embedding of the next token

PUBLISHED = {VOCABULARY: (3.63, 1.70), 65_536: (3.54, 1.83), 32_768: (3.43, 1.95), 16_384: (3.25, 1.90)}
"""Block efficiency and MBSU by ids of the head."""
STREAMED = {VOCABULARY: 2.21, 65_536: 2.53, 32_768: 2.69, 16_384: 2.68}
"""The same block efficiencies, where the input embedding costs nothing."""


def published(ids: int) -> Mbsu:
    drafter = Weights(LAYER + JOIN + ids * WIDTH, VOCABULARY * WIDTH)
    return mbsu(PUBLISHED[ids][0], STEPS, drafter, TARGET)


@pytest.mark.parametrize("ids", PUBLISHED)
def test_the_published_ablation_follows_from_its_own_numbers(ids: int) -> None:
    assert published(ids).parameters == pytest.approx(PUBLISHED[ids][1], rel=0.025)
    assert published(ids).streamed == pytest.approx(STREAMED[ids], abs=0.006)


def test_the_best_head_of_the_ablation_is_the_same_by_both_conventions() -> None:
    for convention in ("streamed", "parameters"):
        assert max(PUBLISHED, key=lambda ids: getattr(published(ids), convention)) == 32_768


def test_by_hand() -> None:
    """Four steps of a tenth of a pass: 3 tokens for 1.4 passes; with its embedding a step is a fifth."""
    found = mbsu(3.0, 4, Weights(10.0, 10.0), Weights(100.0))
    assert found.streamed == pytest.approx(3.0 / 1.4)
    assert found.parameters == pytest.approx(3.0 / 1.8)


def test_without_drafts_nothing_is_gained() -> None:
    assert mbsu(1.0, 0, Weights(10.0, 10.0), Weights(100.0, 7.0)) == Mbsu(1.0, 1.0)


def test_a_chain_commits_one_token_more_than_it_is_right() -> None:
    assert chain_efficiency(0.0, 4) == 1.0
    assert chain_efficiency(1.0, 4) == 5.0
    assert chain_efficiency(0.5, 2) == 1.75
