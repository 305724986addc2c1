"""Replies of a form that are drawn from the model's own law, given that they have it."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from edgedec.backends.fake import MarkovForward
from edgedec.core.errors import GrammarError, UsageError
from edgedec.core.rows import Rows
from edgedec.core_lib import numbers
from edgedec.decode import form_tree
from edgedec.decode.engine import Engine
from edgedec.decode.form_tree import REST, FormPlace, FormTree
from edgedec.decode.records import ReplyDetails, Step
from edgedec.decode.speculation import Speculation
from edgedec.draft.lookup import Lookup
from edgedec.grammar.matcher import GrammarConstraint
from edgedec.sampling import DrawParams
from edgedec.session.unbiased import Asked, UnbiasedTries, left_out, own_law
from tests.sampling.support import chi_square_p

Text = tuple[int, ...]
VOCAB, PROMPT, END, REJECT, RUNS = 6, (1, 2), 0, 1e-4, 400
TEMPERATURE, MOST = 0.9, 4
# A mask is led astray here: behind 1 hardly any reply goes on well, behind 2 most do.
FORM = {(1, 1, 1, END), (1, 2), (2, END), (2, 1, END), (2, 2, END), (2, 3, END), (2, 4, END), (3, 3, 3)}


class Texts:
    """A form of few texts, as decoding asks it. One may be the beginning of others if it has an end token."""

    def __init__(self, texts: set[Text]) -> None:
        self._texts, self._walked = texts, []  # type: tuple[set[Text], list[int]]

    def _behind(self, walked: Text) -> set[int]:
        return {text[len(walked)] for text in self._texts if text[: len(walked)] == walked != text}

    def permits(self, token: int) -> bool:
        return token in self._behind(tuple(self._walked))

    def bits(self) -> NDArray[np.uint8]:
        may = np.isin(np.arange(VOCAB), list(self._behind(tuple(self._walked))))
        return np.packbits(may, bitorder="little")

    def forced(self) -> list[int]:
        may = self._behind(tuple(self._walked))
        return list(may) if len(may) == 1 else []

    def advance(self, token: int) -> bool:
        if not self.permits(token):
            return False
        self._walked.append(token)
        return True

    def back(self, count: int) -> None:
        del self._walked[len(self._walked) - count :]

    @property
    def finished(self) -> bool:
        return not self._behind(tuple(self._walked))


def engine(drafts: bool = False) -> Engine:
    speculation = Speculation([Lookup()]) if drafts else None
    return Engine(MarkovForward(vocab_size=VOCAB, sharpness=1.5, seed=1), speculation=speculation)


def tries(
    seed: int, texts: set[Text] = FORM, *, own: Engine | None = None, most: int = MOST, prompt: Text = PROMPT
) -> UnbiasedTries:
    params = own_law(DrawParams(temperature=TEMPERATURE, top_k=2, seed=seed))
    asked = Asked(prompt, params, most, {END}, lambda done, total: None, ReplyDetails(start=len(prompt)))
    return UnbiasedTries(own or engine(), asked, cast(GrammarConstraint, Texts(texts)))


def tokens(steps: Sequence[Step]) -> Text:
    return tuple(step.token for step in steps)


@functools.cache
def law(text: Text) -> NDArray[np.float64]:
    """The model's law behind a text."""
    forward = MarkovForward(vocab_size=VOCAB, sharpness=1.5, seed=1)
    logits = forward.extend(text, rows=Rows(last=True, full=True)).logits
    assert logits is not None
    weights = np.exp(logits[0].astype(np.float64) / TEMPERATURE)
    return cast(NDArray[np.float64], weights / weights.sum())


def expected(texts: set[Text], most: int = MOST, prompt: Text = PROMPT) -> dict[Text, float]:
    """The law of free replies, of those whose tokens keep to the form; text by text."""
    kept = {text[:most] for text in texts}
    found = {
        text: math.prod(law(prompt + text[:at])[token] for at, token in enumerate(text)) for text in kept
    }
    total = sum(found.values())
    return {text: one / total for text, one in found.items()}


def masked(seed: int, texts: set[Text] = FORM) -> Text:
    params = DrawParams(temperature=TEMPERATURE, seed=seed)
    details = ReplyDetails(grammar=cast(GrammarConstraint, Texts(texts)))
    return tokens([*engine().generate(PROMPT, params, max_tokens=MOST, stop_ids={END}, details=details)])


