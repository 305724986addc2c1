"""The place in a grammar: what may come next, walks ahead and back, and grammars that nobody can keep to."""

from __future__ import annotations

import gc
import json
import random
import time
from contextlib import suppress
from dataclasses import replace
from weakref import ref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedec.bench.harness.schemas import FAMILIES, schemas
from edgedec.core.errors import GrammarError, UnsupportedError, UsageError
from edgedec.core.ledger import Ledger
from edgedec.grammar import matcher
from edgedec.grammar.matcher import constraint_for
from edgedec.grammar.spec import GrammarSpec
from edgedec.grammar.vocabulary import vocabulary_bytes, vocabulary_of
from tests.fixtures.tiny_tokenizers import bpe_metadata, built
from tests.grammar.support import END, constraint, permitted_ids, random_reply, spec, tokenizer

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
FORMS = [
    GrammarSpec.of(schema=PERSON),
    GrammarSpec.json_object(),
    GrammarSpec.of(regex="(yes|no|perhaps)( [0-9]{1,3})?"),
    GrammarSpec.of(grammar='start: "the " (NOUN " ")+ "."\nNOUN: /[a-z]{1,4}/'),
    GrammarSpec.of(schema={"enum": ["hello", "hello world", "help"]}),
    *(GrammarSpec.of(schema=schemas(family, 1)[0]) for family in FAMILIES),
]
DOUBLING = "".join(f"a{n}: a{n + 1} a{n + 1}\n" for n in range(40))
CHOICE = {"anyOf": [{"type": "string", "pattern": f"a{n}.*b"} for n in range(9)]}
KINDS = st.sampled_from(FORMS)


def ids_of(text: str) -> list[int]:
    return tokenizer().encode_inside(text)


@settings(max_examples=60)
@given(KINDS, st.integers(0, 1 << 30))
def test_single_tokens_are_permitted_as_the_mask_says(form: GrammarSpec, seed: int) -> None:
    rng = random.Random(seed)
    one = constraint(form)
    for _ in range(rng.randint(0, 12)):
        may = permitted_ids(one)
        everything = range(spec().vocab_size)
        assert [token for token in everything if one.permits(token)] == may
        assert (END in may) == one.accepts
        if forced := one.forced():
            assert may == forced[:1]
        if one.finished:
            break
        if not one.advance(rng.choice(may)):
            break  # an end token
    assert not one.permits(spec().vocab_size - 1)  # no token


@settings(max_examples=80)
@given(KINDS, st.lists(st.integers(0, 1 << 30), min_size=1, max_size=25))
def test_any_walk_ends_where_a_new_one_does(form: GrammarSpec, moves: list[int]) -> None:
    """Steps ahead, refusals, and steps back in any order."""
    one = constraint(form)
    walked: list[int] = []
    for move in moves:
        rng = random.Random(move)
        if rng.random() < 0.3 and walked:
            count = rng.randint(1, len(walked))
            one.back(count)
            del walked[-count:]
        elif rng.random() < 0.3:
            token = rng.randrange(spec().vocab_size)
            if one.advance(token):
                walked.append(token)
        elif not one.finished and one.advance(token := rng.choice(permitted_ids(one))):
            walked.append(token)
        again = constraint(form)
        assert all(again.advance(token) for token in walked)
        assert (one.finished, one.accepts, one.forced()) == (again.finished, again.accepts, again.forced())
        assert permitted_ids(one) == permitted_ids(again)


def test_the_end_is_permitted_where_the_grammar_accepts_and_nowhere_else() -> None:
    one = constraint(GrammarSpec.of(regex="ab?"))
    assert not one.permits(END)
    assert not one.advance(END)
    assert one.advance(*ids_of("a"))
    assert one.accepts
    assert not one.finished
    assert one.advance(END)
    assert one.finished
    assert not one.advance(*ids_of("b"))
    one.back(1)
    assert one.advance(*ids_of("b"))
    assert one.finished


def test_control_tokens_are_no_text() -> None:
    one = constraint(GrammarSpec.of(regex="(?s:.*)"))
    assert one.advance(*ids_of("a"))
    control = set(tokenizer().control_ids().values())
    assert not [token for token in control - {END, 0} if one.permits(token)]
    assert one.permits(END)


def test_forced_tokens_are_those_of_the_tokenizer_and_can_be_taken_back() -> None:
    text = "and the world is a hello to the world"
    one = constraint(GrammarSpec.of(regex=f"(yes|no), {text}"), ids_of("yes"))
    forced = one.forced()
    assert forced == ids_of(f", {text}")[: len(forced)]
    assert len(forced) > 5
    for token in forced:
        assert one.advance(token)
    one.back(len(forced))
    assert one.forced() == forced


