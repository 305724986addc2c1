"""A large model that is elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgedec.assemble.run_context import RunContext
from edgedec.control.switching import EntropySwitching, SwitchRule
from edgedec.core.errors import SideLost
from edgedec.decode.records import NO_DETAILS, ReplyDetails, Step
from edgedec.sampling import DrawParams
from edgedec.switch.assembly import spelled_out, with_side
from edgedec.switch.engine import SwitchedEngine
from edgedec.switch.generators import HomeGenerator, RemoteGenerator
from edgedec.text.passage import Passage
from tests.fixtures.ready import Ready
from tests.fixtures.tiny_models import run_tiny, tiny_bundle
from tests.switch.pairs import LARGE_ALONE, engine_of

HARD = SwitchRule(7.4, least_run=4)
"""The tiny model is seldom as sure as that: most of its tokens go to the side."""


class Spoken:
    """A side that continues any text with ``pieces``, and is lost at the n-th call."""

    name = "far"

    def __init__(self, *pieces: str, lost_at: int = 0, ends: bool = False) -> None:
        self.pieces = pieces
        self.lost_at = lost_at
        self.ends = ends
        self.ended = False
        self.texts: list[str] = []
        self.passages: list[Passage] = []

    def continued(self, passage: Passage, most_tokens: int, params: DrawParams) -> Iterator[str]:
        self.texts.append(passage.text)
        self.passages.append(passage)
        self.params = params
        self.ended = False
        for piece in self.pieces:
            yield piece
            if len(self.texts) == self.lost_at:
                raise SideLost("far does not answer")
        self.ended = self.ends


class Clock:
    """A clock that stands unless somebody moves it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Talk:
    """A tiny model that hands over to ``side``."""

    def __init__(
        self,
        model: Ready,
        side: Spoken,
        rule: SwitchRule = HARD,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.model = model
        self.notices: list[str] = []
        home = engine_of(model, False)
        large = RemoteGenerator(
            side,
            model.tokenizer,
            lambda ids: spelled_out(model.tokenizer, ids),
            rule.least_run,
            self.notices.append,
        )
        self.engine = SwitchedEngine(
            home, HomeGenerator("near", home), large, lambda: EntropySwitching(rule), clock=clock
        )
        self.prompt = [1, *model.tokenizer.encode("hello the", add_bos=False)]

    def reply(self, tokens: int, details: ReplyDetails = NO_DETAILS) -> list[Step]:
        steps = self.engine.generate(
            self.prompt, DrawParams(), max_tokens=tokens, stop_ids=(2,), details=details
        )
        return list(steps)

    def text(self, steps: list[Step], writer: str) -> str:
        return self.model.tokenizer.decode(step.token for step in steps if step.writer == writer)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Ready:
    folder: Path = tmp_path_factory.mktemp("near")
    return run_tiny(tiny_bundle(folder, "llama", seed=3))


def test_the_side_gets_the_conversation_as_text_and_writes_a_stretch(model):
    side = Spoken(" and", " the", " world")
    talk = Talk(model, side)
    steps = talk.reply(20)
    assert side.texts[0].startswith("<|im_start|>hello the")
    assert talk.text(steps, "far").startswith(" and the world")
    assert {step.writer for step in steps} == {"near", "far"}
    assert len(steps) == 20
    assert talk.notices == []


def test_the_side_gets_the_messages_and_the_reply_so_far(model):
    side = Spoken(" and", " the", " world")
    talk = Talk(model, side)
    turns = [("user", "hello the")]
    steps = talk.reply(20, ReplyDetails(turns=turns))
    assert [one.turns for one in side.passages] == [turns] * len(side.passages)
    assert side.passages[0].reply == talk.text(steps[:4], "near")
    assert side.texts[0].endswith(side.passages[0].reply)
    talk.reply(8)
    assert (side.passages[-1].turns, side.passages[-1].reply) == ((), "")


def test_waiting_for_the_side_is_no_catching_up(model):
    class Slow(Spoken):
        def continued(self, passage: Passage, most_tokens: int, params: DrawParams) -> Iterator[str]:
            clock.now += 19.0
            yield from super().continued(passage, most_tokens, params)

    side = Slow(" and", " the", " world")
    clock = Clock()
    talk = Talk(model, side, clock=clock)
    talk.reply(20)
    record = talk.engine.switched
    assert record.waited_s == 19.0 * len(side.texts)
    assert record.catch_up_s == 0.0
    assert f"{record.waited_s:.2f} s of waiting for far" in record.summary()
    assert record.as_json()["waited_s"] == record.waited_s


def test_a_character_is_not_handed_over_in_the_middle(model):
    half = model.tokenizer.encode("\u20ac", add_bos=False)[:1]
    engine = with_side(model.runner, Spoken(" and"), HARD, RunContext())
    assert engine.small.may_stop([1, *model.tokenizer.encode("hello", add_bos=False)])
    assert not engine.small.may_stop([1, *half])


def test_a_user_who_gives_up_does_not_wait_for_the_side(model):
    class Silent(Spoken):
        closed = False

        def continued(self, passage: Passage, most_tokens: int, params: DrawParams) -> Iterator[str]:
            try:
                while True:
                    yield ""
            finally:
                self.closed = True

    class GaveUp(Exception):  # noqa: N818
        pass

    def gives_up(done: int, total: int) -> None:
        raise GaveUp

    side = Silent()
    talk = Talk(model, side, LARGE_ALONE)
    asked = talk.engine.generate(talk.prompt, DrawParams(), max_tokens=9, stop_ids=(2,), progress=gives_up)
    with pytest.raises(GaveUp):
        next(asked)
    assert side.closed
    assert talk.notices == []


def test_a_side_that_is_lost_costs_a_line_and_the_reply_goes_on(model):
    side = Spoken(" and", " the", lost_at=2)
    talk = Talk(model, side)
    steps = talk.reply(40)
    assert talk.notices == ["note: far does not answer; the reply goes on without far"]
    assert len(steps) == 40
    assert len(side.texts) == 2
    assert talk.text(steps, "far") == " and the and"  # two pieces, and one before it was lost
    assert len(talk.reply(12)) == 12
    assert len(side.texts) == 2


def test_the_end_of_the_sides_turn_ends_the_reply(model):
    steps = Talk(model, Spoken(" and", ends=True)).reply(40)
    assert (steps[-1].token, steps[-1].finish_reason, steps[-1].writer) == (2, "stop", "far")


def test_a_side_that_says_nothing_is_lost(model):
    talk = Talk(model, Spoken())
    assert len(talk.reply(10)) == 10
    assert talk.notices == ["note: far answered nothing; the reply goes on without far"]


def test_thresholds_below_zero_leave_everything_to_the_side(model):
    talk = Talk(model, Spoken(" and", " the", " world"), LARGE_ALONE)
    steps = talk.reply(21)
    assert {step.writer for step in steps} == {"far"}
    assert talk.text(steps, "far").startswith(" and the world and the world")
