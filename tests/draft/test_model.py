from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedec.backends.fake import Expect, FakeForward, MarkovForward
from edgedec.core.forward import Capabilities
from edgedec.core.tree import ROOT, DraftTree
from edgedec.decode.engine import Engine
from edgedec.decode.speculation import Speculation
from edgedec.draft.bridge import SameVocabulary, TextBridge
from edgedec.draft.model import ModelDrafter
from edgedec.sampling import DrawParams
from tests.fixtures.rounds import begin_round
from tests.sampling.drawing import numbers

VOCAB = 24
GREEDY = DrawParams()
SAMPLED = DrawParams(temperature=0.8, seed=5)
EVERY_KIND = [
    GREEDY,
    SAMPLED,
    DrawParams(temperature=0.8, top_k=5, top_p=0.9, min_p=0.02, seed=2),
    DrawParams(temperature=1.3, top_n_sigma=1.5, seed=3),
    DrawParams(temperature=0.7, repetition_penalty=1.3, seed=4),
    DrawParams(repetition_penalty=1.3),
]


def drafter(**model: float) -> ModelDrafter:
    return ModelDrafter("small", MarkovForward(**{"capacity": 256, **model}), SameVocabulary(VOCAB))  # type: ignore[arg-type]


def tokens(engine: Engine, prompt: Sequence[int], params: DrawParams, count: int) -> list[int]:
    return [step.token for step in engine.generate(prompt, params, max_tokens=count, stop_ids=())]


def plain(prompt: Sequence[int], params: DrawParams, count: int) -> list[int]:
    return tokens(Engine(MarkovForward()), prompt, params, count)


@pytest.mark.parametrize("params", [GREEDY, SAMPLED])
def test_a_chain_of_the_same_model_is_accepted_whole(params: DrawParams) -> None:
    spoken = Speculation([drafter(sharpness=20.0)], limit=4)
    engine = Engine(MarkovForward(sharpness=20.0), speculation=spoken)
    expected = tokens(Engine(MarkovForward(sharpness=20.0)), [1, 2, 3], params, 60)
    assert tokens(engine, [1, 2, 3], params, 60) == expected
    assert spoken.tally.block_efficiency is not None
    assert spoken.tally.block_efficiency > 3.0


@pytest.mark.parametrize("params", EVERY_KIND)
@pytest.mark.parametrize("seed", [0, 1])
def test_tokens_are_those_of_plain_decoding(params: DrawParams, seed: int) -> None:
    said: list[str] = []
    spoken = Speculation([drafter(seed=seed, sharpness=6.0)], notice=said.append)
    engine = Engine(MarkovForward(), speculation=spoken)
    for prompt in ([1, 2, 1, 2, 1], [1, 2, 1, 2, 1, 7], [0, 1, 2] * 12):
        assert tokens(engine, prompt, params, 20) == plain(prompt, params, 20)
    assert said == []
    assert spoken.tally.drafted > 0


@settings(max_examples=40, deadline=None)
@given(
    turns=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=9), min_size=1, max_size=4),
    seed=st.integers(0, 3),
    taken=st.integers(1, 12),
    limit=st.integers(1, 15),
)
def test_over_turns_that_are_cut_short(turns: list[list[int]], seed: int, taken: int, limit: int) -> None:
    """The small model answers by a hash of all that it was fed: after any wrong token it would be lost."""
    params = DrawParams(temperature=0.6, seed=seed)
    small, said = drafter(sharpness=9.0), list[str]()
    engine = Engine(
        MarkovForward(sharpness=9.0), speculation=Speculation([small], limit=limit, notice=said.append)
    )
    sequence: list[int] = []
    for turn in turns:
        sequence += turn
        steps = engine.generate(sequence, params, max_tokens=12, stop_ids=())
        read = [next(steps).token for _ in range(taken)]
        steps.close()
        assert read == tokens(Engine(MarkovForward(sharpness=9.0)), sequence, params, taken)
        sequence += read
        small.begin([*sequence, 1], len(sequence))
        tree = small.propose(1)
        assert list(tree.tokens) == tokens(Engine(MarkovForward(sharpness=9.0)), [*sequence, 1], params, 1)
        small.begin(sequence, len(sequence))
    assert said == []


