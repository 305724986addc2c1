"""The torch head computes the head of the export, also over its own outputs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from edgedec.training.unrolling import visible
from tests.reference import draft_head as reference
from tests.training.toy import KEEP, VOCAB, D, random_head, same

torch = pytest.importorskip("torch")

ROWS, STEPS = 9, 4


@pytest.fixture
def texts() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(1)
    return (
        draw.standard_normal((ROWS + STEPS + 1, D)).astype(np.float32),
        draw.standard_normal((ROWS + STEPS + 1, 3 * D)).astype(np.float32),
    )


def test_each_row_is_a_chain_that_the_reference_drafts(texts: tuple[np.ndarray, np.ndarray]) -> None:
    from edgedec.training.head_model import DraftHead

    embedded, taps = texts
    weights = random_head()
    head = DraftHead(weights, np.zeros((len(KEEP), D), dtype=np.float32))
    with torch.no_grad():
        found = [
            one[0].numpy()
            for one in head.unrolled(*map(torch.from_numpy, (embedded[None], taps[None])), STEPS)
        ]
    for row in range(ROWS):
        states = reference.fused(weights, taps[: row + 1])
        read = embedded[1 : row + 2]
        for step in range(STEPS):
            count = row + 1 + step
            sees = np.tril(np.ones((count, count), dtype=bool))
            out = reference.layer(weights, states, read, np.arange(count), sees)
            np.testing.assert_allclose(found[step][row], out[-1], atol=2e-5)
            states = np.concatenate([states, out[-1:]])
            read = np.concatenate([read, embedded[row + 2 + step : row + 3 + step]])


def test_the_mask_of_unrolled_rows_gives_the_same_outputs_in_one_pass(
    texts: tuple[np.ndarray, np.ndarray],
) -> None:
    from edgedec.training.head_model import DraftHead

    embedded, taps = (part[:ROWS] for part in texts)
    weights = random_head()
    head = DraftHead(weights, np.zeros((len(KEEP), D), dtype=np.float32))
    with torch.no_grad():
        outputs = [
            one[0].numpy() for one in head.unrolled(*map(torch.from_numpy, (embedded[None], taps[None])), 3)
        ]
    states = [reference.fused(weights, taps), outputs[0], outputs[1]]
    read = [np.concatenate([embedded[1 + step :], np.zeros((1 + step, D), np.float32)]) for step in range(3)]
    sees = np.zeros((3 * ROWS, 3 * ROWS), dtype=bool)
    for step in range(3):
        sees[step * ROWS : (step + 1) * ROWS, : (step + 1) * ROWS] = visible(ROWS, step)
    positions = np.concatenate([np.arange(ROWS) + step for step in range(3)])
    found = reference.layer(weights, np.concatenate(states), np.concatenate(read), positions, sees)
    np.testing.assert_allclose(np.concatenate(outputs), found, atol=2e-5)


def test_weights_go_through_the_module_unchanged() -> None:
    from edgedec.training.head_model import DraftHead

    for own in (False, True):
        weights = random_head(own=own)
        back = DraftHead(weights, np.zeros((len(KEEP), D), dtype=np.float32)).weights()
        assert same(back, weights)
        assert (back.head is None) == (not own)


def test_the_cross_entropy_and_its_gradients_are_those_of_torch() -> None:
    from edgedec.training.head_model import cross_entropy

    torch.manual_seed(0)
    rows = torch.randn(700, D, requires_grad=True)
    matrix = torch.randn(VOCAB, D, requires_grad=True)
    places = torch.stack([torch.randperm(VOCAB)[:8] for _ in range(700)])
    probs = torch.rand(700, 8).softmax(dim=1)
    loss, guesses = cross_entropy(rows, matrix, places, probs)
    mine = torch.autograd.grad(loss * 3, (rows, matrix))
    logits = rows @ matrix.T
    wanted = -(probs * logits.log_softmax(dim=1).gather(1, places)).sum()
    theirs = torch.autograd.grad(wanted * 3, (rows, matrix))
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-5)
    assert torch.equal(guesses, logits.argmax(dim=1))
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_a_chain_does_not_depend_on_padding_behind_it(texts: tuple[np.ndarray, np.ndarray]) -> None:
    from edgedec.training.head_model import DraftHead

    embedded, taps = texts
    head = DraftHead(random_head(), np.zeros((len(KEEP), D), dtype=np.float32))
    outputs = []
    for size in (ROWS, ROWS + STEPS + 1):
        with torch.no_grad():
            given = (torch.from_numpy(part[None, :size]) for part in (embedded, taps))
            outputs.append([one[0, : ROWS - STEPS].numpy() for one in head.unrolled(*given, STEPS)])
    for short, long in zip(*outputs, strict=True):
        np.testing.assert_allclose(short, long, rtol=1e-5, atol=1e-5)


def test_rows_that_are_only_attended_to_change_nothing(texts: tuple[np.ndarray, np.ndarray]) -> None:
    from edgedec.training.head_model import DraftHead

    given = [torch.from_numpy(part[None]) for part in texts]
    head = DraftHead(random_head(), np.zeros((len(KEEP), D), dtype=np.float32))
    with torch.no_grad():
        for all_rows, last in zip(head.unrolled(*given, STEPS), head.unrolled(*given, STEPS, 5), strict=True):
            np.testing.assert_allclose(all_rows[:, 5:].numpy(), last.numpy(), rtol=1e-5, atol=1e-5)


def test_outputs_of_steps_differ() -> None:
    from edgedec.training.head_model import DraftHead

    draw = torch.randn(1, 6, D), torch.randn(1, 6, 3 * D)
    head = DraftHead(random_head(), np.zeros((len(KEEP), D), dtype=np.float32))
    for one, other in pairwise(head.unrolled(*draw, 3)):
        assert not torch.allclose(one, other)
