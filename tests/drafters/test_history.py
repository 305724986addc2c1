from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from edgedec.core.ledger import Ledger
from edgedec.decode.speculation import Speculation
from edgedec.draft import Lookup, Recycling
from edgedec.drafters.history import with_history
from tests.fixtures.ready import Ready
from tests.fixtures.rounds import begin_round
from tests.session.parrot import load_parrot


@pytest.fixture
def model(tmp_path: Path) -> Ready:
    folder = tmp_path / "model"
    folder.mkdir()
    return load_parrot(folder)


def opened() -> Speculation:
    return Speculation([Lookup(), Recycling()])


def used(model: Ready, folder: Path, said: list[str]) -> None:
    """A session that saw a text and ended."""
    speculation = opened()
    save = with_history(model.loaded, Ledger(), speculation, folder, said.append)
    speculation.begin([1, 2, 3, 4, 5], 0)
    save()


def test_the_next_session_knows_what_this_one_learned(model: Ready, tmp_path: Path) -> None:
    said: list[str] = []
    used(model, tmp_path / "drafts", said)
    later = opened()
    with_history(model.loaded, Ledger(), later, tmp_path / "drafts", said.append)
    later.begin([9, 3, 4], 0)
    assert begin_round(later, 4).tree.tokens[0] == 5
    assert said == []


@pytest.mark.parametrize("content", [b"", b"edgedec drafts 1\n", b"something else"])
def test_a_damaged_file_costs_one_line_and_is_replaced(model: Ready, tmp_path: Path, content: bytes) -> None:
    said: list[str] = []
    used(model, tmp_path / "drafts", said)
    (file,) = (tmp_path / "drafts").iterdir()
    file.write_bytes(content)
    used(model, tmp_path / "drafts", said)
    assert len(said) == 1
    assert "not used" in said[0]
    used(model, tmp_path / "drafts", said)
    assert len(said) == 1


def test_a_place_that_cannot_be_written_costs_one_line(model: Ready, tmp_path: Path) -> None:
    (tmp_path / "drafts").write_text("in the way", encoding="utf-8")
    said: list[str] = []
    speculation = opened()
    with_history(model.loaded, Ledger(), speculation, tmp_path / "drafts", said.append)()
    assert "not kept" in said[-1]


def test_a_drafter_that_was_dropped_is_not_saved(model: Ready, tmp_path: Path) -> None:
    class Broken(Lookup):
        def begin(self, tokens: Sequence[int], kept: int) -> None:
            raise RuntimeError("broken")

        def saved(self) -> bytes:
            raise AssertionError("it was dropped")

    speculation = Speculation([Broken(10)], notice=lambda line: None)
    save = with_history(model.loaded, Ledger(), speculation, tmp_path / "drafts", lambda line: None)
    speculation.begin([1], 0)
    save()
    assert len(list((tmp_path / "drafts").iterdir())) == 1


def test_what_drafters_knew_that_are_not_chosen_today_stays(model: Ready, tmp_path: Path) -> None:
    used(model, tmp_path / "drafts", [])
    with_history(model.loaded, Ledger(), Speculation([Recycling()]), tmp_path / "drafts", pytest.fail)()
    later = opened()
    with_history(model.loaded, Ledger(), later, tmp_path / "drafts", pytest.fail)
    later.begin([9, 3, 4], 0)
    assert "lookup" in begin_round(later, 4).tree.sources