def test_nothing_is_fed_twice_and_the_last_accepted_token_is_fed_later() -> None:
    forward = FakeForward(
        [
            Expect(0, (1, 2), (5,)),
            Expect(2, (5,), (6,)),
            # 5, 6 were accepted and 7 came from the target: the cache lacks 6 and 7.
            Expect(3, (6, 7), (8,)),
            Expect(5, (8,), (9,)),
            # 8 was wrong, 4 is right.
            Expect(5, (4,), (3,)),
            # Not asked for a long time.
            Expect(6, (3, 10, 11, 12), (13,)),
            # A new turn keeps the first seven tokens.
            Expect(7, (20, 21), (22,)),
            # Nothing is new: only the last token's answer is missing.
            Expect(8, (21,), (22,)),
        ]
    )
    small = ModelDrafter("small", forward, SameVocabulary(32))
    small.begin([1, 2], 0)
    assert small.propose(2, 0.5).tokens == (5, 6)
    small.commit([5, 6, 7])
    assert small.propose(2, 0.5).tokens == (8, 9)
    small.commit([4])
    assert small.propose(1, 0.5).tokens == (3,)
    small.commit([3])
    small.commit([10, 11])
    small.commit([12])
    assert small.propose(1, 0.5).tokens == (13,)
    small.begin([1, 2, 5, 6, 7, 4, 3, 20, 21], 7)
    assert small.propose(1, 0.5).tokens == (22,)
    assert small.propose(1, 0.5).tokens == (22,)
    assert forward.finished


def test_of_a_long_prompt_the_end_is_read() -> None:
    forward = FakeForward(
        [Expect(0, (5, 6, 7), (8,)), Expect(3, (8, 9), (4,)), Expect(0, (1, 2, 3), (4,))], capacity=6
    )
    small = ModelDrafter("small", forward, SameVocabulary(32))
    small.begin([1, 2, 3, 4, 5, 6, 7], 0)
    assert small.propose(1, 0.5).tokens == (8,)
    small.commit([8, 9])
    assert small.propose(1, 0.5).tokens == (4,)
    small.begin([1, 2, 3], 0)  # shorter than what was skipped
    assert small.propose(1, 0.5).tokens == (4,)
    assert forward.finished


def test_a_floor_ends_the_draft() -> None:
    """Tokens drafted below it are proposed all the same, and followed no further."""
    small = drafter(sharpness=4.0)
    small.begin([1, 2, 3], 0)
    deep, shallow = small.propose(15, 0.0), small.propose(15, 0.1)
    assert len(deep) > len(shallow)
    followed = {parent for parent in shallow.parents if parent != ROOT}
    assert followed
    assert all(reach_of(shallow, node) * 0.6 >= 0.1 * (1 - 1e-9) for node in followed)
    tree = small.propose(15, 0.3)
    assert min(reach_of(tree, node) for node in range(len(tree))) < 0.3


def reach_of(tree: DraftTree, node: int) -> float:
    return math.prod(tree.probs[step] for step in tree.path(node))


def test_an_unsure_model_drafts_nothing() -> None:
    flat = ModelDrafter("small", MarkovForward(vocab_size=200, sharpness=0.1), SameVocabulary(200))
    flat.begin([1, 2, 3], 0)
    assert len(flat.propose(15)) == 0


def test_a_close_runner_up_shares_a_pass() -> None:
    forward = MarkovForward(sharpness=4.0)
    small = ModelDrafter("small", forward, SameVocabulary(VOCAB))
    widest = 0
    for first in range(20):
        small.begin([first], 0)
        tree = small.propose(8)
        widest = max(widest, sum(bool(tree.children(child)) for child in tree.children(-1)))
    assert widest == 2


