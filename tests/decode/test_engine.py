from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedec.backends.fake import Expect, FakeForward, MarkovForward, ScriptError
from edgedec.core.errors import ContextFullError, UsageError
from edgedec.core.rows import HeadRows, Rows
from edgedec.decode.engine import Engine, PassRecord, Step
from edgedec.decode.passes import PassTimer
from edgedec.decode.records import ReplyDetails
from edgedec.sampling import DrawParams
from tests.reference.sampling import DrawHistory, bound_after, draw
from tests.reference.settings import adjusts

GREEDY = DrawParams()
SAMPLED = DrawParams(temperature=0.8, top_k=10, top_p=0.9, seed=3)
EVERY_KIND = [
    GREEDY,
    SAMPLED,
    DrawParams(temperature=1.0, seed=4),
    DrawParams(temperature=0.7, top_k=5, repetition_penalty=1.2, seed=5),
    DrawParams(repetition_penalty=1.5),
    DrawParams(frequency_penalty=0.8, logit_bias=((3, 2.5), (5, -100.0))),
    DrawParams(temperature=0.9, top_p=0.9, presence_penalty=1.5, frequency_penalty=-0.2, seed=6),
    DrawParams(temperature=1.2, mirostat=1.5, seed=7),
    DrawParams(temperature=1.0, typical=0.8, edt=0.4, seed=8),
    DrawParams(temperature=1.5, top_k=12, eta=0.02, top_h=0.8, mirostat=2.0, frequency_penalty=0.3, seed=9),
]
PROMPTS = st.lists(st.integers(0, 2), min_size=1, max_size=12)


def tokens(engine: Engine, prompt: Sequence[int], params: DrawParams = GREEDY, n: int = 12) -> list[int]:
    return [step.token for step in engine.generate(prompt, params, max_tokens=n, stop_ids=())]


def plainly(prompt: Sequence[int], params: DrawParams, n: int) -> list[int]:
    """The definition: for each token a fresh model reads everything in one pass, and one token is drawn."""
    sequence, bound = list(prompt), None
    for _ in range(n):
        head = MarkovForward(max_pass=256).extend(sequence, rows=Rows(last=True, full=True))
        history = DrawHistory(params, sequence, said=len(sequence) - len(prompt), bound=bound)
        sequence.append(draw(head, 0, params, len(sequence), history))
        if params.mirostat:
            bound = bound_after(head, 0, params, sequence[-1], history)
    return sequence[len(prompt) :]


def test_feeds_each_token_once_and_only_the_last_row_of_the_prompt() -> None:
    script = [
        Expect(0, (1, 2, 3), ()),
        Expect(3, (4, 5), (10,)),
        Expect(5, (10,), (11,)),
        Expect(6, (11,), (12,)),
    ]
    forward = FakeForward(script, max_pass=3)
    engine = Engine(forward)
    steps = list(engine.generate([1, 2, 3, 4, 5], GREEDY, max_tokens=3, stop_ids=()))
    assert steps == [Step(10, 5), Step(11, 6), Step(12, 7, "length")]
    assert engine.committed == [1, 2, 3, 4, 5, 10, 11, 12]
    assert forward.finished


def test_a_long_prompt_is_fed_in_passes_short_enough_to_interrupt() -> None:
    seen: list[PassRecord] = []
    engine = Engine(MarkovForward(max_pass=512, capacity=512), observe=seen.append)
    tokens(engine, [0, 1, 2] * 100, n=1)
    assert [(record.start, record.fed) for record in seen] == [(0, 128), (128, 128), (256, 44)]


def test_the_fake_fails_on_a_wrong_token() -> None:
    forward = FakeForward([Expect(0, (1, 2), (3,))])
    with pytest.raises(ScriptError, match="expected"):
        list(Engine(forward).generate([1, 4], GREEDY, max_tokens=1, stop_ids=()))
    forward = FakeForward([Expect(0, (1,), (3,))])
    with pytest.raises(ScriptError, match="over"):
        list(Engine(forward).generate([1], GREEDY, max_tokens=2, stop_ids=()))


def test_a_stop_token_ends_it_and_is_committed() -> None:
    forward = FakeForward([Expect(0, (1, 2), (7,)), Expect(2, (7,), (9,))])
    engine = Engine(forward)
    steps = list(engine.generate([1, 2], GREEDY, max_tokens=2, stop_ids={8, 9}))
    assert steps == [Step(7, 2), Step(9, 3, "stop")]
    assert engine.committed == [1, 2, 7, 9]


