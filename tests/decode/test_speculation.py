"""Speculation changes how many passes it takes, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from edgedec.backends.fake import Expect, FakeForward, MarkovForward
from edgedec.control import CostCurve
from edgedec.core.errors import BackendError, DeviceLostError
from edgedec.core.rows import HeadRows
from edgedec.core.tree import DraftTree, chain
from edgedec.decode.engine import Engine, PassRecord
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter, Lookup, Recycling
from edgedec.sampling import DrawParams
from tests.decode.test_engine import EVERY_KIND, GREEDY, tokens
from tests.fixtures.rounds import begin_round

VOCAB = 24


class Drafting(Drafter):
    """A drafter that proposes what ``guess`` makes of the committed tokens."""

    def __init__(self, guess: Callable[[list[int], int], DraftTree], name: str = "guess") -> None:
        self.name = name
        self._guess = guess
        self._seen: list[int] = []

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        assert self._seen[:kept] == list(tokens[:kept])
        self._seen = list(tokens)

    def commit(self, tokens: Sequence[int]) -> None:
        self._seen += tokens

    def observe(self, tree: DraftTree, rows: HeadRows) -> None:
        assert len(rows) == 1 + len(tree)

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        return self._guess(self._seen, limit)


def oracle(params: DrawParams, depth: int) -> Drafting:
    """Knows the future, because it runs the model."""

    def guess(seen: list[int], limit: int) -> DraftTree:
        count = min(depth, limit)
        return chain(tokens(Engine(MarkovForward()), seen, params, count), [1.0] * count, "oracle")

    return Drafting(guess, "oracle")


def random_trees(seed: int) -> Drafting:
    generator = random.Random(seed)

    def guess(seen: list[int], limit: int) -> DraftTree:
        count = generator.randint(0, min(limit, 9))
        parents = tuple(generator.randint(-1, node - 1) for node in range(count))
        chosen = tuple(generator.randrange(VOCAB) for _ in range(count))
        return DraftTree(chosen, parents, (0.5,) * count, ("random",) * count)

    return Drafting(guess, "random")


def every_second_right(params: DrawParams) -> Drafting:
    """The right token beside wrong ones, two levels deep."""

    def guess(seen: list[int], limit: int) -> DraftTree:
        if limit < 2:
            return DraftTree()
        first, second = tokens(Engine(MarkovForward()), seen, params, 2)
        wrong = (first + 1) % VOCAB
        made = DraftTree((wrong, first, wrong, second), (-1, -1, 1, 1), (0.5,) * 4, ("half",) * 4)
        return made.first(limit)

    return Drafting(guess, "half")


DRAFTERS: dict[str, Callable[[DrawParams], list[Drafter]]] = {
    "oracle": lambda params: [oracle(params, 5)],
    "random": lambda params: [random_trees(1)],
    "half": lambda params: [every_second_right(params)],
    "lookup": lambda params: [Lookup()],
    "recycling": lambda params: [Recycling(memory=1 << 16)],
    "all": lambda params: [random_trees(2), Lookup(), Recycling(memory=1 << 16), every_second_right(params)],
}


@pytest.mark.parametrize("params", EVERY_KIND)
@pytest.mark.parametrize("name", DRAFTERS)
def test_tokens_are_those_of_plain_decoding(name: str, params: DrawParams) -> None:
    engine = Engine(MarkovForward(), speculation=Speculation(DRAFTERS[name](params)))
    for prompt in ([1, 2, 1, 2, 1], [1, 2, 1, 2, 1, 7], [0, 1, 2] * 12):
        assert tokens(engine, prompt, params, 20) == tokens(Engine(MarkovForward()), prompt, params, 20)


def test_an_oracle_saves_passes() -> None:
    seen: list[PassRecord] = []
    speculation = Speculation([oracle(GREEDY, 5)])
    engine = Engine(MarkovForward(), speculation=speculation, observe=seen.append)
    tokens(engine, [1, 2, 3], n=13)
    # The prompt's pass commits one, and each later one the five drafted and its own.
    assert [(record.fed, record.drafted, record.committed) for record in seen] == [
        (3, 0, 1),
        (6, 5, 6),
        (6, 5, 6),
    ]
    assert speculation.tally.block_efficiency == pytest.approx(13 / 3)
    assert speculation.tally.acceptance_rate == 1.0


def test_steps_say_who_drafted_them() -> None:
    seen: list[PassRecord] = []
    engine = Engine(MarkovForward(), speculation=Speculation([oracle(GREEDY, 2)]), observe=seen.append)
    steps = list(engine.generate([1, 2, 3], GREEDY, max_tokens=6, stop_ids=()))
    # the prompt's pass commits the target's own token, as does the end of every later round
    assert [step.source for step in steps] == [None, "oracle", "oracle", None, "oracle", None]
    assert [len(record.tree) for record in seen] == [0, 2, 1]
    assert [record.path for record in seen] == [(), (0, 1), (0,)]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_as_many_tokens_as_asked_for_with_every_seed(count: int, seed: int) -> None:
    params = DrawParams(temperature=0.9, seed=seed)
    engine = Engine(MarkovForward(), speculation=Speculation([oracle(params, 5), random_trees(seed)]))
    for prompt in ([1, 2, 3], [1, 2, 3, 4]):
        steps = list(engine.generate(prompt, params, max_tokens=count, stop_ids=()))
        assert [step.token for step in steps] == tokens(Engine(MarkovForward()), prompt, params, count)
        assert [step.finish_reason for step in steps] == [None] * (count - 1) + ["length"]
        assert engine.committed == [*prompt, *(step.token for step in steps)]


def test_the_draft_and_the_tokens_after_it_fit_the_context() -> None:
    forward = MarkovForward(capacity=10)
    engine = Engine(forward, speculation=Speculation([oracle(GREEDY, 8), random_trees(3)]))
    steps = list(engine.generate([1, 2, 3], GREEDY, max_tokens=50, stop_ids=()))
    assert len(engine.committed) == 10
    assert steps[-1].finish_reason == "length"


def test_a_tree_is_fed_behind_the_last_token_and_settled() -> None:
    tree = DraftTree((7, 8, 9), (-1, -1, 1), (0.5,) * 3, ("x",) * 3)
    script = [
        Expect(0, (1, 2), (3,)),
        Expect(2, (3, 7, 8, 9), (8, 1, 9, 5), (-1, 0, 0, 2)),
        Expect(5, (5,), (6,)),
    ]
    drafts = iter([tree, DraftTree()])
    speculation = Speculation([Drafting(lambda seen, limit: next(drafts))])
    forward = FakeForward(script)
    assert tokens(Engine(forward, speculation=speculation), [1, 2], n=5) == [3, 8, 9, 5, 6]
    assert forward.finished


def test_a_drafter_that_raises_is_dropped_with_one_line() -> None:
    def failing(seen: list[int], limit: int) -> DraftTree:
        raise RuntimeError("no idea")

    notices: list[str] = []
    drafters: list[Drafter] = [Drafting(failing, "broken"), oracle(GREEDY, 2)]
    speculation = Speculation(drafters, notice=notices.append)
    engine = Engine(MarkovForward(), speculation=speculation)
    assert tokens(engine, [1, 2]) == tokens(Engine(MarkovForward()), [1, 2])
    assert notices == ["drafter broken failed and is off: no idea"]
    assert speculation.drafters == ("oracle",)


def test_a_failed_draw_leaves_a_cache_to_go_on_from() -> None:
    class Failing(MarkovForward):
        broken = False

        def keep_path(self, nodes: Sequence[int]) -> None:
            if self.broken:
                raise BackendError("broken")
            super().keep_path(nodes)

    forward = Failing()
    engine = Engine(forward, speculation=Speculation([oracle(GREEDY, 3)]))
    steps = engine.generate([1, 2], GREEDY, max_tokens=9, stop_ids=())
    begun = [next(steps).token]
    forward.broken = True
    with pytest.raises(BackendError):
        next(steps)
    forward.broken = False
    expected = tokens(Engine(MarkovForward()), [1, 2], n=9)
    assert begun + tokens(engine, [1, 2, *begun], n=8) == expected


def test_a_drafter_that_is_always_wrong_is_soon_not_fed() -> None:
    """On a machine where every token of a pass costs as much as the first."""
    plain = tokens(Engine(MarkovForward(capacity=512)), [1, 2], n=200)
    wrong = Drafting(lambda seen, limit: chain([(plain[len(seen) - 2] + 1) % VOCAB] * 3, [0.9] * 3, "wrong"))
    costs = CostCurve({1: 0.01, 16: 0.16})
    speculation = Speculation([wrong], costs)
    engine = Engine(MarkovForward(capacity=512), speculation=speculation)
    assert tokens(engine, [1, 2], n=200) == plain
    assert speculation.tally.drafted < 10


def test_a_drafter_that_becomes_right_is_fed_again() -> None:
    plain = tokens(Engine(MarkovForward(capacity=512)), [1, 2], n=300)

    def guess(seen: list[int], limit: int) -> DraftTree:
        at = len(seen) - 2
        right = plain[at : at + min(limit, 4)]
        return chain(right if at > 100 else [(token + 1) % VOCAB for token in right], [0.7] * len(right), "x")

    speculation = Speculation([Drafting(guess)], CostCurve({1: 0.01, 16: 0.03}))
    engine = Engine(MarkovForward(capacity=512), speculation=speculation)
    assert tokens(engine, [1, 2], n=300) == plain
    assert speculation.tally.accepted > 100


def test_nobody_queries_a_drafter_that_is_gone() -> None:
    class Breaking(Drafting):
        calls = 0

        def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
            self.calls += 1
            raise RuntimeError("no idea")

    broken, live = Breaking(lambda seen, limit: DraftTree(), "broken"), oracle(GREEDY, 2)
    speculation = Speculation([broken, live], CostCurve({1: 0.01, 16: 0.012}))
    engine = Engine(MarkovForward(), speculation=speculation)
    assert tokens(engine, [1, 2], n=60) == tokens(Engine(MarkovForward()), [1, 2], n=60)
    assert broken.calls == 1
    assert speculation.tally.effort("oracle").queries > 10


def test_an_end_token_in_a_draft_ends_the_reply_and_nothing_is_drafted_or_credited_behind_it() -> None:
    plain = tokens(Engine(MarkovForward()), [1, 2, 3], GREEDY, 12)
    at = next(at for at in range(3, 12) if plain[at] not in plain[:at])
    for costs in (None, CostCurve({1: 0.01, 16: 0.01})):
        seen: list[PassRecord] = []
        speculation = Speculation([oracle(GREEDY, 8)], costs)
        engine = Engine(MarkovForward(), speculation=speculation, observe=seen.append)
        steps = list(engine.generate([1, 2, 3], GREEDY, max_tokens=12, stop_ids={plain[at]}))
        assert [step.token for step in steps] == plain[: at + 1]
        assert steps[-1].finish_reason == "stop"
        assert engine.committed == [1, 2, 3, *plain[: at + 1]]
        fed = [record.tree.tokens for record in seen]
        assert all(plain[at] not in tree[:-1] for tree in fed)
        assert any(plain[at] in tree for tree in fed)
        assert speculation.tally.acceptance_rate == 1.0
        assert speculation.tally.committed == len(steps)
        assert sum(record.committed for record in seen) == len(steps)
        assert speculation.tally.accepted == sum(step.source is not None for step in steps)


def test_a_lost_device_comes_through_the_core_and_the_drafter_stays() -> None:
    class Lost(Drafting):
        lost = True

        def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
            if self.lost:
                raise DeviceLostError("the device is gone")
            return super().propose(limit, floor)

    notices: list[str] = []
    drafter = Lost(lambda seen, limit: chain([7], [0.9], "guess"))
    speculation = Speculation([drafter], notice=notices.append)
    speculation.begin([1, 2], 0)
    with pytest.raises(DeviceLostError, match="the device is gone"):
        begin_round(speculation, 4)
    drafter.lost = False
    assert begin_round(speculation, 4).tree.tokens == (7,)
    assert (speculation.drafters, notices) == (("guess",), [])
