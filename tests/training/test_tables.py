"""Prepared tables hold the contexts met most, and draft replies that nobody has seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.api import Model
from edgedec.assemble.config import RunConfig
from edgedec.bundle.drafter_manifest import DrafterManifest, Target
from edgedec.core.errors import BadFileError, NotFoundError, Remedy
from edgedec.draft import Recycling
from edgedec.drafters.tables import read_table
from edgedec.training import make_tables as making
from edgedec.training.make_tables import make_tables
from edgedec.training.replay import answered, replay
from edgedec.training.rollouts import Rollout, RolloutStore, held_out, key_of
from edgedec.training.tables import contexts_of, recycling_table
from tests.fixtures.tiny_models import prepared_run, run_tiny

VOCAB = 300


def rollout(*reply: int, prompt: tuple[int, ...] = (1, 2)) -> Rollout:
    return Rollout([*prompt], [*reply], key_of("question"), True)


def next_after(drafter: Recycling, *tokens: int) -> int | None:
    drafter.begin(tokens, len(tokens))
    return next(iter(drafter.propose(1).tokens), None)


def test_what_followed_most_often_is_the_first_answer() -> None:
    contexts = contexts_of([rollout(5, 6, 7, 5, 6, 8, 5, 6, 7)])
    found = {
        (int(before), int(last)): ids.tolist()
        for before, last, ids in zip(contexts.before, contexts.last, contexts.ids, strict=True)
    }
    assert found[5, 6] == [7, 8, -1, -1]
    assert found[-1, 6] == [7, 8, -1, -1]
    assert found[-1, 5] == [6, -1, -1, -1]
    assert found[1, 2] == [5, -1, -1, -1]  # the reply follows its prompt
    assert (2, 1) not in found
    assert (-1, 1) not in found  # inside of the prompt
    assert ((contexts.probs > 0) == (contexts.ids >= 0)).all()


def test_a_drafter_with_the_table_drafts_from_it_at_once() -> None:
    table = recycling_table(contexts_of([rollout(5, 6, 7, 8, 9, 5, 6, 7)]))
    assert len(table) < 4_000_000
    drafter = Recycling()
    assert next_after(drafter, 5, 6) is None
    drafter = Recycling()
    drafter.restore(table, VOCAB)
    assert next_after(drafter, 5, 6) == 7
    assert next_after(drafter, 40, 6) == 7  # after one token, where the pair is unknown
    assert next_after(drafter, 5, 41) is None


def test_the_contexts_met_most_win_the_places_of_a_full_table() -> None:
    seldom = [rollout(number, number + 1, number + 2) for number in range(3, 40_000, 3)]
    often = [rollout(50_000 + number, 50_001 + number, 50_002 + number) for number in range(0, 300, 3)]
    drafter = Recycling()
    drafter.restore(recycling_table(contexts_of([*often * 3, *seldom])), 60_000)
    for number in range(0, 300, 3):
        assert next_after(drafter, 50_000 + number, 50_001 + number) == 50_002 + number


def test_a_replay_counts_the_rounds_of_a_known_reply(bundle: Path) -> None:
    model = run_tiny(bundle)
    (one,) = answered(model.forward, [rollout(5, 6, 7, 8, 9, 10)])
    assert one.rows.ids.shape[0] == 6  # after the prompt, and after all of the reply but its last token
    assert replay([one], lambda: []).rounds == 6

    def prepared() -> list[Recycling]:
        drafter = Recycling()
        drafter.restore(recycling_table(contexts_of([one.rollout])), VOCAB)
        return [drafter]

    found = replay([one], prepared)
    assert found.tokens == 6
    assert found.rounds < 6
    assert found.block_efficiency == 6 / found.rounds


@pytest.fixture
def model(bundle: Path) -> Model:
    return Model(prepared_run(bundle, RunConfig(threads=1, draft="off", context=256)))


def store_of(model: Model, folder: Path, *, measured: bool = True) -> RolloutStore:
    """Replies that repeat each other, so that they can be foretold."""
    texts = [f"question {number}" for number in range(60)]
    store = RolloutStore(folder)
    with store.writing(Target.of(model.loaded.manifest)) as writer:
        for text in texts:
            if measured or not held_out(text):
                writer.add(Rollout([1, 2, 3], [10, 11, 12, 13, 14, 15, 2], key_of(text), True))
    assert any(one.held_out for one in store) == measured
    return store


def test_tables_are_kept_with_their_facts_when_they_draft_better(model: Model, tmp_path: Path) -> None:
    made = make_tables(model, store_of(model, tmp_path / "rollouts"), tmp_path)
    assert made.kept
    assert made.measured is not None
    without, prepared = made.measured
    assert prepared.rounds < without.rounds
    (folder,) = (tmp_path / "drafters").glob("*/tables")
    manifest = DrafterManifest.load(folder)
    assert manifest.facts == made.facts
    assert manifest.facts["tokens per round of 8 drafted"] == round(prepared.block_efficiency, 3)
    assert list(manifest.files) == ["recycling.table"]


def test_replies_that_are_held_out_are_in_no_table(model: Model, tmp_path: Path) -> None:
    store = store_of(model, tmp_path / "rollouts", measured=False)
    with store.writing(Target.of(model.loaded.manifest)) as writer:
        text = next(text for text in map(str, range(1000)) if held_out(text))
        writer.add(Rollout([1], [10, 11, 12, 13, 14, 15, 90, 91, 92], key_of(text), True))
    make_tables(model, store, tmp_path)
    drafter = Recycling()
    (table,) = (tmp_path / "drafters").glob("*/tables/recycling.table")
    drafter.restore(read_table(table.read_bytes(), table.name), model.loaded.spec.vocab_size)
    assert next_after(drafter, 10, 11) == 12
    assert next_after(drafter, 90, 91) is None


def test_tables_that_draft_no_better_are_not_kept(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = Recycling().saved()
    monkeypatch.setattr(making, "recycling_table", lambda contexts: empty)
    made = make_tables(model, store_of(model, tmp_path / "rollouts"), tmp_path)
    assert not made.kept
    assert not (tmp_path / "drafters").exists()


def test_without_replies_the_error_says_how_to_get_some(model: Model, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no replies of .* are kept") as caught:
        make_tables(model, RolloutStore(tmp_path / "absent"), tmp_path)
    assert caught.value.remedies == (Remedy("rollouts", model.name),)


def test_replies_of_another_model_are_refused(model: Model, tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    with store.writing(Target("large", "b" * 64, 300)) as writer:
        writer.add(rollout(5, 6))
    with pytest.raises(BadFileError, match="holds replies of large"):
        make_tables(model, store, tmp_path)
