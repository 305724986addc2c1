from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.prepare import Bundles, prepare
from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.backends.fake import MarkovForward
from edgedec.control import CostCurve
from edgedec.core.errors import UsageError
from edgedec.core.tree import DraftTree, chain
from edgedec.costs.cost_file import CostFile
from edgedec.costs.pass_costs import TimedPasses, known_costs, measure_costs
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter
from edgedec.drafters.registry import models_in, parsed, resolved
from edgedec.session.reply import Settings
from tests.fixtures.ready import Ready, chat_of, ready_of
from tests.session.parrot import load_parrot


def markov(folder: Path, sharpness: float = 4.0) -> Ready:
    """A model that runs trees, with a real tokenizer."""
    folder.mkdir()
    codec = load_parrot(folder).codec
    return ready_of(MarkovForward(vocab_size=codec.tokenizer.size, capacity=400, sharpness=sharpness), codec)


def speculation_for(
    model: Ready,
    draft: str,
    home: Path,
    clock: Callable[[], float],
    notice: Callable[[str], None] = lambda line: None,
) -> Speculation | None:
    """The drafters that a runner with these settings has."""
    config, context = RunConfig(draft=draft), RunContext(home, notice, clock)
    prepared = prepare(config, Bundles(Path("target")), context, lambda *_, **how: model.model)
    return Runner(prepared).engine.speculation


def costs_of(
    model: Ready, home: Path, clock: Callable[[], float], notice: Callable[[str], None] = lambda line: None
) -> CostCurve:
    file = CostFile.of(model.loaded, "fp16", home / "costs")
    return known_costs(model.forward, file, clock=clock, notice=notice).curve


@pytest.fixture
def model(tmp_path: Path) -> Ready:
    return markov(tmp_path / "markov")


def ticking(step: float = 0.001) -> Callable[[], float]:
    """A clock that goes on by ``step`` whenever it is read."""
    return map(float, itertools.count(0.0, step)).__next__


@pytest.mark.parametrize("names", ["", ",", "lookup,", "off,lookup", "off,off", "auto,off"])
def test_a_drafter_that_does_not_exist(names: str) -> None:
    with pytest.raises(UsageError, match="no drafter") as caught:
        parsed(names)
    assert "lookup, recycling" in (caught.value.hint or "")


def test_what_is_chosen() -> None:
    def names(text: str) -> list[str]:
        return [one.name for one in resolved(parsed(text), None).drafters]

    assert names("off") == []
    assert names("auto") == ["lookup", "recycling"]
    assert names("recycling,lookup,recycling") == ["recycling", "lookup"]
    both = "auto,smollm2-135m,./a.gguf,lookup,smollm2-135m"
    assert names(both) == ["lookup", "recycling", "smollm2-135m", "./a.gguf"]
    assert models_in(parsed(both)) == ("smollm2-135m", "./a.gguf")
    assert models_in(parsed("auto")) == ()


def test_off_measures_nothing(model: Ready, tmp_path: Path) -> None:
    said: list[str] = []
    assert speculation_for(model, "off", tmp_path / "c", ticking(), said.append) is None
    assert said == []
    assert not (tmp_path / "c").exists()


def test_other_threads_are_another_measurement(model: Ready, tmp_path: Path) -> None:
    said: list[str] = []
    costs_of(model, tmp_path, ticking(), said.append)
    costs_of(ready_of(model.forward, model.codec, threads=3), tmp_path, ticking(), said.append)
    assert len(said) == 2


@pytest.mark.parametrize(
    "text", ["", "[]", '{"seconds": {}}', '{"seconds": {"1": -1}}', '{"seconds": {"x": 1}}']
)
def test_a_damaged_file_is_measured_again(model: Ready, tmp_path: Path, text: str) -> None:
    costs_of(model, tmp_path, ticking())
    (file,) = (tmp_path / "costs").iterdir()
    file.write_text(text, encoding="utf-8")
    said: list[str] = []
    costs_of(model, tmp_path, ticking(), said.append)
    assert len(said) == 1
    assert json.loads(file.read_text(encoding="utf-8"))["seconds"]["1"] > 0


def test_a_place_that_cannot_be_written_is_no_obstacle(model: Ready, tmp_path: Path) -> None:
    (tmp_path / "costs").write_text("a file in the way", encoding="utf-8")
    said: list[str] = []
    curve = costs_of(model, tmp_path, ticking(), said.append)
    assert curve.seconds(1) > 0
    assert "measures again" in said[-1]


def test_a_model_without_trees_goes_without_drafts(tmp_path: Path) -> None:
    said: list[str] = []
    parrot = load_parrot(tmp_path)
    for names, lines in (("auto", 0), ("lookup", 1)):
        drafts = speculation_for(parrot, names, tmp_path, ticking(), said.append)
        assert drafts is None
        assert len(said) == lines


def test_measuring_leaves_the_cache_empty(model: Ready) -> None:
    said: list[str] = []
    costs = measure_costs(model.forward, TimedPasses(ticking(), said.append))
    assert 1 in costs
    assert model.forward.length == 0
    assert said == []


def test_measuring_that_takes_long_says_so(model: Ready) -> None:
    said: list[str] = []
    measure_costs(model.forward, TimedPasses(ticking(0.2), said.append))
    assert len(said) > 2
    assert said == sorted(said, key=lambda line: int(line.split()[-1][:-1]))
    assert said[-1] == "measuring: 100%"
    assert all(line.startswith("measuring: ") and line.endswith("%") for line in said)


def test_costs_that_drifted_are_known_at_the_next_start(model: Ready, tmp_path: Path) -> None:
    """The same passes take twenty times as long as when they were measured."""
    before = costs_of(model, tmp_path, ticking(0.001)).seconds(1)
    slow = ticking(0.02)
    speculation = speculation_for(model, "auto", tmp_path, slow)
    session = chat_of(model, Settings(max_tokens=60), speculation=speculation, clock=slow)
    list(session.reply("Hi"))
    now = CostFile.of(model.loaded, "fp16", tmp_path / "costs").read()
    assert now is not None
    assert now.seconds[1] > 5 * before


class Told(Drafter):
    """Drafts the tokens that it was told will come."""

    name = "told"

    def __init__(self, tokens: Sequence[int]) -> None:
        self._tokens = list(tokens)
        self._at = 0

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        self._at = 0

    def commit(self, tokens: Sequence[int]) -> None:
        self._at += len(tokens)

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        following = self._tokens[self._at : self._at + limit]
        return chain(following, [1.0] * len(following), self.name)


def test_a_stop_string_inside_a_draft_ends_the_reply_there(model: Ready, tmp_path: Path) -> None:
    plain = chat_of(model, Settings(max_tokens=60))
    text = "".join(plain.reply("Hi"))
    assert plain.last is not None
    tokens = plain.last.tokens
    for at in (len(text) // 3, len(text) // 2, len(text) - 4):
        stops = (text[at : at + 3],)
        plain = chat_of(model, Settings(max_tokens=60, stops=stops))
        expected = "".join(plain.reply("Hi"))
        assert stops[0] not in expected
        drafted = chat_of(
            model, Settings(max_tokens=60, stops=stops), speculation=Speculation([Told(tokens)])
        )
        shown = list(drafted.reply("Hi"))
        assert "".join(shown) == expected
        assert drafted.last is not None
        assert plain.last is not None
        assert drafted.last.tokens == plain.last.tokens
        assert drafted.last.finish_reason == "stop"
