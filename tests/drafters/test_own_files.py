"""Indexes of own files: found unasked, mapped, within budgets, refused when damaged; and no token changes."""

from __future__ import annotations

import os
import random
import stat
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.api import Model
from edgedec.bundle.drafter_manifest import FILES, DrafterManifest
from edgedec.core.errors import BadFileError, GrammarError, UsageError
from edgedec.disk.listed_files import FileEntry
from edgedec.drafters.own_files import mapped, write_index
from edgedec.export.device import choose_drafters
from edgedec.memory.footprint import MemoryChoice, MemoryFacts
from edgedec.memory.plan import peak
from edgedec.sampling import DrawParams
from tests.fixtures.carried import AssistantPlace, HeadPlace, MtpPlace, Place, damage, plenty
from tests.fixtures.replies import GREEDY, PROMPT, always, check_replies, check_turns, reply, uncontrolled


class FilesPlace(Place):
    """A tiny target with an index of what it says, and of other texts."""

    kind = FILES

    def make(self, folder: Path, **how: Any) -> None:
        self.said: list[str] = []
        index(self)


def index(place: Place) -> None:
    draw = random.Random(1)
    said = [reply(place.runner("off").engine, PROMPT, GREEDY, 60)]
    others = [[draw.randrange(200) for _ in range(300)] for _ in range(5)]
    texts = [[*PROMPT, *said[0]], *others]
    write_index(place.manifest, place.home, texts, {"files": 6})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> FilesPlace:
    return FilesPlace(tmp_path_factory.mktemp("files"))


def drafted(place: Place, draft: str, **settings: object) -> list[str]:
    return [spec.name for spec in place.prepared(draft, **settings).drafting.drafters]


def test_auto_drafts_from_it_and_says_the_same(place: FilesPlace) -> None:
    assert drafted(place, "auto") == ["lookup", "recycling", "files"]
    plain, runner = place.runner("off").engine, place.runner("auto")
    with always(runner.engine):
        check_replies(plain, runner.engine)
        assert runner.engine.speculation
        assert runner.engine.speculation.tally.by_drafter["files"].proposed > 20


@pytest.mark.parametrize("architecture", ["qwen35", "lfm2"])
def test_recurrent_states_are_taken_back_with_its_drafts(tmp_path: Path, architecture: str) -> None:
    place = FilesPlace(tmp_path, architecture)
    plain, runner = place.runner("off").engine, place.runner("files")
    with always(runner.engine):
        check_turns(plain, runner.engine, seed=5)


def test_a_reply_of_a_form_has_it_with_drafts_from_files(place: FilesPlace) -> None:
    """Drafts from files that stand nowhere in the form are cut to it."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    said = []
    for names in ("off", "files"):
        with Model(place.prepared(names)) as model:
            model.single.engine.speculation = model.single.engine.speculation and uncontrolled(
                model.single.engine.speculation
            )
            params = DrawParams(temperature=0.9, seed=2)
            reply = model.complete("Hello", sampling=params, max_tokens=100, schema=schema)
            with suppress(GrammarError):
                reply.read()
            said.append(reply.tokens)
    assert said[0] == said[1] != []


@pytest.mark.parametrize("other", [FilesPlace, HeadPlace, MtpPlace, AssistantPlace])
def test_no_token_differs_in_random_conversations(other: type[Place], tmp_path: Path) -> None:
    """50 replies beside each other kind of drafter, greedy and sampled."""
    place, draw = other(tmp_path), random.Random(3)
    index(place)
    names = "files,lookup,recycling" + (f",{other.kind}" if other is not FilesPlace else "")
    plain, runner = place.runner("off").engine, place.runner(names)
    said = reply(plain, PROMPT, GREEDY, 60)
    with always(runner.engine):
        for seed in range(50):
            text = [
                *PROMPT,
                *said[: draw.randrange(40)],
                *(draw.randrange(200) for _ in range(draw.randrange(3))),
            ]
            params = DrawParams(temperature=draw.choice([0.0, 0.8, 1.3]), top_p=0.9, seed=seed)
            assert reply(runner.engine, text, params, 16) == reply(plain, text, params, 16)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
def test_only_its_owner_reads_it(place: FilesPlace) -> None:
    before = os.umask(0)
    try:
        index(place)
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((place.folder / "files.index").stat().st_mode) == 0o600


def test_its_bytes_are_in_the_plan_and_given_up_first(place: FilesPlace) -> None:
    nbytes = sum(part.nbytes for part in mapped(place.folder))
    budget = place.prepared("auto", memory=plenty).plan()
    assert sum(count for name, count in budget.plan.parts.items() if name.startswith("files")) == nbytes

    def without(facts: MemoryFacts, wanted: MemoryChoice) -> int:
        return peak(facts, replace(wanted, model_drafts=False)) + nbytes // 2

    assert drafted(place, "auto", memory=without) == ["lookup", "recycling"]


def test_conversations_in_a_batch_share_it(place: FilesPlace) -> None:
    runner = place.runner("auto", conversations=2)
    plain = place.runner("off").engine
    for number in range(2):
        with runner.reply(number):
            assert reply(runner.engines[number], PROMPT, GREEDY) == reply(plain, PROMPT, GREEDY)
    runner.close()


@pytest.mark.parametrize("how", ["damaged", "truncated", "another version", "absent"])
def test_a_damaged_one_costs_one_line(tmp_path: Path, how: str) -> None:
    place = FilesPlace(tmp_path)
    file = place.folder / "files.index"
    if how == "damaged":
        damage(place.folder, file.name)
    elif how == "truncated":
        file.write_bytes(file.read_bytes()[:-5])
    elif how == "another version":
        file.write_bytes(b"edgedec files 9\n" + file.read_bytes()[16:])
    else:
        file.unlink()
    place.said.clear()
    assert drafted(place, "auto") == ["lookup", "recycling"]
    (line,) = [line for line in place.said if "runs without its index of files" in line]
    assert "\n" not in line


@pytest.mark.parametrize("size", [0, 3, 16, 17, 20, 28])
def test_a_file_that_is_no_index_is_refused(tmp_path: Path, size: int) -> None:
    (tmp_path / "files.index").write_bytes(b"edgedec files 1\n\0\0\0\0\0\0\0\0\0\0\0\0"[:size])
    with pytest.raises(BadFileError, match="no index of files"):
        mapped(tmp_path)


def test_an_index_with_hostile_numbers_drafts_and_changes_nothing(tmp_path: Path) -> None:
    place = FilesPlace(tmp_path)
    draw = np.random.default_rng(0)
    size = (place.folder / "files.index").stat().st_size - 16
    hostile = draw.integers(-(1 << 31), 1 << 31, size // 4).astype(np.int32)
    hostile[::2] = draw.integers(-5, 300, len(hostile[::2]))
    (place.folder / "files.index").write_bytes(b"edgedec files 1\n" + hostile.tobytes())
    manifest = DrafterManifest.load(place.folder, verify=False)
    entry = FileEntry.of(place.folder / "files.index")
    replace(manifest, files={"files.index": entry}).save(place.folder)
    assert drafted(place, "files") == ["files"]
    plain, runner = place.runner("off").engine, place.runner("files")
    with always(runner.engine):
        check_replies(plain, runner.engine)


def test_it_is_never_carried_to_another_device(place: FilesPlace) -> None:
    assert FILES not in [one.kind for one in choose_drafters((), place.bundle, place.home)]
    for name in (FILES, str(place.folder)):
        with pytest.raises(UsageError, match="your own text"):
            choose_drafters((name,), place.bundle, place.home)
