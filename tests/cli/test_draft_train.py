"""``edgedec draft train``, on a model of random weights."""

from __future__ import annotations

import importlib.util
import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgedec.bundle.drafter_manifest import DrafterManifest
from edgedec.cli.draft import train_head, training
from edgedec.cli.interrupts import interrupts_to
from edgedec.disk.installing import pip_install
from edgedec.training.rollouts import RolloutStore, held_out
from tests.cli.support import Home, assert_one_line, ran, run

PROMPTS = [f"Once upon a time there were {number} cats" for number in range(40)]


@pytest.fixture
def prompts(home: Home, tmp_path: Path) -> Path:
    file = tmp_path / "prompts.txt"
    file.write_text("\n".join(PROMPTS), encoding="utf-8")
    return file


def test_without_torch_one_line_names_the_extra(
    home: Home, prompts: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "edgedec.cli.draft.training.find_spec", lambda name: None if name == "torch" else found(name)
    )
    result = run(home.real(), "draft", "train", "-m", str(bundle))
    assert_one_line(result, 2, "training needs torch", pip_install("train"))


def test_two_ways_to_say_how_long_are_refused(home: Home, prompts: Path, bundle: Path) -> None:
    result = run(home.real(), "draft", "train", "-m", str(bundle), "--minutes", "1", "--steps", "5")
    assert_one_line(result, 2, "--steps and --minutes both say how long", "leave out one")


def test_the_command_gathers_trains_measures_exports_and_goes_on(
    home: Home, prompts: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(training, "REPLY_TOKENS", 12)
    monkeypatch.setattr(training, "LEAST_TOKENS", 1200)
    arguments = ("draft", "train", "-m", str(bundle), "--prompts", str(prompts))
    arguments += ("--ids", "256", "--threads", "1", "--json")
    result = ran(home.real(), *arguments, "--steps", "4")
    report = json.loads(result.stdout)
    assert len(report["agreement"]) == 5
    manifest = DrafterManifest.load(Path(report["folder"]))
    assert manifest.facts["steps"] == 4
    folder = Path(report["training"])
    assert "# Drafting head for" in (folder / "card.md").read_text()
    again = ran(home.real(), *arguments, "--steps", "3")
    assert json.loads(again.stdout)["facts"]["steps"] == 7


def test_an_interrupted_run_is_saved_and_the_same_command_finishes_it(
    home: Home, prompts: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(training, "REPLY_TOKENS", 12)
    monkeypatch.setattr(training, "LEAST_TOKENS", 300)
    interrupts = [True]

    @contextmanager
    def interrupting() -> Iterator[Callable[[str, int, int], None]]:
        def step(stage: str, done: int, total: int) -> None:
            if stage == "training" and interrupts:
                interrupts.pop()
                signal.raise_signal(signal.SIGINT)

        yield step

    monkeypatch.setattr(train_head, "steps", interrupting)
    arguments = ("draft", "train", "-m", str(bundle), "--prompts", str(prompts))
    arguments += ("--ids", "256", "--threads", "1", "--json", "--steps", "3")
    first = run(home.real(), *arguments)
    assert first.exit_code == 130
    assert "stopped at step 1; the same command goes on" in first.stderr
    assert not (home.path / "drafters").exists()
    second = ran(home.real(), *arguments)
    assert "going on after step 1" in second.stderr
    assert json.loads(second.stdout)["facts"]["steps"] == 3


def test_a_second_interrupt_ends_at_once() -> None:
    stopped = threading.Event()
    with interrupts_to(stopped.set):
        assert not stopped.is_set()
        signal.raise_signal(signal.SIGINT)
        assert stopped.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_held_out_prompts_are_not_in_the_training_data(home: Home, prompts: Path, bundle: Path) -> None:
    pytest.importorskip("torch")
    from edgedec.training.head_training import HeadSettings, HeadTraining

    arguments = ("--prompts", str(prompts), "--greedy", "--max-tokens", "8")
    ran(home.real(), "draft", "rollouts", "-m", str(bundle), *arguments)
    job = HeadTraining(bundle, home.path, HeadSettings())
    replies = job.replies()
    texts = {key: text for text in PROMPTS for key in [_key(text)]}
    trained, measured = ({texts[one.key] for one in part} for part in (replies.train, replies.held_out))
    assert trained | measured == set(PROMPTS)
    assert not trained & measured
    assert not any(held_out(text) for text in trained)
    assert not {tuple(one.prompt) for one in replies.train} & {tuple(one.prompt) for one in replies.held_out}
    assert len(list(RolloutStore(job.store.folder))) == len(PROMPTS)


def _key(text: str) -> str:
    from edgedec.training.rollouts import key_of

    return key_of(text)


def test_a_smaller_model_is_adapted_and_drafts_by_its_name(
    home: Home, prompts: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(training, "REPLY_TOKENS", 12)
    monkeypatch.setattr(training, "LEAST_TOKENS", 300)
    source = bundle.parent / "llama-0.gguf"
    arguments = ("draft", "train", "-m", str(bundle), "--from", str(source))
    arguments += ("--steps", "2", "--ids", "256")
    result = ran(home.real(), *arguments, "--prompts", str(prompts), "--threads", "1", "--json")
    report = json.loads(result.stdout)
    assert report["facts"]["steps"] == 2
    assert Path(report["adapter"]).suffix == ".safetensors"
    replies = [
        json.loads(
            run(
                home.real(), "generate", "-m", str(bundle), "--raw", "-p", "Once upon", "--max-tokens", "12",
                "--temperature", "0", "--draft", draft, "--json",
            ).stdout
        )
        for draft in ("off", report["draft"])
    ]  # fmt: skip
    assert replies[0]["text"] == replies[1]["text"]
    assert replies[1]["stats"]["draft"] == [report["draft"]]


def test_the_kind_of_a_drafter_is_no_option_any_more(bundle: Path) -> None:
    result = run(None, "draft", "train", "-m", str(bundle), "--kind", "small", "--from", "smollm2-135m")
    assert_one_line(result, 2, "no such option: --kind", "give --from GGUF alone for a small model")


def test_a_small_model_of_an_installed_one_needs_its_file(home: Home, prompts: Path, bundle: Path) -> None:
    pytest.importorskip("torch")
    arguments = ("draft", "train", "-m", str(bundle), "--from", "smollm2-135m")
    result = run(home.real(), *arguments)
    assert_one_line(result, 3, "no GGUF file of smollm2-135m is kept", "--keep-source")
