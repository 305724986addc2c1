"""A new kind of drafter is one file, here some classes, and one line: its place in the registry of kinds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import edgedec
from edgedec.assemble.config import RunConfig
from edgedec.assemble.prepare import Prepared
from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.core.errors import UsageError
from edgedec.core.rows import HeadRows
from edgedec.core.tree import DraftTree, chain
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter, DrafterCapabilities
from edgedec.drafters import registry
from edgedec.drafters.interface import (
    BuildContext,
    DrafterKind,
    DrafterSpec,
    Offer,
    OpenContext,
    OpenDrafter,
    SearchContext,
)
from edgedec.drafters.tables import TableKind
from edgedec.export import export_gguf
from edgedec.memory.footprint import DrafterMemory, MemoryChoice, MemoryFacts
from edgedec.memory.plan import milestones
from edgedec.sampling import DrawParams
from edgedec.session.reply import Settings
from tests.conftest import ROOT
from tests.drafters.test_drafting import markov, ticking
from tests.fixtures.ready import Ready, chat_of
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_models import prepared_run, tiny_bundle


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


def register(monkeypatch: pytest.MonkeyPatch, kind: DrafterKind) -> None:
    """The line in the registry of kinds; the last one of those takes every other name."""
    monkeypatch.setattr(registry, "KINDS", (*registry.KINDS[:-1], kind, registry.KINDS[-1]))


def speculation_of(model: Ready, draft: str, home: Path) -> tuple[Runner, Repeater]:
    runner = Runner(model.prepared(RunConfig(draft=draft, history=True), RunContext(home, clock=ticking())))
    assert runner.engine.speculation
    toy = runner.engine.speculation.remembering["repeater"]
    assert isinstance(toy, Repeater)
    return runner, toy


def test_one_that_needs_nothing_is_a_class_and_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch, TableKind(Repeater))
    model = markov(tmp_path / "markov")
    params = DrawParams(temperature=0.9, seed=3)
    expected = "".join(chat_of(model, Settings(params, max_tokens=40)).reply("Hi"))
    every = Runner(model.prepared(RunConfig(), RunContext(clock=ticking()))).engine.speculation
    assert every
    assert every.drafters == ("lookup", "recycling", "repeater")
    runner, toy = speculation_of(model, "repeater", tmp_path)
    speculation = runner.engine.speculation
    assert speculation
    session = chat_of(model, Settings(params, max_tokens=40), speculation=speculation)
    assert "".join(session.reply("Hi")) == expected
    assert toy.params == params
    assert speculation.tally.by_source.keys() <= {"repeater"}
    assert toy.feedback == speculation.tally.rounds
    assert toy.count == speculation.tally.committed
    assert speculation.nbytes() == {"repeater": 8}
    assert speculation.ahead([5, 6], 3) == [6, 6, 6]
    runner.close()
    _, again = speculation_of(model, "repeater", tmp_path)
    assert again.count == toy.count > 0


class Favourite(Repeater):
    """Proposes the token that its artefact names."""

    name = "favourite"
    caps = DrafterCapabilities()

    def __init__(self, token: int) -> None:
        super().__init__()
        self.token = token

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        return chain([self.token], [0.5], self.name)


class FavouriteKind(DrafterKind):
    """A kind with an artefact and memory of its own: all that a drafter of the target can need."""

    name = "favourite"

    def unnamed(self, search: SearchContext, chosen: Sequence[DrafterSpec]) -> Iterator[Offer]:
        if search.home and (search.home / "favourite").exists():
            yield Offer(self.name, "two are too many" if search.batch else "")

    def open(self, name: str, opening: OpenContext) -> OpenDrafter | None:
        assert opening.home is not None
        text = (opening.home / "favourite").read_text()
        if not text.isdecimal():
            opening.notice(f"{opening.target.name} runs without its favourite: {text} is no token")
            return None
        return OpenFavourite(int(text))


class OpenFavourite(OpenDrafter):
    memory = DrafterMemory(
        "favourite", "a number and a cache", 1000, lambda choice, count: 8 * choice.context
    )

    def __init__(self, token: int) -> None:
        self.token = token

    def build(self, setting: BuildContext) -> list[Drafter]:
        made = Favourite(self.token)
        setting.ledger.hold(made, "cache", 800)
        return [made]


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    register(monkeypatch, FavouriteKind())
    (tmp_path / "favourite").write_text("42")
    return tiny_bundle(tmp_path)


def run_of(bundle: Path, said: list[str] | None = None, **settings: object) -> Prepared:
    config = RunConfig(**{"threads": 1, "context": 256, **settings})  # type: ignore[arg-type]
    return prepared_run(bundle, config, RunContext(bundle.parent, (said if said is not None else []).append))


def test_one_with_an_artefact_and_memory_is_a_file_and_a_line(bundle: Path) -> None:
    runner = Runner(run_of(bundle, memory=1 << 40))
    assert runner.budget
    assert runner.engine.speculation
    assert runner.engine.speculation.drafters == ("lookup", "recycling", "favourite")
    assert runner.budget.plan.parts["favourite"] == 1000 + 8 * 256
    assert runner.ledger.most()["favourite"] == 1800
    prompt, params = [5, 6, 7], DrawParams()
    drafted = [step.token for step in runner.engine.generate(prompt, params, max_tokens=20, stop_ids=())]
    plain = Runner(run_of(bundle, draft="off")).engine
    assert drafted == [step.token for step in plain.generate(prompt, params, max_tokens=20, stop_ids=())]


def test_it_is_given_up_where_memory_is_short(bundle: Path) -> None:
    free = run_of(bundle, memory=1 << 40).plan()
    needed = {what: nbytes for nbytes, what in milestones(free.facts, free.wanted)}
    said: list[str] = []

    def less(facts: MemoryFacts, wanted: MemoryChoice) -> int:
        return needed["drafter: no model drafts"] - 1 + facts.process - free.facts.process

    poor = run_of(bundle, said, memory=less)
    assert [one.name for one in poor.drafting.drafters] == ["lookup", "recycling"]
    assert any("drafter: no model drafts" in line for line in said)


def test_it_says_why_it_is_left_out(bundle: Path) -> None:
    said: list[str] = []
    assert len(run_of(bundle, said, conversations=2).drafting.drafters) == 2
    assert said == ["Tiny llama runs without favourite: two are too many"]
    with pytest.raises(UsageError, match="favourite cannot draft for a batch"):
        run_of(bundle, draft="favourite", conversations=2)
    (bundle.parent / "favourite").write_text("many")
    said.clear()
    assert run_of(bundle, said, draft="favourite").drafting.drafters == ()
    assert said == ["Tiny llama runs without its favourite: many is no token"]


def guide_example() -> str:
    """The class in the guide."""
    page = (ROOT / "docs/guide/drafting.md").read_text(encoding="utf-8")
    (block,) = (
        one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "(edgedec.Drafter)" in one
    )
    return block


def test_the_one_in_the_guide_is_a_file_of_forty_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "KINDS", registry.KINDS)
    example = guide_example()
    assert len(example.splitlines()) <= 40
    exec(example.partition("with edgedec.open")[0], {})
    few = write_tiny(tmp_path / "few.gguf", "llama", mute=tuple(range(12, 260)), sharpness=4.0)
    export_gguf(few, tmp_path / "few")
    replies = {}
    for draft in ("off", "bigrams"):
        with edgedec.open(tmp_path / "few", draft=draft, threads=1, context=256, temperature=0.0) as model:
            reply = model.complete("again and again and", max_tokens=120)
            replies[draft] = (reply.read(), reply.tokens)
            drafted = model.stats(reply).as_json().get("drafted_by", {})
    assert replies["bigrams"] == replies["off"]
    assert drafted["bigrams"]["proposed"] > 0


@pytest.mark.parametrize("name", ["", "auto", "off", "lookup", "exit", "exit-3", "two words", "a,b"])
def test_a_name_that_is_taken_or_none_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "KINDS", registry.KINDS)
    with pytest.raises(UsageError, match="cannot have the name"):
        edgedec.add_drafter(type("Named", (Repeater,), {"name": name}))


def test_a_class_that_was_written_again_takes_the_place_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "KINDS", registry.KINDS)
    for _ in range(2):
        edgedec.add_drafter(type("Repeater", (Repeater,), {}))
    assert registry.names().split(", ").count("repeater") == 1


def test_what_it_cannot_do_it_says() -> None:
    class Silent(Repeater):
        caps = DrafterCapabilities()

    speculation = Speculation([Silent()])
    assert speculation.remembering == {}
    assert speculation.ahead([1, 2, 3, 1, 2], 2) == [3, 1]  # by lookup
