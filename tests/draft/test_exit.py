"""A target that drafts with its own layers: the same tokens, the same cache, nothing computed twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedec.assemble.checks import check_batch_drafting
from edgedec.assemble.config import RunConfig
from edgedec.assemble.runner import Runner
from edgedec.backends.fake import MarkovForward, without_exits
from edgedec.control import CostCurve
from edgedec.core.errors import UnsupportedError, UsageError
from edgedec.core.forward import Forward
from edgedec.core.rows import Keep
from edgedec.core.tree import DraftTree
from edgedec.decode.engine import Engine, PassRecord
from edgedec.decode.passes import PassTimer
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter, Lookup, Recycling
from edgedec.draft.exit import ExitDrafter, LayerSubset
from edgedec.draft.trimmed import TrimmedHead
from edgedec.drafters.registry import models_in, parsed
from edgedec.eviction.sliding import Sliding
from edgedec.sampling import DrawParams
from tests.decode.test_engine import EVERY_KIND, GREEDY, tokens
from tests.decode.test_speculation import oracle, random_trees
from tests.fixtures.nightly import diagonal
from tests.fixtures.ready import ready_of
from tests.session.parrot import load_parrot

VOCAB = 24
CHEAP = {1: 0.01, 16: 0.012}


def exits(forward: Forward, *chosen: int, keep: Keep | None = None) -> list[Drafter]:
    trimmed = None if keep is None else TrimmedHead(keep, bound=0.5)
    return [ExitDrafter(forward, exit, trimmed) for exit in chosen or forward.caps.exits]


def kept(seed: int, count: int) -> Keep:
    return np.sort(np.random.default_rng(seed).choice(VOCAB, count, replace=False)).astype(np.int64)


@pytest.mark.parametrize(("exit", "params"), diagonal([1, 2, 4], EVERY_KIND))
def test_tokens_and_cache_are_those_of_plain_decoding(exit: int, params: DrawParams) -> None:
    for keep in (None, kept(exit, 3), kept(exit, 17)):
        forward, plain = MarkovForward(), MarkovForward()
        engine = Engine(forward, speculation=Speculation(exits(forward, exit, keep=keep)))
        for prompt in ([1, 2, 1, 2, 1], [1, 2, 1, 2, 1, 7], [0, 1, 2] * 12):
            assert tokens(engine, prompt, params, 20) == tokens(Engine(plain), prompt, params, 20)
            assert forward.length == len(engine.committed) - (forward.length < len(engine.committed))
            assert forward._slots[: forward.length] == plain._slots[: forward.length]


@settings(max_examples=50, deadline=None)
@given(
    turns=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=9), min_size=1, max_size=4),
    seed=st.integers(0, 9),
    taken=st.integers(1, 12),
    limit=st.integers(1, 15),
    trimmed=st.sampled_from([0, 0, 0, 1, 3, 9, VOCAB]),
    controlled=st.booleans(),
)
def test_over_turns_that_are_cut_short(
    turns: list[list[int]], seed: int, taken: int, limit: int, trimmed: int, controlled: bool
) -> None:
    """With other drafters, and often all exits, each turn goes on from a part of the last reply."""
    params = DrawParams(temperature=0.6, top_k=4, seed=seed)
    forward = MarkovForward()
    drafters = (
        exits(forward, keep=kept(seed, trimmed)) if trimmed else [random_trees(seed), oracle(params, 3)]
    )
    drafters += [Lookup(), Recycling(memory=1 << 16)]
    costs = CostCurve(CHEAP) if controlled else None
    engine = Engine(forward, speculation=Speculation(drafters, costs, limit=limit))
    sequence: list[int] = []
    for turn in turns:
        sequence += turn
        steps = engine.generate(sequence, params, max_tokens=12, stop_ids=())
        read = [next(steps).token for _ in range(taken)]
        steps.close()
        assert read == tokens(Engine(MarkovForward()), sequence, params, taken)
        assert engine.committed == sequence + read
        assert engine.reusable([*engine.committed, 1]) in (len(engine.committed), len(engine.committed) - 1)
        sequence += read


def test_the_pass_computes_nothing_twice() -> None:
    forward = MarkovForward()
    seen: list[PassRecord] = []
    engine = Engine(forward, speculation=Speculation(exits(forward, 4), limit=3), observe=seen.append)
    tokens(engine, [1, 2, 3], n=13)
    rounds = [record for record in seen if record.drafted]
    # The last exit is always right: three drafted, which took three peeks, and the target's own.
    assert [record.committed for record in rounds] == [4, 4, 4]
    assert forward.peeks == forward.reused == 3 * len(rounds)


def test_the_fed_tree_begins_with_the_peeked_path() -> None:
    """Also where another drafter's tokens are more probable."""

    class Wide(Drafter):
        name = "wide"

        def begin(self, tokens: Sequence[int], kept: int) -> None: ...

        def commit(self, tokens: Sequence[int]) -> None: ...

        def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
            return DraftTree((20, 21, 22), (-1, -1, 0), (1.0, 1.0, 1.0), ("wide",) * 3)

    forward = MarkovForward()
    seen: list[PassRecord] = []
    speculation = Speculation([Wide(), *exits(forward, 4)], limit=6)
    assert tokens(Engine(forward, speculation=speculation, observe=seen.append), [1, 2, 3], n=13) == tokens(
        Engine(MarkovForward()), [1, 2, 3], n=13
    )
    trees = [record.tree for record in seen if len(record.tree)]
    assert all(tree.sources[0] == "exit-4" for tree in trees if "exit-4" in tree.sources)
    assert any({"wide", "exit-4"} <= set(tree.sources) for tree in trees)
    assert forward.reused >= sum(tree.sources.count("exit-4") for tree in trees) > 0


