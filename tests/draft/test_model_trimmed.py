"""A draft model whose head computes some ids only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from edgedec.backends.fake import MarkovForward
from edgedec.decode.engine import Engine
from edgedec.decode.speculation import Speculation
from edgedec.draft.bridge import SameVocabulary
from edgedec.draft.model import ModelDrafter
from edgedec.draft.trimmed import TrimmedHead
from edgedec.sampling import DrawParams

VOCAB = 24
EVEN = np.arange(0, VOCAB, 2, dtype=np.int64)
GREEDY, SAMPLED = DrawParams(), DrawParams(temperature=0.8, top_k=5, seed=2)


def drafter(head: TrimmedHead | None = None) -> ModelDrafter:
    model = MarkovForward(capacity=256, sharpness=6.0)
    return ModelDrafter("small", model, SameVocabulary(VOCAB), head)


def reply(prompt: Sequence[int], params: DrawParams, speculation: Speculation | None = None) -> list[int]:
    engine = Engine(MarkovForward(sharpness=6.0), speculation=speculation)
    return [step.token for step in engine.generate(prompt, params, max_tokens=60, stop_ids=())]


@pytest.mark.parametrize("params", [GREEDY, SAMPLED])
def test_with_the_whole_vocabulary_kept_its_drafts_are_the_same_bit_for_bit(params: DrawParams) -> None:
    whole, plain = drafter(TrimmedHead(np.arange(VOCAB), 0.1)), drafter()
    text = [1, 2, 3]
    for one in (whole, plain):
        one.sampled(params)
        one.begin(text, 0)
    for step in range(40):
        trees = [one.propose(9) for one in (whole, plain)]
        assert trees[0] == trees[1]
        said = [*trees[0].tokens[:1], step % VOCAB]
        for one in (whole, plain):
            one.commit(said)


def test_it_drafts_kept_ids_only() -> None:
    small, plain = drafter(TrimmedHead(EVEN, 1.0)), drafter()
    for first in range(VOCAB):
        for one in (small, plain):
            one.begin([first], 0)
        tokens = small.propose(15).tokens
        assert tokens
        assert all(token % 2 == 0 or token == first for token in tokens)
    assert any(token % 2 for token in plain.propose(15).tokens)


def test_when_the_text_leaves_the_subset_all_ids_are_drafted_until_it_returns() -> None:
    small = drafter(head := TrimmedHead(EVEN, 0.01))
    small.begin([0, 2, 4], 0)
    small.propose(4)

    def drafted_after(tokens: Sequence[int]) -> set[int]:
        seen: set[int] = set()
        for token in tokens:
            small.commit([token])
            seen |= set(small.propose(8).tokens)
        return seen

    assert not {token for token in drafted_after([2, 4, 6, 8]) if token % 2}
    assert {token for token in drafted_after([3, *range(0, VOCAB, 2)]) if token % 2} > {3}
    assert head.keep is None
    drafted_after([n * 2 for n in range(12)] * 12)
    assert not {token for token in drafted_after([2, 4, 6, 8]) if token % 2} - {3}


@pytest.mark.parametrize("params", [GREEDY, SAMPLED])
def test_replies_are_those_of_plain_decoding(params: DrawParams) -> None:
    said: list[str] = []
    spoken = Speculation([drafter(TrimmedHead(EVEN, 0.4))], notice=said.append)
    for prompt in ([1, 2, 3], [7] * 9):
        assert reply(prompt, params, spoken) == reply(prompt, params)
    assert said == []
    assert spoken.tally.drafted > 0
    assert spoken.tally.accepted > 0


def test_what_it_sees_ahead_does_not_depend_on_the_trim() -> None:
    """The KV cache is evicted by it: replies would depend on what was drafted before."""
    text = [n * n % VOCAB for n in range(50)]
    assert drafter(TrimmedHead(EVEN, 0.1)).ahead(text, 12) == drafter().ahead(text, 12)


def test_bytes_read_are_fewer_while_the_head_is_trimmed() -> None:
    read = []
    for head in (None, TrimmedHead(EVEN, 1.0, 0.25), TrimmedHead(EVEN, 1.0, 0.75)):
        model = MarkovForward(capacity=256)
        model.nbytes = lambda: {"weights": 1000}  # type: ignore[method-assign]
        small = ModelDrafter("small", model, SameVocabulary(VOCAB), head)
        small.begin([1, 2, 3], 0)
        small.propose(1)
        read.append(small.bytes_read / model.passes)
    assert read == [1000, 750, 250]


def test_its_memory_includes_the_kept_ids() -> None:
    head = TrimmedHead(EVEN, 0.1)
    assert drafter(head).nbytes() == drafter().nbytes() + head.nbytes()