def test_json_has_no_endless_white_space() -> None:
    one = constraint(GrammarSpec.json_object(), ids_of("{\n" + " " * 40))
    assert not one.permits(ids_of(" ")[0])
    assert not one.permits(ids_of("\n")[0])
    pretty = json.dumps({"name": "x", "age": 1}, indent=8)
    assert constraint(GrammarSpec.of(schema=PERSON), ids_of(pretty)).finished


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (GrammarSpec.of(schema={"type": "strin"}), "strin"),
        (GrammarSpec.of(schema={"$ref": "https://example.com/a.json"}), "example.com"),
        (GrammarSpec.of(schema={"type": "string", "enum": [1]}), "Unsatisfiable"),
        (GrammarSpec.of(schema={"type": "string", "pattern": "(?=a)b"}), "look-around"),
        (GrammarSpec.of(schema={"oneOf": [{"type": "integer"}, {"type": "number"}]}), "oneOf"),
        (GrammarSpec.of(schema=False), "JSON schema"),
        (GrammarSpec.of(regex="a(b"), "unclosed group"),
        (GrammarSpec.of(grammar="start: a"), "grammar"),
        (GrammarSpec.of(grammar='begin: "a"'), "start"),
    ],
    ids=lambda value: value.text[:40] if isinstance(value, GrammarSpec) else None,
)  # fmt: skip
def test_a_grammar_that_cannot_be_used_is_one_line(form: GrammarSpec, said: str) -> None:
    with pytest.raises(UsageError, match="cannot be used") as caught:
        constraint(form)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "form",
    [
        GrammarSpec.of(regex="(((((((((a{10}){10}){10}){10}){10}){10}){10}){10}){10})"),
        GrammarSpec.of(regex="((a?){1000}){1000}"),
        GrammarSpec.of(regex="(a|b)*a(a|b){30}"),
        GrammarSpec.of(schema={"properties": {f"p{n}": {"type": "string"} for n in range(5_000)}}),
        GrammarSpec.of(schema={"type": "array", "minItems": 10**6, "items": {"pattern": "^(a|b){1,5000}$"}}),
        GrammarSpec.of(schema={"allOf": [CHOICE] * 20}),
        GrammarSpec.of(grammar=f"start: a0\n{DOUBLING}a40: 'x'".replace("'", '"')),
        GrammarSpec.of(grammar='start: s\ns: s s | "a" | '),
        GrammarSpec.of(schema={"enum": [f"{n * 7919:08d}" for n in range(50_000)]}),
    ],
    ids=range(9),
)  # fmt: skip
def test_a_hostile_grammar_takes_bounded_time(form: GrammarSpec) -> None:
    """It is refused, or fails while a reply is written, or a reply can be written."""
    began = time.process_time()
    with suppress(UsageError, GrammarError):
        random_reply(form, random.Random(1), most=40)
    assert time.process_time() - began < 10


def test_a_matcher_that_drafts_wore_out_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """States that a walk visited count towards the limits of the library's lexer, though it went back."""
    form = GrammarSpec.of(regex="[ab]*a[ab]{9}c")
    a, b, c = (ids_of(letter)[0] for letter in "abc")
    monkeypatch.setattr(matcher, "MOST_STATES", 400)
    one, rng = constraint(form), random.Random(0)
    for _ in range(300):
        walk = [rng.choice([a, b]) for _ in range(14)]
        done = 0
        for token in walk:
            one.bits()
            done += one.advance(token)
        one.back(done)
    for token in [a] * 10:
        assert one.advance(token)
    assert permitted_ids(one) == sorted([a, b, c])


def test_tokens_so_far_must_be_of_the_grammar() -> None:
    with pytest.raises(GrammarError, match="so far"):
        constraint(GrammarSpec.of(schema=PERSON), ids_of("Hello"))


def test_a_model_without_an_end_token_has_no_structured_output() -> None:
    with pytest.raises(UnsupportedError, match="end token"):
        constraint_for(GrammarSpec.json_object(), tokenizer(), replace(spec(), eos_ids=()), Ledger())


def test_a_vocabulary_is_made_once_and_goes_with_its_tokenizer(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    one = built(tmp_path_factory.mktemp("one"), bpe_metadata())
    ledger = Ledger()
    first = vocabulary_of(one, spec(), ledger)
    assert vocabulary_of(one, spec(), ledger) is first
    assert ledger.by_name() == {"grammar": vocabulary_bytes(spec())}
    gone = ref(one)
    del one
    gc.collect()
    assert gone() is None
    assert ledger.by_name() == {}
