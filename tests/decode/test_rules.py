"""The engine under the classical rules: the law of plain decoding, a chain or tree at a time."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from edgedec.backends.fake import MarkovForward
from edgedec.core.rows import HeadRows, Rows
from edgedec.core.tree import ROOT, DraftTree
from edgedec.decode.engine import Engine, PassRecord
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter, DrafterCapabilities, Recycling
from edgedec.sampling import DrawParams, law
from edgedec.verify import KEYED, RULES, Chance, SeededChance, fitted
from tests.decode.test_engine import GREEDY, tokens
from tests.sampling import support as sampling
from tests.sampling.support import chi_square_p
from tests.verify.support import (
    F64,
    Context,
    Model,
    after,
    draft_chain,
    draft_chains,
    draft_without_replacement,
    grow,
)

VOCAB, PROMPT, REJECT, RUNS = 4, (1, 2), 1e-4, 400
WARM = DrawParams(temperature=0.8, top_p=0.97)
DRAFTS: dict[str, Callable[[Model, Chance], DraftTree]] = {
    "rejection": lambda q, chance: draft_chain(q, 2, chance),
    "recursive": lambda q, chance: draft_without_replacement(q, (2, 2), chance),
    "k-seq": lambda q, chance: draft_chains(q, 2, 2, chance),
}


@functools.cache
def logits(seed: int, context: Context) -> tuple[float, ...]:
    head = MarkovForward(vocab_size=VOCAB, sharpness=1.5, seed=seed).extend(
        context, rows=Rows(last=True, full=True)
    )
    assert head.logits is not None
    return tuple(head.logits[0].tolist())


@functools.cache
def model(seed: int, context: Context) -> F64:
    """The law after a context, through the warpers of the target."""
    forward = MarkovForward(vocab_size=VOCAB, sharpness=1.5, seed=seed)
    return law(forward.extend(context, rows=Rows(last=True, full=True)), 0, WARM, context, VOCAB)


class Drawing(Drafter):
    """A drafter that draws from a small model, and says from what."""

    name = "small"

    def __init__(self, rule: str, seed: int, *, of: int = 5, said: int = 5) -> None:
        self.caps = DrafterCapabilities(rule=None if rule == KEYED else rule)
        self._draft, self._seed, self._of, self._said = DRAFTS.get(rule, DRAFTS["recursive"]), seed, of, said
        self._seen: Context = ()

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        self._seen = tuple(tokens)

    def commit(self, tokens: Sequence[int]) -> None:
        self._seen += tuple(tokens)

    def learn(self, tree: DraftTree, rows: HeadRows) -> None:
        assert len(tree) + 1 == len(rows)

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        seen = self._seen
        tree = self._draft(
            lambda context: model(self._of, seen + context), SeededChance(99, self._seed, len(seen))
        )
        laws = after(lambda context: model(self._said, seen + context), tree)
        return DraftTree(tree.tokens, tree.parents, tree.probs, tree.sources, laws).first(limit)


class Guessing(Drawing):
    """Drafts the same tree every time."""

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        return grow([2, 0, 1, 3], [ROOT, ROOT, 0, 1]).first(limit)


def reply(drafter: Drafter, seed: int, passes: list[PassRecord] | None = None) -> Context:
    forward = MarkovForward(vocab_size=VOCAB, sharpness=1.5, seed=1)
    speculation = Speculation([drafter])
    engine = Engine(forward, speculation=speculation, observe=passes.append if passes is not None else None)
    params = DrawParams(temperature=WARM.temperature, top_p=WARM.top_p, seed=seed)
    return tuple(step.token for step in engine.generate(PROMPT, params, max_tokens=3, stop_ids=()))


@functools.cache
def expected() -> dict[Context, float]:
    """The law of the next three tokens, by an independent implementation of the warpers."""
    out = {}
    for path in itertools.product(range(VOCAB), repeat=3):
        out[path] = 1.0
        for at, token in enumerate(path):
            out[path] *= sampling.law(logits(1, PROMPT + path[:at]), WARM).get(token, 0.0)
    return {path: probability for path, probability in out.items() if probability > 0}


@pytest.mark.parametrize("rule", [KEYED, *RULES])
def test_three_tokens_have_the_law_of_plain_decoding(rule: str) -> None:
    passes: list[PassRecord] = []
    counts = Counter(reply(Drawing(rule, seed), seed, passes) for seed in range(RUNS))
    assert chi_square_p(counts, expected()) > REJECT
    assert sum(record.committed > 1 for record in passes) > RUNS // 4  # drafts were accepted


@pytest.mark.parametrize("rule", RULES)
def test_so_they_have_when_nothing_was_drawn(rule: str) -> None:
    passes: list[PassRecord] = []
    counts = Counter(reply(Guessing(rule, 0), seed, passes) for seed in range(RUNS))
    assert chi_square_p(counts, expected()) > REJECT
    assert sum(record.committed > 1 for record in passes) > RUNS // 5


@pytest.mark.parametrize("rule", RULES)
def test_a_drafter_that_misstates_its_law_is_caught(rule: str) -> None:
    counts = Counter(reply(Drawing(rule, seed, said=6), seed) for seed in range(RUNS))
    assert chi_square_p(counts, expected()) < REJECT


@pytest.mark.parametrize("rule", RULES)
def test_a_seed_reproduces(rule: str) -> None:
    first = [reply(Drawing(rule, seed), seed) for seed in range(40)]
    assert [reply(Drawing(rule, seed), seed) for seed in range(40)] == first
    assert len(set(first)) > 10


@pytest.mark.parametrize("rule", RULES)
def test_greedy_decoding_stays_what_it_is(rule: str) -> None:
    plain = tokens(Engine(MarkovForward()), [1, 2, 3], GREEDY, 60)
    drafter = Recycling(memory=1 << 16)
    drafter.caps = DrafterCapabilities(rule=rule)
    engine = Engine(MarkovForward(), speculation=Speculation([drafter]))
    assert tokens(engine, [1, 2, 3], GREEDY, 60) == plain


def test_a_rule_gets_what_it_can_take() -> None:
    tree = grow([5, 6, 7, 8, 9], [ROOT, ROOT, 0, 1, 2])
    drawn = DraftTree(tree.tokens, tree.parents, tree.probs, tree.sources, lambda node: np.eye(6)[node + 1])
    for rule in (KEYED, "recursive"):
        assert fitted(rule, tree) is tree
    assert fitted("k-seq", drawn) is drawn
    for cut in (fitted("rejection", tree), fitted("k-seq", tree), fitted("rejection", drawn)):
        assert (cut.tokens, cut.parents) == ((5, 7, 9), (ROOT, 0, 1))
    laws = fitted("rejection", drawn).laws
    assert laws is not None
    assert [laws(node).tolist() for node in range(-1, 3)] == np.eye(6)[[0, 1, 3, 5]].tolist()
    assert fitted("rejection", drawn.first(1)).laws is drawn.laws
