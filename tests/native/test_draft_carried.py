"""drafters/: the native engine drafts as Python does with what a bundle carries."""

from __future__ import annotations

import ctypes
import random
import shutil
from collections.abc import Callable, Sequence
from ctypes import byref, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from struct import pack
from typing import Any

import numpy as np
import pytest

from edgedec import native
from edgedec.assemble.runner import Runner
from edgedec.bundle.drafter_manifest import ASSISTANT, HEAD, MTP, TRIM
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import NotFoundError
from edgedec.core.rows import Rows
from edgedec.core.tree import DraftTree
from edgedec.draft import Drafter
from edgedec.draft.in_core import CoreDrafter
from edgedec.drafters.trim import SAVED, ends_of, save_trim
from edgedec.export import export_gguf
from edgedec.export.device import DeviceOrder, choose_drafters, write_device_folder
from edgedec.export.draft_head.bundle import export_head
from edgedec.export.web.cpu import write_drafter_programs
from edgedec.native import probe
from edgedec.native.library import runtime_path
from edgedec.sampling import DrawParams
from tests.fixtures.carried import AssistantPlace, HeadPlace, MtpPlace, Place
from tests.fixtures.draft_heads import random_head, varied
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import DeltaShape
from tests.native.test_api_drafters import SETTINGS, plain, tokens
from tests.native.web_forward import WebForward
from tests.native.web_runs import with_program

CAPACITY = 300
VOCABULARY = 200
KEPT, MOST_ADDED = 100, 1024
"""Ids of a trimmed head, and most ids of the text that are kept beside them."""


def trimmed(folder: Path) -> Place:
    """An MTP layer that reads the trimmed head of its target."""
    place = MtpPlace(folder)
    kept = np.array(sorted({*ends_of(place.manifest), *range(KEPT)}), np.int64)
    save_trim(place.manifest, place.home, kept, {SAVED: 0.3})
    return place


def deep(folder: Path) -> Place:
    """A head over layers none of whose outputs are in the graph."""
    source = write_tiny(folder / "deep.gguf", "qwen3", shape=TinyShape(layers=12, context=512))
    export_gguf(source, folder / "deep")
    return HeadPlace(folder, bundle=folder / "deep", taps=(10, 0, 4))


def own_table(folder: Path) -> Place:
    """A head with an embedding among its weights."""
    place = HeadPlace(folder)
    spec = place.manifest.spec
    head = varied(random_head(spec.hidden_size, spec.vocab_size, ids=200), spec.vocab_size, "embedding")
    shutil.rmtree(place.folder)
    export_head(head, place.bundle, place.folder)
    return place


def hybrid(folder: Path) -> Place:
    """The MTP layer of a target with recurrent states."""
    shape = TinyShape(layers=5, context=512, delta=DeltaShape(nextn=1))
    export_gguf(write_tiny(folder / "hybrid.gguf", "qwen35", shape=shape), folder / "hybrid")
    return MtpPlace(folder, bundle=folder / "hybrid")


KINDS: dict[str, Callable[[Path], Place]] = {
    HEAD: HeadPlace,
    "head with other taps": deep,
    "head with a table": own_table,
    MTP: MtpPlace,
    "mtp, trimmed": trimmed,
    "mtp beside recurrent states": hybrid,
    ASSISTANT: AssistantPlace,
    "assistant of gemma 4": lambda folder: AssistantPlace(folder, "gemma4"),
}


