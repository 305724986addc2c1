"""Trained exits and skipped layers of tiny models: found, checked, exact; left out where they cannot pay."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.fake import MarkovForward
from edgedec.core.drafter_manifest import DRAFTER, EXIT, Target
from edgedec.core.errors import UsageError
from edgedec.core.exits import Bypass
from edgedec.core.manifest import Manifest
from edgedec.draft.exit import ExitDrafter, Way, skipping
from edgedec.draft.exit_adapter import ExitAdapter
from edgedec.draft.trimmed import TrimmedHead
from edgedec.runtime.config import RunConfig
from edgedec.runtime.exits import agreement_of, save_exits
from edgedec.runtime.loaded_model import load_models
from edgedec.runtime.runner import Runner
from edgedec.runtime.surroundings import Surroundings
from edgedec.runtime.target_drafters import _named, exits_of, promising, skips_of, speed_of
from edgedec.sampling import DrawParams
from tests.fixtures.tiny_models import tiny_bundle

KINDS = [
    DrawParams(),
    DrawParams(temperature=0.8, top_p=0.95, seed=3),
    DrawParams(temperature=0.7, repetition_penalty=1.2, seed=4),
]
PROMPT = [5, 6, 7, 8, 9, 10, 11]


class Place:
    """A bundle, and a home with random exits for it."""

    def __init__(self, folder: Path, architecture: str = "llama") -> None:
        self.bundle, self.home = tiny_bundle(folder, architecture), folder / f"home-{architecture}"
        self.manifest = Manifest.load(self.bundle)
        self.exits = load_models(self.bundle, {}, 1, True).target.backend.caps.exits
        self.said: list[str] = []
        self.install()

    @property
    def folder(self) -> Path:
        return self.home / "drafters" / Target.of(self.manifest).short_hash / EXIT

    def install(self, width: int | None = None, value: float = 1.0) -> None:
        """Random corrections, of a wrong width or with other values where asked for."""
        width = width or self.manifest.spec.hidden_size
        dice = np.random.default_rng(0)
        made = [
            ExitAdapter(
                exit,
                (value * dice.standard_normal((3, width))).astype(np.float32),
                (value * dice.standard_normal((width, 3))).astype(np.float32),
            )
            for exit in self.exits[:-1]
        ]
        facts = {agreement_of(exit): 0.97 for exit in self.exits[:-1]}
        save_exits(self.manifest, self.home, made, facts)

    def runner(self, draft: str) -> Runner:
        config = RunConfig(draft=draft, threads=1, context=128)
        models = load_models(self.bundle, {}, 1, bool(config.drafting.of_target))
        return Runner(models, config, Surroundings(self.home, self.said.append))

    def reply(self, draft: str, params: DrawParams = KINDS[0]) -> list[int]:
        steps = self.runner(draft).engine.generate(PROMPT, params, max_tokens=24, stop_ids=())
        return [step.token for step in steps]


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("exits"), request.param)


@pytest.fixture(autouse=True)
def unsure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random models are never sure of anything."""
    monkeypatch.setattr("edgedec.draft.exit._UNSURE_NATS", 100.0)


def bypasses(runner: Runner) -> list[Bypass | None]:
    """Those of all peeks of the runner from now on."""
    seen: list[Bypass | None] = []
    peek = runner.forward.peek

    def watched(tokens: Sequence[int], **options: object) -> object:
        seen.append(options["bypass"])  # type: ignore[arg-type]
        return peek(tokens, **options)  # type: ignore[arg-type]

    runner.forward.peek = watched  # type: ignore[method-assign, assignment]
    return seen


@pytest.mark.parametrize("params", KINDS, ids=["greedy", "sampled", "penalty"])
def test_replies_with_random_trained_exits_are_those_of_plain_decoding(
    place: Place, params: DrawParams
) -> None:
    place.said.clear()
    expected = place.reply("off", params)
    for exit in place.exits[:-1]:
        assert place.reply(f"exit-{exit}", params) == expected
    assert not [line for line in place.said if "trained" in line]


@pytest.mark.parametrize("params", KINDS, ids=["greedy", "sampled", "penalty"])
def test_replies_with_skipped_layers_are_those_of_plain_decoding(place: Place, params: DrawParams) -> None:
    inner = place.exits[:-1]
    pairs = [(a, b) for a in inner for b in inner if b > a]
    expected = place.reply("off", params)
    for a, b in pairs[:2] + pairs[-1:]:
        assert place.reply(f"skip-{a}-{b}", params) == expected


def test_the_installed_correction_is_the_one_that_drafts(place: Place) -> None:
    runner = place.runner(f"exit-{place.exits[0]}")
    seen = bypasses(runner)
    list(runner.engine.generate(PROMPT, KINDS[0], max_tokens=8, stop_ids=()))
    assert seen
    assert all(isinstance(one and one.change, ExitAdapter) for one in seen)
    assert all(one and one.to == place.exits[-1] for one in seen)


