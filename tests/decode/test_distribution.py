"""Sampled replies with drafts have the distribution of plain decoding."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgedec.backends.fake import MarkovForward
from edgedec.core.rows import HeadRows, Rows
from edgedec.core.tree import ROOT, DraftTree
from edgedec.decode.engine import Engine, PassRecord
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter
from edgedec.sampling import DrawParams
from tests.reference.sampling import distribution
from tests.sampling import support as sampling
from tests.sampling.support import chi_square_p

Context = tuple[int, ...]
VOCAB, PROMPT, REJECT, RUNS = 4, (1, 2), 1e-4, 400
WARM = DrawParams(temperature=0.8, top_p=0.97)


@functools.cache
def logits(seed: int, context: Context) -> tuple[float, ...]:
    head = MarkovForward(vocab_size=VOCAB, sharpness=1.5, seed=seed).extend(
        context, rows=Rows(last=True, full=True)
    )
    assert head.logits is not None
    return tuple(head.logits[0].tolist())


@functools.cache
def model(seed: int, context: Context) -> NDArray[np.float64]:
    """The distribution after a context, through the warpers of the target."""
    forward = MarkovForward(vocab_size=VOCAB, sharpness=1.5, seed=seed)
    return distribution(forward.extend(context, rows=Rows(last=True, full=True)), 0, WARM, context, VOCAB)


class Drawing(Drafter):
    """A drafter that draws from a small model."""

    name = "small"

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._seen: Context = ()

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        self._seen = tuple(tokens)

    def commit(self, tokens: Sequence[int]) -> None:
        self._seen += tuple(tokens)

    def observe(self, tree: DraftTree, rows: HeadRows) -> None:
        assert len(tree) + 1 == len(rows)

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        """Return two different tokens, and two behind each of these."""
        chance = np.random.default_rng([99, self._seed, len(self._seen)])
        tokens: list[int] = []
        parents: list[int] = []
        level = [(ROOT, self._seen)]
        for _ in range(2):
            behind = []
            for node, text in level:
                law = model(5, text)
                for token in chance.choice(
                    VOCAB, min(2, int(np.count_nonzero(law))), replace=False, p=law
                ).tolist():
                    behind.append((len(tokens), (*text, token)))
                    tokens.append(token)
                    parents.append(node)
            level = behind
        named = (self.name,) * len(tokens)
        return DraftTree(tuple(tokens), tuple(parents), (0.5,) * len(tokens), named).first(limit)


def reply(drafter: Drafter, seed: int, passes: list[PassRecord] | None = None) -> Context:
    forward = MarkovForward(vocab_size=VOCAB, sharpness=1.5, seed=1)
    speculation = Speculation([drafter])
    engine = Engine(forward, speculation=speculation, observe=passes.append if passes is not None else None)
    params = DrawParams(temperature=WARM.temperature, top_p=WARM.top_p, seed=seed)
    return tuple(step.token for step in engine.generate(PROMPT, params, max_tokens=3, stop_ids=()))


@functools.cache
def expected() -> dict[Context, float]:
    """The distribution of the next three tokens, by an independent implementation of the warpers."""
    out = {}
    for path in itertools.product(range(VOCAB), repeat=3):
        out[path] = 1.0
        for at, token in enumerate(path):
            out[path] *= sampling.distribution(logits(1, PROMPT + path[:at]), WARM).get(token, 0.0)
    return {path: probability for path, probability in out.items() if probability > 0}


def test_three_tokens_have_the_distribution_of_plain_decoding() -> None:
    passes: list[PassRecord] = []
    counts = Counter(reply(Drawing(seed), seed, passes) for seed in range(RUNS))
    assert chi_square_p(counts, expected()) > REJECT
    assert sum(record.committed > 1 for record in passes) > RUNS // 4  # drafts were accepted