@pytest.mark.parametrize("params", [*EVERY_KIND[:3], *EVERY_KIND[4:]])
def test_what_follows_each_node_is_what_the_model_draws_there(params: DrawParams) -> None:
    """Whichever of two siblings stayed in the cache; and the noise is that of the node's position."""
    small = drafter(sharpness=4.0)
    small.sampled(params)
    branches = 0
    for first in range(24):
        prompt = [first, 1, 2]
        small.begin(prompt, 0)
        tree = small.propose(15)
        for node in range(-1, len(tree)):
            children = tree.children(node)
            if len(children) >= 3:  # all that the model thought of, not cut by the limit
                path = [tree.tokens[step] for step in tree.path(node)]
                likely = max(children, key=lambda child: tree.probs[child])
                assert [tree.tokens[likely]] == plain([*prompt, *path], params, 1)
                branches += len(path) > 1
    assert branches > 10


def test_a_model_without_trees_drafts_all_the_same() -> None:
    forward = MarkovForward()
    forward.caps = Capabilities(max_pass=64, trees=False, exact=False)
    extend = forward.extend

    def chains_only(fed: Sequence[int], **options: object) -> object:
        assert options.get("parents") is None
        return extend(fed, **options)  # type: ignore[arg-type]

    forward.extend = chains_only  # type: ignore[assignment,method-assign]
    small = ModelDrafter("small", forward, SameVocabulary(VOCAB))
    spoken = Speculation([small])
    assert tokens(Engine(MarkovForward(), speculation=spoken), [1, 2], GREEDY, 30) == plain(
        [1, 2], GREEDY, 30
    )
    assert spoken.tally.accepted > 0
    assert spoken.drafters == ("small",)


def test_a_text_beyond_its_context_is_followed_by_its_end() -> None:
    spoken = Speculation([small := drafter(capacity=20)])
    engine = Engine(MarkovForward(), speculation=spoken)
    assert tokens(engine, [1, 2], GREEDY, 60) == plain([1, 2], GREEDY, 60)
    assert spoken.drafters == ("small",)
    assert len(small.propose(3, 0.01))


def test_ids_that_only_one_model_has() -> None:
    forward = MarkovForward(vocab_size=40)  # 24 to 39 are padding that the target lacks
    spoken = Speculation([ModelDrafter("small", forward, SameVocabulary(VOCAB))])
    assert tokens(Engine(MarkovForward(), speculation=spoken), [1, 2], GREEDY, 30) == plain(
        [1, 2], GREEDY, 30
    )
    assert spoken.drafters == ("small",)
    small = ModelDrafter("small", MarkovForward(vocab_size=8), SameVocabulary(8))
    small.begin([1, 9], 0)
    assert len(small.propose(4)) == 0
    small.begin([1, 2], 1)
    assert len(small.propose(4)) > 0


def test_after_an_interrupted_pass_it_goes_on() -> None:
    forward = MarkovForward(sharpness=9.0)
    small = ModelDrafter("small", forward, SameVocabulary(VOCAB))
    small.begin([1, 2, 3], 0)
    keep = forward.keep_path

    def interrupted(nodes: Sequence[int]) -> None:
        raise KeyboardInterrupt

    forward.keep_path = interrupted  # type: ignore[method-assign]
    stopped = False
    sequence = [1, 2, 3]
    for _ in range(40):
        try:
            small.propose(8)
        except KeyboardInterrupt:
            stopped = True
            break
        sequence += [len(sequence) % VOCAB]
        small.commit(sequence[-1:])
    assert stopped
    forward.keep_path = keep  # type: ignore[method-assign]
    assert small.propose(1).tokens == tuple(tokens(Engine(MarkovForward(sharpness=9.0)), sequence, GREEDY, 1))


def test_memory_is_that_of_its_model_and_little_more() -> None:
    small = drafter()
    own = sum(MarkovForward(capacity=256).nbytes().values())
    small.begin(list(range(20)), 0)
    small.propose(4)
    assert own < small.nbytes() < own + 20 * 8 * 4


