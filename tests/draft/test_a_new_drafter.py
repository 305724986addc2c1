"""A new kind of drafter is one file, the class below, and one line, its name in the table of drafters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from edgedec.core.rows import HeadRows
from edgedec.core.tree import DraftTree, chain
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter, DrafterCapabilities
from edgedec.drafters import drafting
from edgedec.drafters.drafting import Drafting
from edgedec.drafters.history import with_history
from edgedec.memory.ledger import Ledger
from edgedec.sampling import DrawParams
from edgedec.session.reply import Settings
from tests.drafters.test_drafting import markov
from tests.fixtures.ready import chat_of


class Repeater(Drafter):
    """Proposes the last token again and again, and counts for its history."""

    name = "repeater"
    caps = DrafterCapabilities(remembers=True, every_round=True, looks_ahead=True)
    useful_bytes = 8

    def __init__(self) -> None:
        self.count = self.feedback = 0
        self.params: DrawParams | None = None
        self._last = 0

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        self._last = tokens[-1]

    def commit(self, tokens: Sequence[int]) -> None:
        self._last = tokens[-1]
        self.count += len(tokens)

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        return chain([self._last] * min(limit, 3), [0.5] * min(limit, 3), self.name)

    def observe(self, tree: DraftTree, rows: HeadRows) -> None:
        self.feedback += 1

    def sampled(self, params: DrawParams) -> None:
        self.params = params

    def ahead(self, tokens: Sequence[int], limit: int) -> list[int]:
        return [tokens[-1]] * limit

    def nbytes(self) -> int:
        return 8

    def saved(self) -> bytes:
        return self.count.to_bytes(8, "little")

    def restore(self, data: bytes, vocab_size: int) -> None:
        self.count = int.from_bytes(data, "little")


@pytest.fixture
def one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafting, "DRAFTERS", {**drafting.DRAFTERS, Repeater.name: Repeater})


def speculation_of(chosen: Drafting) -> tuple[Speculation, Repeater]:
    drafters = drafting.table_drafters(chosen, Ledger())
    (toy,) = (drafter for drafter in drafters if isinstance(drafter, Repeater))
    return Speculation(drafters), toy


@pytest.mark.usefixtures("one_line")
def test_it_drafts_learns_and_is_kept(tmp_path: Path) -> None:
    assert Drafting().chosen == ("lookup", "recycling", "repeater")
    assert Drafting("repeater").most_tables == 8
    model = markov(tmp_path / "markov")
    params = DrawParams(temperature=0.9, seed=3)
    plain = chat_of(model, Settings(params, max_tokens=40))
    expected = "".join(plain.reply("Hi"))
    speculation, toy = speculation_of(Drafting("repeater"))
    save = with_history(model.loaded, Ledger(), speculation, tmp_path, lambda line: None)
    session = chat_of(model, Settings(params, max_tokens=40), speculation=speculation)
    assert "".join(session.reply("Hi")) == expected
    assert toy.params == params
    assert speculation.tally.by_source.keys() == {"repeater"}
    assert toy.feedback == speculation.tally.rounds
    assert toy.count == speculation.tally.committed
    assert speculation.nbytes() == {"repeater": 8}
    assert speculation.ahead([5, 6], 3) == [6, 6, 6]
    save()
    speculation, again = speculation_of(Drafting("repeater"))
    with_history(model.loaded, Ledger(), speculation, tmp_path, lambda line: None)
    assert again.count == toy.count > 0


def test_what_it_cannot_do_it_says() -> None:
    class Silent(Repeater):
        caps = DrafterCapabilities()

    speculation = Speculation([Silent()])
    assert speculation.remembering == {}
    assert speculation.ahead([1, 2, 3, 1, 2], 2) == [3, 1]  # by lookup
