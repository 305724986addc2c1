"""Log-probabilities: of the model's own distribution, whatever sampling does, with and without drafts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from edgedec.backends.fake import MarkovForward
from edgedec.core.errors import BackendError, UsageError
from edgedec.core.rows import Rows
from edgedec.core.tree import DraftTree, chain
from edgedec.core_lib.at_one import entropy_bits, logprob_of
from edgedec.decode.engine import Engine, Step
from edgedec.decode.records import ReplyDetails
from edgedec.decode.speculation import Speculation
from edgedec.sampling import DrawParams
from tests.decode.test_engine import EVERY_KIND, GREEDY
from tests.decode.test_speculation import Drafting

PROMPT = [1, 2, 1, 2, 1]


def model() -> MarkovForward:
    """More tokens than the head lists, so that a drawn one may be missing there."""
    return MarkovForward(vocab_size=90)


def steps(engine: Engine, params: DrawParams, logprobs: int) -> list[Step]:
    details = ReplyDetails(logprobs=logprobs)
    return list(engine.generate(PROMPT, params, max_tokens=20, stop_ids=(), details=details))


def truth(sequence: Sequence[int]) -> np.ndarray:
    logits = model().extend(sequence, rows=Rows(last=True, full=True)).logits
    assert logits is not None
    exact = logits[0].astype(np.float64)
    return exact - math.log(np.exp(exact).sum())


@pytest.mark.parametrize("params", [*EVERY_KIND, DrawParams(temperature=3.0, seed=1)])
def test_they_are_those_of_the_model_at_temperature_1(params: DrawParams) -> None:
    sequence = list(PROMPT)
    for step in steps(Engine(model()), params, 3):
        expected = truth(sequence)
        assert step.logprob == pytest.approx(expected[step.token], abs=1e-5)
        best = sorted(range(90), key=lambda token: (-expected[token], token))[:3]
        assert [token for token, _ in step.top] == best
        assert [value for _, value in step.top] == pytest.approx(expected[best].tolist(), abs=1e-5)
        sequence.append(step.token)


@pytest.mark.parametrize("params", EVERY_KIND)
def test_drafts_change_none_of_them(params: DrawParams) -> None:
    plain = steps(Engine(model()), params, 2)
    said = [step.token for step in plain]

    def right(seen: list[int], limit: int) -> DraftTree:
        following = said[len(seen) - len(PROMPT) :][: min(limit, 4)]
        return chain(following, [1.0] * len(following), "right")

    spoken = Speculation([Drafting(right)])
    drafted = steps(Engine(model(), speculation=spoken), params, 2)
    assert [(step.token, step.logprob, step.top) for step in drafted] == [
        (step.token, step.logprob, step.top) for step in plain
    ]
    assert spoken.tally.accepted > 10


@pytest.mark.parametrize("params", EVERY_KIND)
def test_asking_for_them_changes_no_token(params: DrawParams) -> None:
    asked = [step.token for step in steps(Engine(model()), params, 5)]
    assert asked == [step.token for step in steps(Engine(model()), params, 0)]


def test_nobody_pays_who_does_not_ask() -> None:
    seen: list[Rows] = []

    class Recording(MarkovForward):
        def extend(self, tokens, *, parents=None, rows=Rows(last=True)):  # type: ignore[no-untyped-def] # noqa: B008
            seen.append(rows)
            return super().extend(tokens, parents=parents, rows=rows)

    params = DrawParams(temperature=0.7, top_k=5)
    found = steps(Engine(Recording()), params, 0)
    assert all(step.logprob is None and step.top == () for step in found)
    assert not any(rows.full for rows in seen)
    seen.clear()
    steps(Engine(Recording()), GREEDY, 4)  # the head adds up at temperature 1, and lists the best token
    assert not any(rows.full for rows in seen)
    steps(Engine(Recording()), params, 4)
    assert seen[-1].full


@pytest.mark.parametrize("count", [-1, 65])
def test_no_more_than_the_head_lists(count: int) -> None:
    with pytest.raises(UsageError, match="not possible"):
        steps(Engine(model()), GREEDY, count)


def test_rows_without_what_it_takes_are_refused() -> None:
    head = model().extend(PROMPT, rows=Rows(last=True, temperature=0.5))
    with pytest.raises(BackendError, match="temperature 1 needs whole"):
        logprob_of(head, 0, int(head.ids[0, 0]), 1)
    with pytest.raises(BackendError, match="entropy at temperature 1 needs whole"):
        entropy_bits(head, 0)
    head = model().extend([3], rows=Rows(last=True))
    missing = next(token for token in range(90) if token not in head.ids[0])
    with pytest.raises(BackendError, match="outside the head's list"):
        logprob_of(head, 0, missing, 1)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_they_and_the_entropy_are_those_of_the_definition(temperature: float) -> None:
    head = model().extend(PROMPT, rows=Rows(full=True, temperature=temperature))
    assert head.logits is not None
    for row, logits in enumerate(head.logits.astype(np.float64)):
        shares = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        for token in (0, int(head.ids[row, 0]), int(head.ids[row, -1])):
            logprob, best = logprob_of(head, row, token, 2)
            assert logprob == pytest.approx(math.log(shares[token]), abs=2e-6)
            assert [found for found, _ in best] == head.ids[row, :2].tolist()
            assert best[0][1] == pytest.approx(math.log(shares.max()), abs=2e-6)
        assert entropy_bits(head, row) == pytest.approx(-(shares * np.log2(shares)).sum(), abs=2e-5)