def test_bytes_read_are_the_weights_and_the_filled_cache_of_each_pass() -> None:
    class Weighing(FakeForward):
        def nbytes(self) -> dict[str, int]:
            return {"weights": 1000, "kv_cache": 10 * self.capacity}

    script = [Expect(0, (1, 2), (5,)), Expect(2, (5,), (6,)), Expect(3, (6, 7), (8,))]
    small = ModelDrafter("small", Weighing(script), SameVocabulary(32))
    spoken = Speculation([small])
    assert small.bytes_read == 0
    spoken.begin([1, 2], 0)
    begin_round(spoken, 2)
    assert small.bytes_read == 2000 + 20
    small.commit([5, 6, 7])
    begin_round(spoken, 1)
    assert small.bytes_read == 3000 + 20 + 30
    effort = spoken.tally.effort("small")
    assert (effort.queries, effort.proposed, effort.bytes_read) == (2, 3, small.bytes_read)
    assert effort.passes == small.passes == 3


@pytest.mark.parametrize("params", EVERY_KIND)
def test_what_it_sees_ahead_is_a_function_of_the_text(params: DrawParams) -> None:
    """Its greedy continuation of the text's end, whatever it has read and drafted; then it drafts on."""
    text = [n * n % VOCAB for n in range(200)]
    expected = drafter(max_pass=8).ahead(text, 16)
    assert expected == tokens(Engine(MarkovForward()), text[-128:], GREEDY, 16)
    busy, fresh = drafter(max_pass=8), drafter(max_pass=8)
    busy.sampled(params)
    fresh.sampled(params)
    busy.begin(text[:50], 0)
    busy.propose(9)
    busy.commit(text[50:])
    busy.propose(4)
    assert busy.ahead(text, 16) == fresh.ahead(text, 16) == expected
    assert busy.propose(9) == fresh.propose(9)
    assert busy.ahead(text, 3) == expected[:3]


def test_it_sees_no_farther_than_its_cache_and_what_both_can_say() -> None:
    text = list(range(12))
    assert len(drafter(capacity=14, max_pass=12).ahead(text, 16)) == 14 - 7 + 1
    partial = ModelDrafter("small", MarkovForward(), SameVocabulary(12))
    assert partial.ahead([1, 13], 16) == []
    said = partial.ahead([1, 2], 16)
    assert max(said, default=0) < 12


def test_a_model_that_fails_to_look_ahead_is_off() -> None:
    class Failing(ModelDrafter):
        def ahead(self, tokens: Sequence[int], limit: int) -> list[int]:
            raise RuntimeError("no memory")

    said: list[str] = []
    failing = Failing("small", MarkovForward(), SameVocabulary(VOCAB))
    spoken = Speculation([failing], notice=said.append)
    assert spoken.ahead([1, 2, 3, 4, 1, 2], 2) == [3, 4]
    assert said == ["drafter small failed and is off: no memory"]
    assert spoken.drafters == ()


@pytest.mark.parametrize("length", [49, 100, 500])
def test_of_a_new_prompt_little_is_read(length: int) -> None:
    """Reading all of it takes as long as two or three large passes: too long for a short reply."""
    forward = MarkovForward(capacity=512, max_pass=128)
    small = ModelDrafter("small", forward, SameVocabulary(VOCAB))
    text = [n * n % VOCAB for n in range(length)]
    small.begin(text, 0)
    assert list(small.propose(1).tokens) == tokens(Engine(MarkovForward()), text[-48:], GREEDY, 1)
    assert forward.length == 48


def test_a_text_that_goes_on_is_read_on() -> None:
    """As many tokens as were read before; where a few are shared with another text, only its end is read."""
    forward = MarkovForward(capacity=2048, max_pass=128)
    small = ModelDrafter("small", forward, SameVocabulary(VOCAB))
    text = [n * n % VOCAB for n in range(80)]
    for length, read in ((12, 12), (36, 36), (60, 60), (80, 80)):
        small.begin(text[:length], min(length, forward.length))
        small.propose(1)
        assert forward.length == read
    small.begin([*text[:20], *[5] * 80], 20)
    small.propose(1)
    assert forward.length == 48


