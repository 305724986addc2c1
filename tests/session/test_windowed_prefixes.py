"""Beginnings of prompts of models with windows, whose rings have gone round since."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.session.test_saved_prefixes import Bundle, Side, bundle, talk

__all__ = ["bundle"]  # a fixture
WINDOWED = ("gemma3", "gemma4", "phi3")


@pytest.mark.parametrize("architecture", WINDOWED)
def test_rings_that_have_gone_round_are_read_from_where_they_were(
    architecture: str, bundle: Bundle, tmp_path: Path
) -> None:
    """A last message that is longer than a ring is changed: in memory, and after a restart."""
    model, say = bundle(architecture), partial(talk, of=architecture)
    prompt, changed = say(400, 300, 900), say(400, 300, 800, seed=1)
    first, plain = Side(model, tmp_path), Side(model, tmp_path / "none")
    assert first.engine.forward._kv.ring < 900  # type: ignore[attr-defined]
    expected = [plain.reply(one)[1] for one in (prompt, changed)]
    assert first.reply(prompt, 6) == (0, expected[0])
    assert 700 - 32 <= first.engine.reusable(changed) <= 700
    assert first.reply(changed)[1] == expected[1]
    second = Side(model, tmp_path)
    found, tokens = second.reply(say(400, 300, 850, seed=2))
    assert 700 - 32 <= found <= 700
    assert tokens == plain.reply(say(400, 300, 850, seed=2))[1]
    logits = Side(model, tmp_path / "none").bits(changed)
    third = Side(model, tmp_path)
    assert third.prefixes.fetch(third.engine, changed) > 1400
    assert third.bits(changed) == logits
