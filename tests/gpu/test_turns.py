"""Several conversations on one GPU: passes in turn, with the tokens of each alone; a device that is lost."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.runner import Runner
from edgedec.backends.backend import DEFAULT_CACHE, PassRequest
from edgedec.backends.fake import MarkovForward
from edgedec.backends.gpu.adapter import CHOICE
from edgedec.backends.gpu.recovering import RecoveringModel
from edgedec.backends.gpu.turns import Turn
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import BackendError, UnsupportedError
from edgedec.core.forward import Forward
from edgedec.core.ledger import Ledger
from edgedec.sampling import DrawParams
from edgedec.session.conversations import Conversations
from edgedec.session.reply import Settings
from tests.fixtures.ready import chat_of
from tests.fixtures.replies import feed_all
from tests.fixtures.tiny_models import prepared_run, run_tiny
from tests.gpu import adapters
from tests.gpu.test_recovering import LosingForward, Toy, engine, replies

TEXTS = ["Once upon a time, once upon a", "one two three one two three one two", "x", "a b a b a b a b"]
SETTINGS = Settings(DrawParams(temperature=0.8, seed=3), max_tokens=12)


@pytest.mark.parametrize("drafted", [False, True])
def test_each_says_what_it_says_alone_on_the_cpu(
    bundle: Path, drafted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CHOICE, adapters.adapter().name)
    expected = []
    for text in TEXTS:
        reply = chat_of(run_tiny(bundle, context=96), SETTINGS).complete(text)
        reply.read()
        expected.append(reply.tokens)
    draft = "lookup,recycling" if drafted else "off"
    config = RunConfig(device="gpu", conversations=3, draft=draft, context=96, threads=1)
    with Conversations(Runner(prepared_run(bundle, config)), SETTINGS) as several:
        speculations = feed_all([chat.engine.home for chat in several.chats])
        answers = list(several.answers(TEXTS, raw=True))
    assert [answer.reply.tokens if answer.reply else [] for answer in answers] == expected
    assert sum(one.tally.drafted for one in speculations) > 0 or not drafted


def test_threads_get_their_turn_in_the_order_in_which_they_ask() -> None:
    turn, order, asked = Turn(), list[int](), threading.Event()

    def ask(number: int) -> None:
        asked.set()
        with turn:
            order.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    with turn:
        for count, thread in enumerate(threads, 1):
            thread.start()
            while len(turn._waiting) < count:
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3]


def test_who_waits_when_the_batch_is_closed_gets_one_line() -> None:
    turn = Turn()
    with ThreadPoolExecutor(1) as pool:
        with turn:
            closing = pool.submit(turn.close)
            while not turn._waiting:
                time.sleep(0.001)
        closing.result()
    with pytest.raises(BackendError, match="the batch was closed"), turn:
        pass
    turn.close()


class Losing(Toy):
    """Its first forward loses its device in call ``at``, and then the others do."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.forwards = 0

    def forward(self, cache: CacheConfig = DEFAULT_CACHE, ledger: Ledger | None = None) -> Forward:
        self.forwards += 1
        return self.made if self.forwards == 1 else LosingForward(self.made.left + 2)  # type: ignore[attr-defined]


class Spare(Toy):
    """A forward for each."""

    def forward(self, cache: CacheConfig = DEFAULT_CACHE, ledger: Ledger | None = None) -> Forward:
        return MarkovForward(max_pass=4, sharpness=1.0)


@pytest.mark.parametrize("at", [1, 5, 17])
def test_a_lost_device_leaves_every_conversation_its_tokens(at: int) -> None:
    lines: list[str] = []
    seen: list[tuple[int, int]] = []

    def observe(requests: list[PassRequest], seconds: float) -> None:
        assert seconds >= 0
        seen.extend((one.sequence, len(one.tokens)) for one in requests)

    model = RecoveringModel(Losing(at), Spare, lines.append, sequences=4)
    batch = model.sequences(2, batch_tokens=8, observe=observe)  # type: ignore[arg-type]
    alone = replies(engine(Toy().forward(), "lookup"), DrawParams())

    def said(number: int) -> list[list[int]]:
        with batch.reply(number):
            return replies(engine(batch.forwards[number], "lookup"), DrawParams())

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(said, range(2))) == [alone, alone]
    batch.close()
    assert len(lines) == 1
    assert {number for number, _ in seen} == {0, 1}


def test_a_model_that_is_cut_has_one_at_a_time() -> None:
    with pytest.raises(UnsupportedError, match="one sequence at a time"):
        RecoveringModel(Toy(), Toy, lambda line: None).sequences(2, batch_tokens=8)