def test_at_the_end_of_the_context_and_with_one_token_to_go() -> None:
    for capacity in (5, 8, 10):
        forward = MarkovForward(capacity=capacity)
        engine = Engine(forward, speculation=Speculation(exits(forward)))
        found = tokens(engine, [1, 2, 3], n=50)
        assert found == tokens(Engine(MarkovForward(capacity=capacity)), [1, 2, 3], n=50)
        assert len(engine.committed) == capacity


def test_while_old_tokens_leave_the_cache() -> None:
    def engine(forward: MarkovForward, *drafters: Drafter) -> Engine:
        policy = Sliding(forward)
        return Engine(forward, speculation=Speculation(drafters) if drafters else None, policy=policy)

    forward = MarkovForward(capacity=24, context=200)
    plain = MarkovForward(capacity=24, context=200)
    drafted = engine(forward, *exits(forward))
    assert tokens(drafted, [1, 2, 3], n=90) == tokens(engine(plain), [1, 2, 3], n=90)
    assert forward.reused > 0


def test_a_failed_peek_costs_the_drafter_and_no_token() -> None:
    class Failing(MarkovForward):
        def peek(self, *args: object, **options: object) -> None:  # type: ignore[override]
            if len(self.peeked) == 1:
                raise MemoryError("no room")
            return super().peek(*args, **options)  # type: ignore[arg-type, return-value]

    forward = Failing()
    notices: list[str] = []
    engine = Engine(forward, speculation=Speculation(exits(forward, 4), notice=notices.append))
    assert tokens(engine, [1, 2, 3], n=20) == tokens(Engine(MarkovForward()), [1, 2, 3], n=20)
    assert notices == ["drafter exit-4 failed and is off: no room"]


def test_it_states_how_often_it_was_right_and_stops_where_that_is_too_little() -> None:
    def fed(exit: int) -> float:
        forward = MarkovForward(capacity=600)
        drafter = ExitDrafter(forward, exit)
        tokens(Engine(forward, speculation=Speculation([drafter], limit=1)), [1, 2, 3], n=400)
        drafter.begin([1, 2, 3], 0)
        forward.rewind(0)
        forward.extend([1, 2])
        (prob,) = drafter.propose(1).probs
        assert len(drafter.propose(8, floor=0.9)) == (8 if exit == 4 else 1)
        return prob

    assert fed(4) > 0.9
    assert fed(1) < 0.5