def overwritten(place: Place) -> None:
    path = next(place.folder.glob("exit-*.npz"))
    path.write_bytes(path.read_bytes()[:-9])


def of_another_model(place: Place) -> None:
    path = place.folder / DRAFTER
    facts = json.loads(path.read_text())
    facts["target"]["sha256"] = "0" * 64
    path.write_text(json.dumps(facts))


def of_another_width(place: Place) -> None:
    place.install(width=place.manifest.spec.hidden_size + 1)


def without_numbers(place: Place) -> None:
    place.install(value=1e30)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (overwritten, "exit-"),
        (of_another_model, "other weights"),
        (of_another_width, "wrong shape"),
        (without_numbers, "not numbers"),
    ],
)
def test_exits_that_cannot_be_used_cost_one_line(
    place: Place, spoil: Callable[[Place], None], reason: str
) -> None:
    expected = place.reply("off")
    try:
        with np.errstate(over="ignore"):
            spoil(place)
        place.said.clear()
        runner = place.runner(f"exit-{place.exits[0]}")
        seen = bypasses(runner)
        steps = runner.engine.generate(PROMPT, KINDS[0], max_tokens=24, stop_ids=())
        assert [step.token for step in steps] == expected
        assert set(seen) == {None}
        (line,) = [line for line in place.said if "trained" in line]
        assert "runs without its trained exits" in line
        assert reason in line
    finally:
        shutil.rmtree(place.folder)
        place.install()


def test_speed_of_a_chain_by_its_agreement_and_step() -> None:
    assert speed_of(0.0, 0.1) < 1.0
    assert speed_of(1.0, 1.0) == pytest.approx(1.0)
    assert speed_of(0.9, 0.1) > speed_of(0.7, 0.1) > speed_of(0.7, 0.4)
    assert speed_of(1.0, 0.0, 0.2) == pytest.approx(9 / 2.6)


def test_only_ways_that_can_pay_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """By bytes: of a model whose head has two thirds of its weights, and of one with a small head."""

    def names(layers: int, head: float, *, kept: float | None, right: dict[int, float]) -> list[str]:
        forward = MarkovForward(vocab_size=24)
        forward._caps = replace(forward.caps, exits=(layers // 4, layers // 2, layers - 2, layers))
        monkeypatch.setattr(
            "edgedec.draft.exit.read_bytes", lambda _, count: (count * (1 - head) / layers, head)
        )
        trimmed = None if kept is None else TrimmedHead(np.arange(int(kept * 24), dtype=np.int64), 0.5)
        ways = promising(exits_of(forward.caps), forward, trimmed, lambda way: right.get(way.exit))
        return [way.name for way in ways]

    assert names(18, 0.63, kept=0.125, right={}) == ["exit-18"]
    assert names(18, 0.63, kept=0.125, right={4: 0.9}) == ["exit-4", "exit-18"]
    assert names(30, 0.1, kept=0.5, right={}) == []
    assert names(30, 0.1, kept=None, right={15: 0.6}) == []
    assert names(30, 0.1, kept=None, right={15: 0.95}) == ["exit-15"]


def test_a_way_past_layers_keeps_the_first_and_the_last_ones() -> None:
    caps = replace(MarkovForward().caps, exits=(1, 3, 4))
    assert skips_of(caps) == [Way(1, Bypass(3))]
    assert skips_of(caps)[0].layers(4) == 2
    assert skips_of(caps)[0].name == "skip-1-3"
    drafter = ExitDrafter(MarkovForward(), 1, bypass=Bypass(2))
    assert drafter.name == "skip-1-2"


def test_unknown_names_of_ways_are_refused(place: Place) -> None:
    with pytest.raises(UsageError, match="no drafter skip-9-3"):
        place.runner("skip-9-3")
    with pytest.raises(UsageError, match="no drafter exit-999"):
        place.runner("exit-999")


def test_spans_of_layers_have_a_name_and_run_the_rest() -> None:
    caps = replace(MarkovForward().caps, exits=(1, 3, 4, 6, 8))
    way = _named("skip-1-3-4-6", "tiny", caps)
    assert way == skipping(1, 3, 4, 6) == Way(1, Bypass(3, further=((4, 6),)))
    assert (way.name, way.layers(8)) == ("skip-1-3-4-6", 4)
    for wrong in ("skip-1", "skip-1-3-4", "skip-1-3-3-6", "skip-3-1", "skip-1-8", "skip-1-5", "skip-0-3"):
        with pytest.raises(UsageError, match=f"no drafter {wrong}"):
            _named(wrong, "tiny", caps)


def test_a_model_of_two_layers_can_leave_none_out() -> None:
    caps = replace(MarkovForward().caps, exits=(1, 2))
    with pytest.raises(UsageError, match="no drafter skip-1-2") as caught:
        _named("skip-1-2", "tiny", caps)
    assert caught.value.hint == "it has too few layers to leave some out"