def test_replies_have_the_law_of_free_ones_that_have_the_form_and_masked_ones_do_not() -> None:
    counts = Counter(tokens([*tries(seed).steps()]) for seed in range(RUNS))
    assert chi_square_p(counts, expected(FORM)) > REJECT
    local = Counter(masked(seed) for seed in range(RUNS))
    assert local.keys() <= expected(FORM).keys()
    assert chi_square_p(local, expected(FORM)) < REJECT


@pytest.mark.parametrize("listed", [1, 2, 3])
def test_tokens_that_are_not_listed_keep_the_law(listed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form_tree, "LISTED", listed)
    counts = Counter(tokens([*tries(seed).steps()]) for seed in range(RUNS))
    assert chi_square_p(counts, expected(FORM)) > REJECT


def test_places_that_are_not_kept_keep_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form_tree, "MOST_PLACES", 1)
    counts = Counter(tokens([*tries(seed).steps()]) for seed in range(RUNS))
    assert chi_square_p(counts, expected(FORM)) > REJECT


def test_replies_that_are_cut_have_the_law_of_those_that_keep_to_the_form_so_far() -> None:
    """The second half of a continued reply has it, given the first."""
    counts = Counter(tokens([*tries(seed, most=2).steps()]) for seed in range(RUNS))
    assert chi_square_p(counts, expected(FORM, most=2)) > REJECT
    assert [*tries(0, {(1, 1, 1)}, most=2).steps()][-1].finish_reason == "length"


def test_the_bound_of_the_probability_is_exact_once_every_place_is_known() -> None:
    texts = {text for text in FORM if text[0] == 2}
    total = sum(math.prod(law(PROMPT + t[:n])[one] for n, one in enumerate(t)) for t in texts)
    tree, form = FormTree(), Texts(texts)
    one = tries(0, texts)
    for walked in [(), (2,), (2, 1), (2, 2), (2, 3), (2, 4)]:
        assert tree.takes(walked)
        assert not tree.takes((*walked, 5))  # the place before it is not known, or has no such token
        form.advance(walked[-1]) if walked else None
        logits = engine().home._forward.extend((*PROMPT, *walked), rows=Rows(last=True, full=True)).logits
        assert logits is not None
        tree.add(walked, FormPlace.of(logits[0], form.bits(), TEMPERATURE))
        assert not tree.takes(walked)
        tree.learn(walked)
        form.back(1 if len(walked) == 2 else 0)
    assert math.exp(tree.live) == pytest.approx(total, rel=1e-12)
    assert tokens([*one.steps()]) in texts
    assert one.cost.probability_at_most >= total * (1 - 1e-9)


def test_a_place_lists_the_likeliest_tokens_that_are_permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form_tree, "LISTED", 2)
    logits = np.array([0.0, 2.0, 1.0, 1.0, 3.0, -1.0], np.float32)
    place = FormPlace.of(logits, np.packbits([1, 0, 1, 1, 1, 1], bitorder="little"), 0.5)
    weights = np.exp(logits.astype(np.float64) / 0.5)
    weights /= weights.sum()
    assert place.ids.tolist() == [4, 2]  # of two alike the lower id
    assert np.exp(place.logs).tolist() == pytest.approx(weights[[4, 2]].tolist())
    assert math.exp(place.rest) == pytest.approx(weights[[0, 3, 5]].sum())
    assert math.exp(place.live) == pytest.approx(1 - weights[1])
    draws = Counter(place.choose(7, at) for at in range(4000))
    alive = {4: weights[4], 2: weights[2], REST: math.exp(place.rest)}
    assert chi_square_p(draws, {name: one / sum(alive.values()) for name, one in alive.items()}) > REJECT


def test_probabilities_that_no_float_can_hold_are_told_apart() -> None:
    """Places far below each other, as behind forty tokens that a model would never write."""
    logits = np.array([900.0, 0.0, 1.0, 0.0, 0.0, 0.0], np.float32)
    far = FormPlace.of(logits, np.packbits([0, 1, 1, 0, 0, 0], bitorder="little"), 0.5)
    near = FormPlace.of(logits, np.packbits([0, 0, 1, 0, 0, 0], bitorder="little"), 0.5)
    assert far.live < -1790
    assert near.live < far.live
    near.behind[2] = far
    near.learn()
    assert near.live == pytest.approx(far.live + float(near.logs[0]))
    assert {near.choose(1, at) for at in range(20)} == {2}


