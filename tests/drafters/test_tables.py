"""Prepared tables: the first reply is drafted from them, no token changes, and damaged ones cost one line."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.api import Model
from edgedec.assemble.config import RunConfig
from edgedec.assemble.run_context import RunContext
from edgedec.bundle.drafter_manifest import TABLES
from edgedec.core.ledger import Ledger
from edgedec.disk.home import DRAFTS
from edgedec.disk.listed_files import sealed
from edgedec.draft import Recycling
from edgedec.drafters.artifacts import new_artifact
from edgedec.drafters.tables import MOST_BYTES, read_table, restore_prepared, write_table
from edgedec.sampling import DrawParams
from edgedec.training.rollouts import Rollout, key_of
from edgedec.training.tables import contexts_of, recycling_table
from tests.fixtures.tiny_models import prepared_run

PROMPT = "Once upon a time"
TOKENS = 24
PARAMS = [DrawParams(), DrawParams(temperature=0.8, seed=3)]


class Told(list[str]):
    """Notices, without those about pass costs."""

    def __call__(self, line: str) -> None:
        if not line.startswith("measuring"):
            self.append(line)


def opened(
    bundle: Path, home: Path | None, notice: Callable[[str], None] = pytest.fail, **config: object
) -> Model:
    settings = {"threads": 1, "context": 256, "draft": "recycling", **config}
    run = RunConfig(**settings)  # type: ignore[arg-type]
    return Model(prepared_run(bundle, run, RunContext(home, notice)))


def said(model: Model, params: DrawParams = PARAMS[0]) -> Rollout:
    with model.chat(sampling=params, max_tokens=TOKENS) as chat:
        reply = chat.reply(PROMPT)
        reply.read()
    return Rollout(list(reply.prompt), list(reply.tokens), key_of(PROMPT), params.greedy)


def first_draft(model: Model, rollout: Rollout) -> tuple[int, ...]:
    """The tokens that are drafted behind the prompt, before anything was said."""
    speculation = model.single.engine.speculation
    assert speculation is not None
    speculation.begin(rollout.prompt, 0)
    (drafter,) = speculation.remembering.values()
    return drafter.propose(4).tokens


def prepared(bundle: Path, home: Path, *rollouts: Rollout) -> Path:
    """Tables that were made of these replies."""
    with opened(bundle, None, Told()) as model:
        manifest = model.loaded.manifest
        with new_artifact(manifest, TABLES, home, {}) as folder:
            write_table(folder, "recycling", recycling_table(contexts_of(rollouts)))
    (found,) = (home / "drafters").glob("*/tables")
    return found


@pytest.mark.parametrize("params", PARAMS, ids=["greedy", "sampled"])
def test_the_first_reply_is_drafted_from_them_and_is_the_same(
    bundle: Path, tmp_path: Path, params: DrawParams
) -> None:
    with opened(bundle, None, draft="off") as plain:
        alone = said(plain, params)
    prepared(bundle, tmp_path, alone)
    with opened(bundle, None, Told()) as cold:
        assert first_draft(cold, alone)[:1] != (alone.reply[0],)
    told = Told()
    with opened(bundle, tmp_path, told) as model:
        assert first_draft(model, alone)[0] == alone.reply[0]
        found = said(model, params)
    assert found.reply == alone.reply
    assert told == []


def test_a_cold_start_knows_nothing_of_them(bundle: Path, tmp_path: Path) -> None:
    rollout = said(opened(bundle, None, Told()))
    prepared(bundle, tmp_path, rollout)
    model = opened(bundle, tmp_path, Told())
    warm = first_draft(model, rollout)
    cold = replace(model.single.drafting, prepared=False)
    model.single.engines = model.single.engines_for(cold)
    assert first_draft(model, rollout) == first_draft(opened(bundle, None, Told()), rollout) != warm


def test_conversations_side_by_side_draft_from_them_too(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, None, draft="off") as plain:
        alone = said(plain)
    prepared(bundle, tmp_path, alone)
    config = {"conversations": 2, "sampling": PARAMS[0]}
    with opened(bundle, tmp_path, Told(), **config) as model, model.conversations(max_tokens=TOKENS) as two:
        for chat in two.chats:
            assert chat.speculation is not None
            chat.speculation.begin(alone.prompt, 0)
            (drafter,) = chat.speculation.remembering.values()
            assert drafter.propose(1).tokens == (alone.reply[0],)
        replies = [answer.reply for answer in two.answers([PROMPT, PROMPT])]
    assert [one and one.tokens for one in replies] == [alone.reply, alone.reply]


def test_they_take_no_memory_of_their_own(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, None, Told(), memory="600MB") as cold:
        alone = said(cold)
        assert cold.budget is not None
        before = cold.budget.ledger.most()["tables"]
    prepared(bundle, tmp_path, alone)
    with opened(bundle, tmp_path, Told(), memory="600MB") as model:
        assert first_draft(model, alone)[0] == alone.reply[0]
        assert model.budget is not None
        assert model.budget.ledger.most()["tables"] == before


def test_memory_that_reading_them_took_is_returned(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(bundle, tmp_path, Told()) as model:
        prepared(bundle, tmp_path, said(model))
    released: list[bool] = []
    monkeypatch.setattr("edgedec.drafters.tables.release_freed", lambda: released.append(True))
    with opened(bundle, tmp_path, Told()) as model:
        assert model.single.engine.speculation
    assert released == [True]


def test_a_budget_with_smaller_tables_takes_the_best_of_them(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, None, draft="off") as plain:
        alone = said(plain)
    prepared(bundle, tmp_path, alone)
    told = Told()
    with opened(bundle, tmp_path, told) as model:
        loaded = model.loaded
        small = Recycling.within(Recycling.useful_bytes // 3)
        restore_prepared(loaded, [small], tmp_path, Ledger(), told)
    small.begin(alone.prompt, 0)
    assert small.propose(1).tokens == (alone.reply[0],)
    assert told == []


def test_what_this_user_s_history_knows_comes_before_them(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, tmp_path, Told(), history=True) as model:
        alone = said(model)
    assert list((tmp_path / DRAFTS).iterdir())
    other = replace(alone, reply=[(token + 1) % 200 for token in alone.reply])
    prepared(bundle, tmp_path, other)
    with opened(bundle, tmp_path, Told(), history=True) as model:
        assert first_draft(model, alone)[0] == alone.reply[0]
    with opened(bundle, tmp_path, Told()) as model:
        assert first_draft(model, alone)[0] == other.reply[0]


def test_the_first_start_with_history_drafts_from_them(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, None, draft="off") as plain:
        alone = said(plain)
    prepared(bundle, tmp_path, alone)
    with opened(bundle, tmp_path, Told(), history=True) as model:
        assert first_draft(model, alone)[0] == alone.reply[0]


def _damaged(folder: Path) -> None:
    table = folder / "recycling.table"
    table.write_bytes(table.read_bytes()[:-1] + b"\xff")


def _short(folder: Path) -> None:
    (folder / "recycling.table").write_bytes(b"")


def _of_another_model(folder: Path) -> None:
    data = json.loads((folder / "drafter.json").read_text())
    data["target"] |= {"name": "large", "sha256": "0" * 64}
    (folder / "drafter.json").write_text(sealed(data))


def _no_json(folder: Path) -> None:
    (folder / "drafter.json").write_text("{")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_damaged, "SHA-256"),
        (_short, "has 0 bytes"),
        (_of_another_model, "belongs to large"),
        (_no_json, "is broken"),
    ],
)
def test_damaged_or_foreign_ones_cost_one_line(
    bundle: Path, tmp_path: Path, change: Callable[[Path], None], why: str
) -> None:
    with opened(bundle, None, draft="off") as plain:
        alone = said(plain)
    change(prepared(bundle, tmp_path, alone))
    told = Told()
    with opened(bundle, tmp_path, told) as model:
        assert said(model).reply == alone.reply
    assert len(told) == 1
    assert "runs without its prepared tables" in told[0]
    assert why in told[0]


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (b"nothing", "not the answers of a table of this size"),
        (Recycling(memory=1 << 12).saved(), "not the answers of a table of this size"),
        (bytes(MOST_BYTES + 1), f"more than {MOST_BYTES} bytes"),
        (recycling_table(contexts_of([Rollout([1], [60_000, 60_001], "0", True)])), "outside the vocabulary"),
    ],
)
def test_tables_that_cannot_be_used_cost_one_line(
    bundle: Path, tmp_path: Path, table: bytes, why: str
) -> None:
    with opened(bundle, None, draft="off") as plain:
        alone = said(plain)
        with new_artifact(plain.loaded.manifest, TABLES, tmp_path, {}) as folder:
            write_table(folder, "recycling", table)
    told = Told()
    with opened(bundle, tmp_path, told) as model:
        assert said(model).reply == alone.reply
    assert len(told) == 1
    assert why in told[0]


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        (b"", "too short"),
        (b"\x04\0\0\0junk", "cannot be unpacked"),
        (b"\x04\0\0\0" + zlib.compress(b"12345"), "does not hold the 4 bytes"),
        (b"\x04\0\0\0" + zlib.compress(b"1234")[:-1], "does not hold the 4 bytes"),
        (b"\x04\0\0\0" + zlib.compress(b"1234") + b"more", "does not hold the 4 bytes"),
        (b"\xff\xff\xff\xff" + zlib.compress(bytes(1 << 24)), f"more than {MOST_BYTES} bytes"),
        (b"\x04\0\0\0" + zlib.compress(bytes(1 << 24)), "does not hold the 4 bytes"),
    ],
)
def test_a_packed_table_is_what_was_written_or_refused(tmp_path: Path, packed: bytes, why: str) -> None:
    write_table(tmp_path, "recycling", b"1234")
    assert read_table((tmp_path / "recycling.table").read_bytes(), "it") == b"1234"
    with pytest.raises(ValueError, match=why):
        read_table(packed, "it")