@pytest.mark.parametrize("params", EVERY_KIND)
@pytest.mark.parametrize("max_pass", [1, 3, 64])
def test_the_tokens_are_those_of_the_definition(params: DrawParams, max_pass: int) -> None:
    prompt = [5, 1, 4, 1, 5, 9, 2, 6]
    assert tokens(Engine(MarkovForward(max_pass=max_pass)), prompt, params, 20) == plainly(prompt, params, 20)


def test_the_context_ends_it() -> None:
    engine = Engine(MarkovForward(capacity=10))
    steps = list(engine.generate([1] * 7, GREEDY, max_tokens=50, stop_ids=()))
    assert [step.position for step in steps] == [7, 8, 9]
    assert [step.finish_reason for step in steps] == [None, None, "length"]
    assert len(engine.committed) == engine.capacity == 10


def test_a_prompt_that_does_not_fit_is_refused_before_any_work() -> None:
    forward = MarkovForward(capacity=10)
    engine = Engine(forward)
    tokens(engine, [1, 2, 3], n=2)
    before, passes = list(engine.committed), forward.passes
    with pytest.raises(ContextFullError, match="the prompt has 10 tokens, and the context holds 10"):
        engine.generate([1] * 10, GREEDY, max_tokens=1, stop_ids=())
    assert (engine.committed, forward.passes, forward.length) == (before, passes, 4)
    assert len(tokens(engine, [1] * 9, n=5)) == 1


@pytest.mark.parametrize(("prompt", "n"), [([], 1), ([1], 0), ([1], -1), ([-1], 1), ([24], 1)])
def test_bad_arguments_are_usage_errors(prompt: list[int], n: int) -> None:
    with pytest.raises(UsageError):
        Engine(MarkovForward()).generate(prompt, GREEDY, max_tokens=n, stop_ids=())


def test_a_shared_prefix_is_not_computed_again() -> None:
    seen: list[PassRecord] = []
    engine = Engine(MarkovForward(), observe=seen.append)
    reply = tokens(engine, [1, 2, 3, 4], n=3)
    seen.clear()
    longer = [1, 2, 3, 4, *reply, 9, 9]
    assert engine.reusable(longer) == 6  # the last token of the reply was never fed
    tokens(engine, longer, n=1)
    assert (seen[0].start, seen[0].fed) == (6, 3)
    seen.clear()
    tokens(engine, [1, 2, 8], n=1)
    assert (seen[0].start, seen[0].fed) == (2, 1)
    seen.clear()
    tokens(engine, [1, 2], n=1)  # all of it is resident, but the last row is due
    assert (seen[0].start, seen[0].fed) == (1, 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(PROMPTS, st.integers(0, 4), st.sampled_from(EVERY_KIND)), min_size=1, max_size=6))
def test_reuse_and_closing_never_change_a_token(turns: list[tuple[list[int], int, DrawParams]]) -> None:
    """Prompts in any order on one engine, each read for a while and closed: as with a fresh engine each."""
    forward = MarkovForward(max_pass=4)
    engine = Engine(forward)
    for prompt, wanted, params in turns:
        fresh = tokens(Engine(MarkovForward()), prompt, params, 6)
        steps = engine.generate(prompt, params, max_tokens=6, stop_ids=())
        got = [next(steps).token for _ in range(wanted)]
        steps.close()
        assert got == fresh[:wanted]
        assert engine.committed == prompt + got
        assert forward.length <= len(engine.committed)


def test_progress_counts_the_tokens_of_the_prompt() -> None:
    seen: list[tuple[int, int]] = []
    engine = Engine(MarkovForward(max_pass=4))
    prompt = [1] * 10
    steps = engine.generate(
        prompt, GREEDY, max_tokens=4, stop_ids=(), progress=lambda done, total: seen.append((done, total))
    )
    assert len(list(steps)) == 4
    assert seen == [(4, 10), (8, 10), (10, 10)]


def test_an_interrupted_prefill_goes_on_where_it_stopped() -> None:
    def interrupt(done: int, total: int) -> None:
        if done >= 8:
            raise KeyboardInterrupt

    forward = MarkovForward(max_pass=4)
    engine = Engine(forward)
    prompt = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
    with pytest.raises(KeyboardInterrupt):
        next(engine.generate(prompt, GREEDY, max_tokens=4, stop_ids=(), progress=interrupt))
    assert forward.length == engine.reusable(prompt) == 8
    assert tokens(engine, prompt, n=4) == plainly(prompt, GREEDY, 4)


