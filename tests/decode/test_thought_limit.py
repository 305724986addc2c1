"""A limit on thoughts under drafts: the same tokens with them and without, wherever the thought is closed."""

from __future__ import annotations

import random

import numpy as np
import pytest

from edgedec.backends.fake import MarkovForward
from edgedec.core.tree import DraftTree, chain
from edgedec.decode.engine import Engine
from edgedec.decode.records import ReplyDetails
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter, Lookup, Recycling
from edgedec.grammar import limited
from edgedec.sampling import DrawParams
from edgedec.text.thought import ThoughtRule
from edgedec.text.thought_walk import ThoughtWalk
from tests.decode.test_speculation import Drafting
from tests.grammar.support import spec, tokenizer

SIZE, STOPS = spec().vocab_size, spec().eos_ids
RULE = ThoughtRule("Q", "Z", " So.Z", None)
PARAMS = [DrawParams(), DrawParams(temperature=1.3, seed=5), DrawParams(temperature=0.8, top_k=40, seed=9)]


def ids(text: str) -> list[int]:
    return tokenizer().encode(text, add_bos=False)


def reply(limit: int | None, params: DrawParams, *drafters: Drafter, begun: bool = True) -> list[int]:
    """The tokens of a reply that begins within a thought."""
    prompt = tokenizer().encode("a b a b Q" if begun else "a b a b", add_bos=False)
    rule = ThoughtRule(RULE.begin, RULE.end, RULE.closing, limit)
    walk = ThoughtWalk(rule, tokenizer(), prompt)
    engine = Engine(
        MarkovForward(vocab_size=SIZE, capacity=512, max_pass=512),
        speculation=Speculation(drafters) if drafters else None,
    )
    details = ReplyDetails(grammar=limited(walk, SIZE, None, ()))
    steps = engine.generate(prompt, params, max_tokens=40, stop_ids=STOPS, details=details)
    return [step.token for step in steps]


def oracle(future: list[int], prompt: int, wrong: float) -> Drafting:
    rng = random.Random(7)

    def guess(seen: list[int], most: int) -> DraftTree:
        ahead = future[len(seen) - prompt :][: min(most, 9)]
        ahead = [token if rng.random() >= wrong else rng.randrange(SIZE) for token in ahead]
        return chain(ahead, [0.9] * len(ahead), "oracle")

    return Drafting(guess, "oracle")


@pytest.mark.parametrize("params", PARAMS)
def test_without_a_limit_or_before_it_nothing_changes(params: DrawParams) -> None:
    plain = reply(None, params)
    assert reply(1000, params) == plain
    assert reply(3, params, begun=False)[:3] == reply(None, params, begun=False)[:3]


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("limit", [0, 1, 2, 5, 11])
def test_drafts_change_no_token(params: DrawParams, limit: int) -> None:
    free, bounded = reply(None, params), reply(limit, params)
    closing = tokenizer().encode(RULE.closing, add_bos=False)
    assert bounded[:limit] == free[:limit]
    if len(free) > limit and not any("Z" in tokenizer().decode([one]) for one in free[:limit]):
        assert bounded[limit : limit + len(closing)] == closing
    prompt = len(tokenizer().encode("a b a b Q", add_bos=False))
    unaware = oracle(free, prompt, 0.0)  # it drafts what the model would have thought
    for drafters in (
        (Lookup(),), (Lookup(), Recycling()), (unaware,), (oracle(bounded, prompt, 0.0),),
        (oracle(bounded, prompt, 0.4), Lookup()),
    ):  # fmt: skip
        assert reply(limit, params, *drafters) == bounded


@pytest.mark.parametrize("again", ["Z", "Q"])
def test_a_closed_thought_does_not_end_or_begin_again(again: str) -> None:
    """Other runtimes show a second closing tag in the answer, or a thought that goes on without a bound."""
    walk = ThoughtWalk(ThoughtRule(RULE.begin, RULE.end, RULE.closing, 0), tokenizer(), ids("a Q"))
    limit = limited(walk, SIZE, None, ())
    assert limit is not None
    assert limit.forced() == ids(RULE.closing)
    for token in limit.forced():
        assert limit.advance(token)
    [tag] = ids(again)
    for before in ("", "\n", " \n"):
        for token in ids(before):
            assert limit.advance(token)
        assert not limit.permits(tag)
        assert not limit.advance(tag)
        assert not limit.bits()[tag // 8] >> tag % 8 & 1
        assert int(np.unpackbits(limit.bits()).sum()) == SIZE - 2
        limit.back(len(ids(before)))
    assert limit.advance(ids("b")[0])
    assert limit.permits(tag)
    limit.back(1)
    assert not limit.permits(tag)