@pytest.fixture(scope="module", params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = KINDS[request.param](tmp_path_factory.mktemp("carried"))
    for folder in made.folder.parent.iterdir():  # what was made for it, where a phone looks for it
        if not (made.bundle / "drafters" / folder.name).exists():
            shutil.copytree(folder, made.bundle / "drafters" / folder.name)
    for folder in (made.home / "drafters").glob("*/*"):
        if not (made.bundle / "drafters" / folder.name).exists():
            shutil.copytree(folder, made.bundle / "drafters" / folder.name)
    return made


class _Named(CoreDrafter):
    def __init__(self, name: str, handle: int) -> None:
        self.name = name
        super().__init__(handle)


class Native:
    """A model and its drafter in the native engine."""

    def __init__(self, place: Place) -> None:
        paths = (str(path).encode() for path in (runtime_path(), place.bundle))
        handle, why = c_void_p(), ctypes.create_string_buffer(200)
        opening = probe.function(
            "carried_open", c_void_p, c_char_p, c_char_p, c_char_p, c_int64, c_void_p, c_char_p, c_size_t
        )
        self._model = opening(*paths, place.kind.encode(), CAPACITY, byref(handle), why, len(why))
        assert self._model, why.value
        assert handle.value
        self._drafter = handle.value
        self.handle: CoreDrafter | None = _Named(place.kind, handle.value)

    def feed(self, length: int, fed: Sequence[int]) -> None:
        call = probe.function("carried_feed", c_int, c_void_p, c_void_p, c_int64, c_char_p, c_size_t)
        assert call(self._model, self._drafter, length, pack(f"{len(fed)}i", *fed), len(fed)) == 0

    def close(self) -> None:
        self.handle = None  # the drafter goes before the model
        probe.function("carried_close", None, c_void_p)(self._model)


class Browser:
    """The same in the engine of browsers."""

    def __init__(self, place: Place) -> None:
        with_program(place.bundle)
        write_drafter_programs(place.bundle)
        self._forward = WebForward(place.bundle, CacheConfig(CAPACITY, "fp16", 64))
        self.handle: CoreDrafter | None = self._forward.drafter(place.kind)

    def feed(self, length: int, fed: Sequence[int]) -> None:
        assert self.handle
        self._forward.feed(self.handle, length, fed)

    def close(self) -> None:
        self.handle = None


class Both:
    """The same calls of both engines."""

    def __init__(self, place: Place, other: Callable[[Place], Native | Browser]) -> None:
        self.native, runner = other(place), place.runner(context=CAPACITY)
        self.runner: Runner = runner
        self.forward = runner.engine.forward
        assert runner.engine.speculation
        (self.mine,) = runner.engine.speculation._places.values()
        assert self.native.handle
        self.sides: tuple[Drafter, ...] = (self.mine, self.native.handle)

    def tell(self, name: str, *arguments: Any) -> None:
        for side in self.sides:
            getattr(side, name)(*arguments)

    def feed_up_to(self, text: Sequence[int], end: int, kept: int) -> None:
        """Let both caches hold the first ``end`` tokens, the first ``kept`` of which they have."""
        start = self.forward.reachable(min(kept, self.forward.length))
        while start < end:
            fed = text[start : min(start + 50, end)]
            self._feed(start, fed)
            start += len(fed)

    def _feed(self, length: int, fed: Sequence[int]) -> None:
        self.forward.rewind(length)
        hidden = self.forward.extend(fed, rows=Rows(last=True, taps=tuple(sorted({*self.mine.taps})))).hidden
        assert hidden is not None
        wide = hidden.reshape(len(fed), len({*self.mine.taps}), -1)
        order = [sorted({*self.mine.taps}).index(tap) for tap in self.mine.taps]
        self.mine.read(length, wide[:, order].reshape(len(fed), -1))
        self.native.feed(length, fed)

    def propose(self, limit: int, floor: float) -> DraftTree:
        found, other = self.mine.propose(limit, floor), self.sides[1].propose(limit, floor)
        assert (found.tokens, found.parents, found.probs) == (other.tokens, other.parents, other.probs)
        return found


@pytest.mark.parametrize("other", [Native, Browser])
def test_random_texts_have_the_same_drafts(place: Place, other: Callable[[Place], Native | Browser]) -> None:
    draw, both, drafted = random.Random(5), Both(place, other), 0
    # The rate above which a full head drafts depends on the bytes that a host maps of weights.
    most = KEPT if other is Browser and (place.bundle / "drafters" / TRIM).exists() else VOCABULARY
    text: list[int] = []
    for turn in range(8):
        kept = draw.randrange(len(text)) if text else 0
        text = [*text[:kept], *(draw.randrange(most) for _ in range(draw.choice((2, 9, 70))))][:250]
        params = DrawParams(temperature=0.8, seed=turn) if turn % 2 else DrawParams()
        if turn == 5:
            params = DrawParams(temperature=0.5, repetition_penalty=1.2, frequency_penalty=0.3, seed=1)
        both.tell("sampled", params)
        kept = min(kept, len(text) - 1)
        both.tell("begin", text, kept)
        both.feed_up_to(text, len(text) - 1, kept)
        for _ in range(6):
            drafted += len(both.propose(draw.choice((1, 4, 12)), draw.choice((0.0, 0.2))))
            more = [draw.randrange(most) for _ in range(draw.choice((1, 3)))]
            both.tell("commit", more)
            text += more
            both.feed_up_to(text, len(text) - 1, len(text) - 1 - len(more))
    assert drafted > 50
    assert [*both.native.handle.work][:3] == [both.mine.bytes_read, both.mine.passes, both.mine.table_bytes]
    both.sides = ()
    both.native.close()


def test_replies_are_those_without_drafts_and_the_plan_is_that_of_python(place: Place) -> None:
    found, drafted, told = tokens(place.bundle, draft=place.kind)
    assert found == plain(place.bundle)
    assert list(drafted) == [place.kind]
    assert drafted[place.kind]["queries"]
    assert not [line for line in told if "measuring" not in line]
    theirs = place.prepared(**SETTINGS).plan().plan.parts
    ours = native.plan(place.bundle, draft=place.kind, **SETTINGS)["parts"]
    has_trim = (place.bundle / "drafters" / TRIM).exists()
    copies = 8 * (KEPT + MOST_ADDED) if has_trim else 0  # Python has kept ids a second time, in an array
    assert ours[place.kind] == theirs[place.kind] - copies
    names = ("hidden", "scratch", "kv_cache", "rows")
    assert {name: ours.get(name) for name in names} == {name: theirs.get(name) for name in names}
    assert place.kind in tokens(place.bundle, draft="auto")[1]


def test_a_damaged_one_costs_a_line_and_a_missing_one_is_an_error(place: Place, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(place.bundle, bundle)
    file = bundle / "drafters" / place.kind / f"{place.kind}.onnx"
    file.write_bytes(file.read_bytes()[:-10])
    found, drafted, told = tokens(bundle, draft="auto")
    assert found == plain(place.bundle)
    assert place.kind not in drafted
    title = {HEAD: "trained head", MTP: "MTP layer"}.get(place.kind, place.kind)
    assert len([line for line in told if f"runs without its {title}" in line]) == 1
    shutil.rmtree(bundle / "drafters")
    with pytest.raises(NotFoundError, match=f"has no {title}"):
        native.plan(bundle, draft=place.kind, **SETTINGS)


def test_a_folder_for_a_phone_has_it(place: Place, tmp_path: Path) -> None:
    chosen = choose_drafters((), place.bundle, place.home)
    order = DeviceOrder("android", place.bundle, chosen, None, place.home)
    write_device_folder(order, tmp_path / "phone")
    found, drafted, told = tokens(tmp_path / "phone", draft="auto")
    assert found == plain(place.bundle)
    assert drafted[place.kind]["queries"]
    assert not [line for line in told if "without" in line]
