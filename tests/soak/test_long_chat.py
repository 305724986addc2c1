"""A long chat stays within its budget, does not grow, and goes on after its process was killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgedec.bench.harness.texts import PROMPTS
from edgedec.core.errors import MemoryBudgetError, UsageError
from edgedec.core.units import parse_size
from tests.fixtures.tiny_models import tiny_bundle
from tests.soak import chat
from tests.soak.chat import ChatTurn, LongChatReport, killed_chat, long_chat, side_of

MB = 1_000_000
TEXTS = ("The cat sat.", "And the dog?")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("chat"))


def test_a_chat_drops_turns_stays_flat_and_survives_a_kill(bundle: Path) -> None:
    side = side_of(bundle, 8, threads=1, context=160, memory=300 * MB)
    found = long_chat(side, TEXTS, 16)
    assert (len(found.turns), found.facts["capacity"], found.refused) == (16, 160, 0)
    assert found.dropped > 3
    assert found.settled_turn == 8
    assert found.growth < 2 * MB
    assert max(one.rss_bytes for one in found.turns) <= found.peak <= found.facts["memory"]["planned_bytes"]
    assert max(one.prompt_tokens for one in found.turns) < 160
    assert (found.slowdown or 0.0) > 0
    killed = killed_chat(side, TEXTS, found, seed=2)
    assert 1 <= killed.turn <= 15
    assert killed.same == killed.compared == min(5, 16 - killed.turn)


@pytest.mark.slow
def test_200_turns_with_a_real_model() -> None:
    from edgedec.models import Store

    bundle = Store().ensure(os.environ.get("EDGEDEC_SOAK_MODEL", "smollm2-135m"))
    memory = parse_size(os.environ.get("EDGEDEC_SOAK_MEMORY", "230MB"))
    turns = int(os.environ.get("EDGEDEC_SOAK_TURNS", "200"))
    side = side_of(bundle, 48, memory=memory)
    found = long_chat(side, PROMPTS, turns)
    assert found.peak <= memory
    assert found.growth < 4 * MB
    killed = killed_chat(side, PROMPTS, found, seed=0)
    assert killed.same == killed.compared


def test_turns_that_do_not_fit_and_a_restart_that_forgets(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"threads": 1, "context": 160, "memory": 300 * MB}
    found = long_chat(side_of(bundle, 8, **given), ("The cat sat.", "word " * 400), 3)
    assert found.refused == 1
    forgetful = tmp_path / "chat_peer.py"
    text = chat.PEER.read_text(encoding="utf-8")
    forgetful.write_text(text.replace("self.chat.restore(path)", "pass"), encoding="utf-8")
    monkeypatch.setattr(chat, "PEER", forgetful)
    side = side_of(bundle, 8, **given)
    killed = killed_chat(side, TEXTS, long_chat(side, TEXTS, 4), seed=0)
    assert killed.same < killed.compared


def test_what_cannot_be_had_is_refused(bundle: Path) -> None:
    with pytest.raises(MemoryBudgetError, match="does not fit"):
        long_chat(side_of(bundle, 8, memory=MB), TEXTS, 1)
    with pytest.raises(UsageError, match="two turns"):
        killed_chat(side_of(bundle, 8), TEXTS, LongChatReport({"capacity": 1}, [ChatTurn(1, 1)]), 0)


def test_equal_contexts_are_compared() -> None:
    def turn(context: int, ms: float, rss: int) -> ChatTurn:
        return ChatTurn(rss, rss, [1] * 11, context, 0.1, ms / 100)

    early = [turn(100, 10.0, 50), turn(300, 20.0, 60), turn(990, 50.0, 70)]
    late = [turn(110, 12.0, 90), turn(320, 20.0, 91), turn(600, 1.0, 92)]
    middle = [turn(100, 99.0, 80)] * 6
    found = LongChatReport({"capacity": 1000}, [*early, *middle, *late])
    assert [(band.low, band.high, band.ratio) for band in found.bands()] == [
        (0, 125, pytest.approx(1.2)), (250, 375, pytest.approx(1.0)),
    ]  # fmt: skip
    assert found.slowdown == pytest.approx(1.1)
    assert found.settled_turn == 6
    assert found.growth == 92 - 80
    assert LongChatReport({"capacity": 1000}, [turn(1, 1.0, 1)]).growth == 0