def test_a_shorter_prompt_is_read_as_far_as_a_new_one() -> None:
    """The last 48 of 1,000 tokens were read; only the last eighteen of a prompt of 970 are among them."""
    forward = MarkovForward(capacity=2048, max_pass=128)
    small = ModelDrafter("small", forward, SameVocabulary(VOCAB))
    text = [n * n % VOCAB for n in range(1000)]
    small.begin(text, 0)
    small.propose(1)
    assert forward.length == 48
    for length in (970, 500):
        small.begin(text[:length], length)
        expected = tokens(Engine(MarkovForward()), text[length - 48 : length], GREEDY, 1)
        assert list(small.propose(1).tokens) == expected
        assert forward.length == 48


def test_where_its_cache_is_full_it_goes_on_from_the_end() -> None:
    forward = MarkovForward(capacity=128, max_pass=128)
    small = ModelDrafter("small", forward, SameVocabulary(VOCAB))
    text = [n * n % VOCAB for n in range(300)]
    small.begin(text[:24], 0)
    for length in range(24, 200, 8):
        small.propose(1)
        small.commit(text[length : length + 8])
    assert 64 <= forward.length <= 128


def test_where_passes_are_short_it_reads_in_several() -> None:
    fed: list[int] = []

    class Recording(MarkovForward):
        def extend(self, tokens, **options):  # type: ignore[no-untyped-def]
            fed.append(len(tokens))
            return super().extend(tokens, **options)

    forward = Recording(capacity=512, max_pass=16)
    small = ModelDrafter("small", forward, SameVocabulary(VOCAB))
    text = [n * n % VOCAB for n in range(56)]
    small.begin(text[:28], 0)
    small.propose(1)
    small.begin(text, 16)
    fed.clear()
    small.ahead(text, 1)
    assert fed == [16, 16, 16, 8]
    text += text[:40]
    small.begin(text, 56)  # a turn later it goes on, and does not start over from the last few tokens
    fed.clear()
    assert list(small.propose(1).tokens) == tokens(Engine(MarkovForward()), text, GREEDY, 1)
    assert fed == [16, 16, 8]


class Letters:
    """A vocabulary of ``pieces``, by the longest that fits."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    def token_bytes(self, token: int) -> bytes:
        return self._pieces[token]

    def id_of(self, piece: bytes) -> int | None:
        return self._pieces.index(piece) if piece in self._pieces else None

    def encode_inside(self, text: str) -> list[int]:
        raw, found = text.encode(), []
        while raw:
            piece = max((one for one in self._pieces if raw.startswith(one)), key=len)
            found.append(self._pieces.index(piece))
            raw = raw[len(piece) :]
        return found


def test_noise_is_keyed_by_the_positions_of_the_target() -> None:
    """Where the target says "ab" in one token and the draft model in two, the next one is one further."""
    target, own = Letters(b"a", b"b", b"ab"), Letters(b"a", b"b")
    counts = set()
    for seed in range(20):
        forward = MarkovForward(vocab_size=2, sharpness=0.0)  # both letters are as likely
        forward.caps = Capabilities(max_pass=64, trees=False, exact=False)
        small = ModelDrafter("small", forward, TextBridge(target, own, {}, draft_size=2))  # type: ignore[arg-type]
        small.sampled(DrawParams(temperature=0.8, seed=seed))
        small.begin([2, 2, 1], 0)  # "ababb"
        small.propose(5)
        drafted = [forward._fed[at] for at in range(5, forward.length)]
        assert len(drafted) > 1
        for at, token in enumerate(drafted):
            said = len(target.encode_inside("".join("ab"[one] for one in drafted[:at])))
            times = numbers(3, [0, 1], seed, 3 + said)
            assert token == int(times[1] < times[0])
            counts.add(at - said)
    assert len(counts) > 1
