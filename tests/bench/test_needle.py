"""A fact in a long text: where it is put, what is asked, how replies are counted, and a whole run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from edgedec import api
from edgedec.assemble.config import RunConfig
from edgedec.bench.harness.runtimes import OwnRun
from edgedec.bench.harness.study import StudySide
from edgedec.bench.studies.needle import FULL, NeedleResult, NeedleTrial, find_needles, prompt_of, trials_of
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import LOSSY
from edgedec.core.errors import UsageError
from edgedec.core.progress import silent
from edgedec.models import Store
from edgedec.text.codec import Codec
from tests.bench.test_commands import bench, report
from tests.cli.support import assert_one_line
from tests.fixtures.tiny_models import tiny_bundle

TEXT = "The cat sat on the mat. The dog did not! Where was it? " * 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("needle")
    tiny_bundle(folder).rename(folder / "bundle")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    return folder


@pytest.fixture
def codec(folder: Path) -> Codec:
    return opened(folder, context=512).loaded.codec


def opened(folder: Path, **settings: Any) -> api.Model:
    config = RunConfig(threads=1, draft="off", **settings)
    return api.open(api.Bundles(folder / "bundle"), config, store=Store(folder / "home"))


def test_facts_stand_at_even_depths(codec: Codec) -> None:
    trials = trials_of([TEXT], codec.tokenizer, 120, count=10)
    assert Counter(trial.depth for trial in trials) == {0.0: 2, 0.25: 2, 0.5: 2, 0.75: 2, 1.0: 2}
    assert len({trial.number for trial in trials}) == 10
    for trial in trials:
        fact = f"The secret number of {trial.city} is {trial.number}."
        assert trial.text.count(fact) == 1
        before = trial.text.index(fact) / (len(trial.text) - len(fact))
        assert abs(before - trial.depth) < 0.12
    assert [trials[0].text.startswith("The secret"), trials[4].text.endswith(".")] == [True, True]
    assert trials == trials_of([TEXT], codec.tokenizer, 120, count=10)
    with pytest.raises(UsageError, match="tokens, and 9999 are wanted"):
        trials_of([TEXT], codec.tokenizer, 9999, count=10)


def test_the_question_comes_last(codec: Codec) -> None:
    trial = NeedleTrial(0.5, "Oslo", "12345", "Some text.")
    ids, preamble = prompt_of(trial, codec)
    text = codec.tokenizer.decode(ids)
    assert text.index("Some text.") < text.index("What is the secret number of Oslo?")
    assert "Some" not in codec.tokenizer.decode(ids[:preamble])


def test_what_counts_as_found() -> None:
    trials = [NeedleTrial(depth, "Oslo", "12345", "") for depth in (0.0, 1.0, 0.0)]
    found = NeedleResult((True, False, False), ("It is 12345.", "1234", ""))
    facts = found.as_json(trials)
    assert (facts["found"], facts["of"], facts["by_depth"]) == (1, 3, {"0.0": 1, "1.0": 0})


def test_every_trial_begins_anew(folder: Path, codec: Codec) -> None:
    trials = trials_of([TEXT], codec.tokenizer, 120, count=2)
    runs = {way: OwnRun(1, context=64, when_full=way) for way in LOSSY}
    sides = [StudySide(way, run.side(folder / "bundle", way)) for way, run in runs.items()]
    ends = Manifest.load(folder / "bundle").spec.eos_ids
    both = find_needles(sides, trials, codec, ends, silent)
    alone = find_needles(sides, trials[1:], codec, ends, silent)
    for way in LOSSY:
        assert both[way].replies[1:] == alone[way].replies
        assert both[way].evicted > alone[way].evicted > 60


def test_the_sides_of_a_run(folder: Path) -> None:
    args = [
        "accuracy",
        "--task",
        "needle",
        "-m",
        str(folder / "bundle"),
        "--input",
        str(folder / "text.txt"),
        "--threads",
        "1",
    ]
    args += ["--tokens", "150", "--limit", "2"]
    facts = report(bench(folder, *args, "--json"))
    assert list(facts["sides"]) == [FULL, *LOSSY]
    assert all(side["of"] == 2 for side in facts["sides"].values())
    evicted = [side["evicted_tokens"] for side in facts["sides"].values()]
    assert evicted[0] == 0 < evicted[1] <= evicted[2]  # one keeps slots free
    table = bench(folder, *args, "--when-full", "speckv").stdout
    assert "at 0%" in table
    assert "speckv  0 of 2" in table
    assert "mJ/token: an estimate with its bounds, not a measurement" in table
    assert "of full" in table
    assert_one_line(bench(folder, *args, "--tokens", "500"), 2, "more than", "was made for")
