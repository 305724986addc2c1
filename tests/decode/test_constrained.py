"""Under a grammar, too, drafts change how many passes a reply takes, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedec.backends.fake import MarkovForward
from edgedec.bench.harness.schemas import FAMILIES, schemas
from edgedec.control import CostCurve
from edgedec.core.errors import GrammarError
from edgedec.core.rows import Rows
from edgedec.core.tree import DraftTree, chain
from edgedec.decode.constrained import GRAMMAR, permitted
from edgedec.decode.engine import Engine, PassRecord, Step
from edgedec.decode.records import ReplyDetails
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter, Lookup, Recycling
from edgedec.grammar.spec import GrammarSpec
from edgedec.sampling import DrawParams
from edgedec.text.tool_calls.call_grammar import strict_grammar
from edgedec.text.tool_calls.family import Family, tagged
from edgedec.text.tool_calls.hermes import read
from tests.decode.test_engine import EVERY_KIND
from tests.decode.test_speculation import Drafting
from tests.fixtures.nightly import diagonal
from tests.grammar.support import END, constraint, spec, tokenizer
from tests.reference.sampling import DrawHistory, draw

SIZE = spec().vocab_size
STOPS = spec().eos_ids
PROMPT = [7, 9, 7, 9, 30]
CALL = {"name": "the", "parameters": schemas("call", 1)[0]}
TOLD = Family("toy", bool, tagged((" ",), read), (" ",), lambda name: (f" {name} ", "."))
"""A form of calls that begins where the toy model often comes by: at a space."""
FORMS = [
    GrammarSpec.of(regex="(yes|no), and the world is( a hello){2,5}( to|ing)?"),
    GrammarSpec.json_object(),
    GrammarSpec.of(grammar='start: ("the " | "hello ")+ END\nEND: /[a-z]?/ "."'),
    *(GrammarSpec.of(schema=schemas(family, 2)[1]) for family in FAMILIES),
    GrammarSpec.of(grammar=strict_grammar(TOLD, [CALL], {})),
]
MOST = 40


def model() -> MarkovForward:
    return MarkovForward(vocab_size=SIZE, capacity=512, max_pass=512)


def steps_of(
    engine: Engine, form: GrammarSpec, params: DrawParams, most: int = MOST, prompt: Sequence[int] = PROMPT
) -> list[Step]:
    details = ReplyDetails(grammar=constraint(form))
    return list(engine.generate(prompt, params, max_tokens=most, stop_ids=STOPS, details=details))


def tokens(engine: Engine, form: GrammarSpec, params: DrawParams, most: int = MOST) -> list[int]:
    return [step.token for step in steps_of(engine, form, params, most)]


def plainly(form: GrammarSpec, params: DrawParams, most: int = MOST) -> list[int]:
    """The definition: each token is drawn from one row, among those that may come next."""
    sequence, grammar = list(PROMPT), constraint(form)
    while len(sequence) < len(PROMPT) + most:
        head = model().extend(sequence, rows=Rows(last=True, full=True))
        history = DrawHistory(params, sequence, said=len(sequence) - len(PROMPT))
        sequence.append(draw(head, 0, params, len(sequence), history, grammar))
        if sequence[-1] in STOPS or not grammar.advance(sequence[-1]) or grammar.finished:
            break
    return sequence[len(PROMPT) :]


def oracle(form: GrammarSpec, params: DrawParams, wrong: float = 0.0) -> Drafting:
    """Knows the future, and lies now and then."""
    future = tokens(Engine(model()), form, params)
    rng = random.Random(3)

    def guess(seen: list[int], limit: int) -> DraftTree:
        ahead = future[len(seen) - len(PROMPT) :][: min(limit, 9)]
        ahead = [token if rng.random() >= wrong else rng.randrange(SIZE) for token in ahead]
        return chain(ahead, [0.9] * len(ahead), "oracle")

    return Drafting(guess, "oracle")


def careless(seed: int) -> Drafting:
    """Any trees of any tokens: control tokens, ends in the middle, ids that stand for nothing."""
    rng = random.Random(seed)

    def guess(seen: list[int], limit: int) -> DraftTree:
        count = rng.randint(0, min(limit, 12))
        parents = tuple(rng.randint(-1, node - 1) for node in range(count))
        chosen = tuple(rng.choice([END, 0, 1, SIZE - 1, rng.randrange(SIZE)]) for _ in range(count))
        return DraftTree(chosen, parents, (0.5,) * count, ("careless",) * count)

    return Drafting(guess, "careless")


Make = Callable[[GrammarSpec, DrawParams], list[Drafter]]
DRAFTERS: dict[str, Make] = {
    "nobody": lambda form, params: [],
    "oracle": lambda form, params: [oracle(form, params)],
    "liar": lambda form, params: [oracle(form, params, wrong=0.3)],
    "careless": lambda form, params: [careless(1)],
    "lookup": lambda form, params: [Lookup()],
    "recycling": lambda form, params: [Recycling(memory=1 << 16)],
    "all": lambda form, params: [careless(2), Lookup(), Recycling(memory=1 << 16), oracle(form, params, 0.2)],
}


@pytest.mark.parametrize(("name", "params"), diagonal(list(DRAFTERS), EVERY_KIND))
def test_tokens_are_those_of_plain_decoding(name: str, params: DrawParams) -> None:
    for form in FORMS[:5]:
        speculation = Speculation(DRAFTERS[name](form, params))
        drafted = steps_of(Engine(model(), speculation=speculation), form, params)
        assert [step.token for step in drafted] == tokens(Engine(model()), form, params), form


@pytest.mark.parametrize("params", EVERY_KIND[:4])
def test_tokens_are_those_of_the_definition(params: DrawParams) -> None:
    for form in FORMS[:4]:
        assert tokens(Engine(model()), form, params, 12) == plainly(form, params, 12)


@settings(max_examples=60)
@given(
    form=st.sampled_from(FORMS),
    seed=st.integers(0, 1 << 20),
    temperature=st.sampled_from([0.0, 0.7, 1.0]),
    name=st.sampled_from(sorted(DRAFTERS)),
    limit=st.integers(1, 15),
    controlled=st.booleans(),
)
def test_any_drafts_under_any_grammar(
    form: GrammarSpec, seed: int, temperature: float, name: str, limit: int, controlled: bool
) -> None:
    """With control, too; every beginning is one that a new matcher takes, and the end is as it should be."""
    params = DrawParams(
        temperature=temperature, top_k=40 * (seed % 2), top_p=0.95 if seed % 3 else 1.0, seed=seed
    )
    costs = CostCurve({1: 1.0, 8: 1.3, 32: 2.0}) if controlled else None
    drafters = DRAFTERS[name](form, params)
    speculation = Speculation(drafters, costs, limit=limit)
    engine = Engine(model(), speculation=speculation)
    steps = steps_of(engine, form, params)
    assert [step.token for step in steps] == tokens(Engine(model()), form, params)
    again = constraint(form)
    for step in steps[:-1]:
        assert step.finish_reason is None
        assert again.advance(step.token)
        assert not again.finished
    assert again.permits(steps[-1].token)
    again.advance(steps[-1].token)
    assert steps[-1].finish_reason == ("stop" if again.finished or steps[-1].token in STOPS else "length")
    assert engine.speculation is not None
    assert engine.speculation.drafters == tuple(one.name for one in drafters), "a drafter failed"


def test_text_is_free_up_to_a_call_and_the_call_is_drafted_by_its_grammar() -> None:
    called = 0
    for seed in range(20):
        params = DrawParams(temperature=1.5, seed=seed)
        plain = tokens(Engine(model()), FORMS[-1], params)
        steps = steps_of(Engine(model(), speculation=Speculation([Lookup()])), FORMS[-1], params)
        assert [step.token for step in steps] == plain
        _, space, rest = tokenizer().decode(plain).partition(" ")
        assert rest.startswith("the {"[: len(rest)])
        called += bool(space) and any(step.source == GRAMMAR for step in steps)
    assert called > 3


def test_forced_tokens_are_drafted_by_the_grammar_and_take_one_pass() -> None:
    form, seen = FORMS[0], list[PassRecord]()
    engine = Engine(model(), speculation=Speculation([]), observe=seen.append)
    steps = steps_of(engine, form, DrawParams())
    forced = [step for step in steps if step.source == GRAMMAR]
    assert len(forced) > 5
    assert sum(record.committed for record in seen) == len(steps)
    assert len(seen) <= len(steps) - len(forced) + 1
    assert len(seen) < len(tokens(Engine(model()), form, DrawParams()))


def test_the_place_in_the_grammar_is_that_of_a_replay_after_each_token() -> None:
    form, params = FORMS[1], DrawParams(temperature=1.0, seed=5)
    grammar = constraint(form)
    engine = Engine(model(), speculation=Speculation([careless(4), oracle(form, params, 0.3)]))
    details = ReplyDetails(grammar=grammar)
    said: list[int] = []
    for step in engine.generate(PROMPT, params, max_tokens=30, stop_ids=STOPS, details=details):
        said.append(step.token)
        again = constraint(form, said if step.token not in STOPS else said[:-1])
        assert grammar.forced() == again.forced()
        assert bytes(grammar.bits()) == bytes(again.bits())


def test_a_reply_ends_where_nothing_may_follow() -> None:
    """Without a pass for the end token, and whatever was drafted behind the end."""
    form = GrammarSpec.of(regex="hello")
    plain = steps_of(Engine(model()), form, DrawParams())
    assert plain[-1].finish_reason == "stop"
    assert tokenizer().decode([step.token for step in plain]) == "hello"
    future = [step.token for step in plain]
    behind = Drafting(
        lambda seen, limit: chain([*future, END, 40][:limit], [1.0] * min(limit, len(future) + 2), "b"), "b"
    )
    engine = Engine(model(), speculation=Speculation([behind]))
    assert tokens(engine, form, DrawParams()) == future
    assert list(engine.committed) == PROMPT + future


def test_trees_lose_what_the_grammar_does_not_permit() -> None:
    grammar = constraint(GrammarSpec.of(regex="(ab|ac|b)d"))
    a, b, c, d = (tokenizer().encode_inside(letter)[0] for letter in "abcd")
    tree = DraftTree((a, d, b, c, d, d, END), (-1, -1, 0, 0, 2, 3, 4), (0.5,) * 7, tuple("1234567"))
    assert permitted(grammar, tree) == [0, 2, 3, 4, 5]
    passes: list[PassRecord] = []
    engine = Engine(
        model(), speculation=Speculation([Drafting(lambda seen, limit: tree)]), observe=passes.append
    )
    list(
        engine.generate(
            [30], DrawParams(), max_tokens=9, stop_ids=STOPS, details=ReplyDetails(grammar=grammar)
        )
    )
    fed = passes[0].tree
    assert {tuple(fed.tokens[node] for node in fed.path(last)) for last in range(len(fed))} == {
        (a,), (a, b), (a, c), (a, b, d), (a, c, d),
    }  # fmt: skip


def test_a_reply_that_is_dropped_leaves_the_engine_as_it_was() -> None:
    form, params = FORMS[1], DrawParams(temperature=1.0, seed=9)
    engine = Engine(model(), speculation=Speculation([oracle(form, params)]))
    details = ReplyDetails(grammar=constraint(form))
    running = engine.generate(PROMPT, params, max_tokens=30, stop_ids=STOPS, details=details)
    first = [next(running).token for _ in range(3)]
    running.close()
    rest = ReplyDetails(grammar=constraint(form, first))
    more = engine.generate([*PROMPT, *first], params, max_tokens=MOST - 3, stop_ids=STOPS, details=rest)
    assert first + [step.token for step in more] == tokens(Engine(model()), form, params)


def test_a_grammar_that_gives_up_ends_the_reply_with_an_error() -> None:
    grammar = constraint(FORMS[1])
    engine = Engine(model(), speculation=Speculation([]))
    details = ReplyDetails(grammar=grammar)
    running = engine.generate(PROMPT, DrawParams(), max_tokens=9, stop_ids=STOPS, details=details)
    next(running)
    grammar.advance = lambda token: False  # type: ignore[method-assign]
    with pytest.raises(GrammarError, match="too complex"):
        list(running)
    assert len(engine.committed) < len(PROMPT) + 9