def test_the_first_try_is_the_free_reply() -> None:
    free, found = 0, 0
    for seed in range(60):
        one = tries(seed)
        text = tokens([*one.steps()])
        params = DrawParams(temperature=TEMPERATURE, seed=seed)
        plain = tokens([*engine().generate(PROMPT, params, max_tokens=MOST, stop_ids={END})])
        found += one.cost.tries == 1
        if one.cost.tries == 1:
            assert plain[: len(text)] == text
            assert one.cost.dropped_tokens == 0
        free += any(plain[: len(form)] == form for form in FORM)
    assert 0 < found == free


def test_drafts_change_neither_tokens_nor_tries() -> None:
    repeating: Text = (1, 2, 3, 3, 3, 3, 1, 2, 2, 1, 2, 3, 3, 3)
    form = {(*(3,) * n, last) for n in range(12) for last in (END, 1)}
    own = engine(drafts=True)
    for seed in range(40):
        plain, drafted = (tries(seed, form, own=one, most=12, prompt=repeating) for one in (engine(), own))
        assert tokens([*plain.steps()]) == tokens([*drafted.steps()])
        assert plain.cost == drafted.cost
    assert own.speculation is not None
    assert sum(one.drafted for one in own.speculation.tally.by_source.values()) > 0


def test_the_engine_goes_on_behind_a_reply_as_a_new_one_would() -> None:
    own = engine()
    said = tokens([*tries(3, own=own).steps()])
    prompt = (*PROMPT, *said, 4)
    params = DrawParams(temperature=TEMPERATURE, seed=9)
    behind, new = (
        tokens([*one.generate(prompt, params, max_tokens=8, stop_ids=())]) for one in (own, engine())
    )
    assert behind == new


def test_a_form_that_the_model_hardly_writes_ends_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedec.session.unbiased.MOST_TRIES", 1)
    errors = []
    for seed in range(30):
        one = tries(seed, {(5, 5, 5, END)})
        try:
            assert tokens([*one.steps()]) == (5, 5, 5, END)
        except GrammarError as error:
            errors.append(str(error))
    assert errors
    assert "no reply of this form in 1 tries of" in errors[0]
    assert "a probability of" in errors[0]


def test_a_form_without_a_probability_is_an_error() -> None:
    """A logit that no temperature brings back."""
    one = tries(0)
    one._tree.root = FormPlace(np.array([], np.int64), np.array([]), -math.inf)
    one._run = lambda _: None  # type: ignore[method-assign]
    with pytest.raises(GrammarError, match="gives no reply of this form a probability"):
        [*one.steps()]


def test_the_law_has_a_temperature_and_a_seed_alone() -> None:
    params = DrawParams(temperature=0.7, top_k=3, repetition_penalty=1.1, seed=4, logit_bias=((1, 2.0),))
    assert own_law(params) == DrawParams(temperature=0.7, seed=4)
    assert left_out(params) == ["top_k", "repetition_penalty", "logit_bias"]
    with pytest.raises(UsageError, match="the temperature is 0"):
        own_law(DrawParams(seed=1))


def test_interrupts_are_heard_within_a_try() -> None:
    class StopError(Exception):
        pass

    def progress(done: int, total: int) -> None:
        calls.append(done)
        if len(calls) > 2:
            raise StopError

    calls: list[int] = []
    own = engine()
    params = DrawParams(temperature=TEMPERATURE, seed=0)
    asked = Asked((1,) * 3, params, 8, {END}, progress, ReplyDetails())
    one = UnbiasedTries(own, asked, cast(GrammarConstraint, Texts({(5, 5, 5, 5, 5, END)})))
    with pytest.raises(StopError):
        [*one.steps()]
    [step] = own.generate((1, 1, 2), params, max_tokens=1, stop_ids=())
    assert step.finish_reason == "length"


def test_exp_log_and_noise_are_those_of_the_core() -> None:
    x = np.linspace(-700, 700, 50)
    assert numbers.exp(x).tolist() == pytest.approx(np.exp(x).tolist())
    assert numbers.log(2.0) == pytest.approx(math.log(2.0))
    noise = numbers.exponential(np.arange(1000.0), 3, 4)
    assert noise.min() > 0
    assert noise.tolist() == numbers.exponential(np.arange(1000.0), 3, 4).tolist()
    assert 0.9 < noise.mean() < 1.1