class Failing(MarkovForward):
    """Fails once, at its ``at``-th pass, before or after the cache took the tokens."""

    def __init__(self, at: int, *, late: bool) -> None:
        super().__init__(max_pass=4)
        self._at, self._late, self._count = at, late, 0

    def extend(
        self,
        tokens: Sequence[int],
        *,
        parents: Sequence[int] | None = None,
        rows: Rows = Rows(last=True),  # noqa: B008
    ) -> HeadRows:
        self._count += 1
        if self._count == self._at and not self._late:
            raise MemoryError
        head = super().extend(tokens, parents=parents, rows=rows)
        if self._count == self._at:
            raise MemoryError
        return head


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
def test_a_pass_that_fails_leaves_a_usable_engine(at: int, late: bool) -> None:
    engine = Engine(Failing(at, late=late))
    prompt = [3, 1, 4, 1, 5, 9]
    with pytest.raises(MemoryError):
        tokens(engine, prompt, SAMPLED, 8)
    done = engine.committed[len(prompt) :]
    expected = plainly(prompt, SAMPLED, 8)
    assert done == expected[: len(done)]
    assert tokens(engine, prompt, SAMPLED, 8) == expected


def test_an_older_iterator_cannot_disturb_a_newer_one() -> None:
    engine = Engine(MarkovForward())
    old = engine.generate([1, 2, 3], GREEDY, max_tokens=9, stop_ids=())
    next(old)
    unstarted = engine.generate([7], GREEDY, max_tokens=9, stop_ids=())
    new = engine.generate([4, 5], GREEDY, max_tokens=4, stop_ids=())
    first = next(new).token
    for stale in (old, unstarted):
        with pytest.raises(UsageError, match="newer"):
            next(stale)
    assert [first, *(step.token for step in new)] == plainly([4, 5], GREEDY, 4)


def test_passes_are_timed_by_the_given_clock() -> None:
    ticks = iter(range(100))
    seen: list[PassRecord] = []
    engine = Engine(
        MarkovForward(max_pass=2), observe=seen.append, timer=PassTimer(lambda: float(next(ticks)))
    )
    tokens(engine, [1, 2, 3], n=2)
    assert seen == [PassRecord(0, 2, 0, 1.0), PassRecord(2, 1, 1, 1.0), PassRecord(3, 1, 1, 1.0)]
    seen.clear()
    Engine(MarkovForward(), observe=seen.append)
    tokens(Engine(MarkovForward(), observe=seen.append), [1, 2, 3], n=1)
    assert seen == [PassRecord(0, 3, 1, None)]


def test_an_engine_starts_from_an_empty_cache() -> None:
    forward = MarkovForward()
    forward.extend([1, 2, 3])
    assert tokens(Engine(forward), [5, 6], n=3) == plainly([5, 6], GREEDY, 3)


def test_reset_and_adopt_say_what_the_cache_holds() -> None:
    forward = MarkovForward()
    engine = Engine(forward)
    expected = tokens(engine, [1, 2, 3], n=4)
    engine.reset()
    assert (engine.committed, forward.length) == ([], 0)
    forward.extend([1, 2])
    with pytest.raises(ValueError, match="3 tokens for a cache that holds 2"):
        engine.adopt([1, 2, 3])
    engine.adopt([1, 2])
    assert engine.reusable([1, 2, 3]) == 2
    assert tokens(engine, [1, 2, 3], n=4) == expected


def test_a_bias_of_a_token_that_the_model_does_not_have_is_refused() -> None:
    engine = Engine(MarkovForward())
    with pytest.raises(UsageError, match="names token 24, and the vocabulary has 24"):
        tokens(engine, [1, 2], DrawParams(logit_bias=((24, 1.0),)))
    assert tokens(engine, [1, 2], DrawParams(logit_bias=((23, 100.0),)), 2) == [23, 23]


@pytest.mark.parametrize("params", [one for one in EVERY_KIND if adjusts(one) or one.mirostat])
def test_a_reply_goes_on_as_if_it_had_not_been_cut(params: DrawParams) -> None:
    """What it said already counts, and so does mirostat's state; the next reply knows nothing of it."""
    prompt = [1, 2, 1]
    whole = list(Engine(MarkovForward()).generate(prompt, params, max_tokens=12, stop_ids=()))
    engine, before = Engine(MarkovForward()), whole[:5]
    cut = [*prompt, *(step.token for step in before)]
    details = ReplyDetails(start=3, bound=before[-1].bound)
    rest = list(engine.generate(cut, params, max_tokens=7, stop_ids=(), details=details))
    assert [(step.token, step.bound) for step in rest] == [(step.token, step.bound) for step in whole[5:]]
    assert list(engine.generate(prompt, params, max_tokens=12, stop_ids=())) == whole