def test_exit_stands_for_every_exit_that_can_pay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [LayerSubset(3)]
    monkeypatch.setattr("edgedec.draft.exit.promising", lambda forward, trimmed: chosen)
    codec = load_parrot(tmp_path).codec
    forward = MarkovForward(vocab_size=codec.tokenizer.size)
    forward.caps = replace(forward.caps, exits=(1, 3, 4))
    model = ready_of(forward, codec)

    def drafters(names: str) -> tuple[str, ...]:
        speculation = Runner(model.prepared(RunConfig(draft=names))).engine.speculation
        assert speculation is not None
        return speculation.drafters

    assert drafters("exit") == ("exit-3",)
    assert drafters("lookup,exit-1,exit") == ("lookup", "exit-1", "exit-3")
    assert drafters("exit-4,exit") == ("exit-4", "exit-3")
    assert drafters("skip-1-3,exit") == ("skip-1-3", "exit-3")
    chosen.clear()
    assert drafters("lookup,exit") == ("lookup",)
    with pytest.raises(UsageError, match="no drafter exit-2") as caught:
        drafters("exit-2")
    assert caught.value.hint == "there are exit, exit-1, exit-3, exit-4"


def test_a_model_without_exits_says_so(tmp_path: Path) -> None:
    codec = load_parrot(tmp_path).codec
    model = ready_of(without_exits(MarkovForward(vocab_size=codec.tokenizer.size)), codec)
    with pytest.raises(UnsupportedError, match="no early exits"):
        Runner(model.prepared(RunConfig(draft="exit")))


def test_what_is_chosen() -> None:
    chosen = parsed("exit,exit-12,small,exit-x,skip,skip-4-8,skip-4,skip-4-8-12-16")
    assert [one.name for one in chosen if one.kind == "exit"] == ["exit", "exit-12", "skip-4-8"]
    assert models_in(chosen) == ("small", "exit-x", "skip", "skip-4", "skip-4-8-12-16")
    with pytest.raises(UsageError, match="exit cannot draft for a batch"):
        check_batch_drafting(parsed("exit"))


def test_control_finds_the_exit_that_pays() -> None:
    """In time that only passes and peeks take: those after all layers take a third of a pass."""
    now = [0.0]

    class Timed(MarkovForward):
        def peek(self, *args: object, **options: object):  # type: ignore[no-untyped-def, override]
            now[0] += 0.003 * options["exit"] / 4  # type: ignore[operator]
            return super().peek(*args, **options)  # type: ignore[arg-type]

        def extend(self, tokens, **options):  # type: ignore[no-untyped-def, override]
            now[0] += 0.01
            return super().extend(tokens, **options)

    forward = Timed(capacity=600)
    speculation = Speculation(exits(forward), CostCurve(CHEAP), clock=lambda: now[0])
    engine = Engine(forward, speculation=speculation, timer=PassTimer(lambda: now[0]))
    assert tokens(engine, [1, 2], n=500) == tokens(Engine(MarkovForward(capacity=600)), [1, 2], n=500)
    assert now[0] < 0.6 * 500 * 0.01
    counts = speculation.tally.by_source
    assert counts["exit-4"].accepted > 10 * sum(counts[name].accepted for name in counts.keys() - {"exit-4"})


def test_greedy_replies_may_end_inside_a_draft() -> None:
    plain = tokens(Engine(MarkovForward()), [1, 2, 3], GREEDY, 12)
    at = next(at for at in range(3, 12) if plain[at] not in plain[:at])
    forward = MarkovForward()
    speculation = Speculation([ExitDrafter(forward, 4, ends=[plain[at]])])
    engine = Engine(forward, speculation=speculation)
    steps = list(engine.generate([1, 2, 3], GREEDY, max_tokens=12, stop_ids={plain[at]}))
    assert [step.token for step in steps] == plain[: at + 1]
    assert speculation.tally.acceptance_rate == 1.0
