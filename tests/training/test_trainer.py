"""Training learns, survives a kill to the bit, and goes on from its last checkpoint."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edgedec.core.errors import BadFileError
from tests.conftest import ROOT
from tests.training.toy import random_head, same, toy_data

torch = pytest.importorskip("torch")

RUN = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from edgedec.training import trainer
from tests.training.test_trainer import new_run
trainer.SAVE_EVERY_S = 0.0
run = new_run(Path(sys.argv[1]))
print("begins", flush=True)
run.run(steps=int(sys.argv[2]), watch=trainer.Watch(progress=lambda *_: print(run.step, flush=True)))
"""


def new_run(folder: Path, **settings: object):  # type: ignore[no-untyped-def]
    from edgedec.training.learner import HeadLearner
    from edgedec.training.recipe import TrainingRecipe
    from edgedec.training.trainer import Trainer

    torch.set_num_threads(1)  # sums depend on it
    data, recipe = toy_data(), TrainingRecipe(**{"batch_tokens": 200, **settings})  # type: ignore[arg-type]
    return Trainer(HeadLearner(random_head(), data, recipe), data, recipe, folder)


def trained(folder: Path, steps: int, **recipe: object):  # type: ignore[no-untyped-def]
    run = new_run(folder, **recipe)
    run.run(steps=steps)
    return run


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """A run on a target that can be learned, long enough for it, and its folder."""
    folder = tmp_path_factory.mktemp("learned")
    return trained(folder, 60, peak_rate=6e-3), folder


def test_loss_falls_and_agreement_rises_on_a_target_that_can_be_learned(learned, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    before = new_run(tmp_path).agreement()
    run, folder = learned
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert all(last < 0.6 * first for first, last in zip(losses[0], losses[-1], strict=True))
    assert run.agreement().rates[0] > 0.6 > 0.2 > before.rates[0]
    assert run.agreement().tokens_a_pass > 1.5 * before.tokens_a_pass
    assert [line["step"] for line in lines if "agreement" in line][-1] == 60


def test_the_end_of_a_run_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgedec.training.learner import HeadLearner

    asked: list[int] = []
    hits = HeadLearner.hits

    def counted(self, text, depths):  # type: ignore[no-untyped-def]
        asked.append(depths)
        return hits(self, text, depths)

    run = trained(tmp_path, 4)
    monkeypatch.setattr(HeadLearner, "hits", counted)
    found = run.agreement()
    assert not asked
    assert new_run(tmp_path).agreement() == found
    assert asked
    run.run(steps=1)
    before = len(asked)
    run.agreement(2)
    assert len(asked) > before


def test_a_run_that_was_killed_ends_with_the_weights_of_one_that_was_not(tmp_path: Path) -> None:
    whole = trained(tmp_path / "whole", 24)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", RUN, str(tmp_path / "killed"), "24"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.strip().isdigit() and int(line) >= 9:
                child.send_signal(signal.SIGKILL)
                break
    resumed = trained(tmp_path / "killed", 24)
    assert same(whole.learner.weights(), resumed.learner.weights())
    assert resumed.step == 24
    logs = [[json.loads(line) for line in (tmp_path / name / "log.jsonl").read_text().splitlines()]
            for name in ("whole", "killed")]  # fmt: skip
    assert [line["step"] for line in logs[1] if "loss" in line][-1] == 20
    steps = [line["step"] for line in logs[1] if "loss" in line]
    assert steps == sorted(set(steps))


def test_lost_seconds_are_those_of_the_log_behind_the_checkpoint(tmp_path: Path) -> None:
    trained(tmp_path, 20)
    assert new_run(tmp_path).lost_s == 0.0
    line = {
        "step": 30,
        "seconds": new_run(tmp_path).seconds + 40.0,
        "loss": [1.0],
        "right": [0.5],
        "rate": 1e-3,
    }
    with (tmp_path / "log.jsonl").open("a") as log:
        log.write(json.dumps(line) + "\n")
    killed = new_run(tmp_path)
    assert killed.lost_s == pytest.approx(40.0)
    killed.run(steps=1)
    assert killed.lost_s == 0.0


def test_a_measurement_is_made_behind_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring may take minutes, and a kill during it must not cost training."""
    from edgedec.training import trainer

    saved: list[int] = []
    monkeypatch.setattr(
        trainer.Trainer, "_measure", lambda self, watch: saved.append(trainer.Checkpoint.load(path).step)
    )
    path = tmp_path / "checkpoint.pt"
    trained(tmp_path, 16)
    assert saved == [4, 8, 12, 16]


def test_epochs_are_counted_in_steps_that_depend_on_the_data_alone(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    steps = run.steps_of(1)
    assert run.steps_of(3) == 3 * steps
    run.run(steps=steps)
    assert run._place.epoch == 1
    assert run._place.batch == 0


def test_two_runs_with_other_seeds_agree_within_a_twentieth(learned, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Order and first weights are others; what is learned is not."""
    run = trained(tmp_path, 60, peak_rate=6e-3, seed=1)
    one, other = (each.agreement().tokens_a_pass for each in (learned[0], run))
    assert one != other
    assert 0.95 < one / other < 1.05


def test_a_stopped_run_is_saved_and_a_later_one_finishes_its_plan(tmp_path: Path) -> None:
    from edgedec.training.trainer import Watch

    run = new_run(tmp_path)
    assert not run.run(steps=30, watch=Watch(stop=lambda: run.step >= 11))
    again = new_run(tmp_path)
    assert again.step == 11
    assert again.unfinished
    assert again.run(steps=500)
    assert again.step == 30
    assert same(again.learner.weights(), trained(tmp_path / "whole", 30).learner.weights())


def test_a_later_run_starts_from_the_last_checkpoint_with_a_plan_of_its_own(tmp_path: Path) -> None:
    trained(tmp_path, 5)
    assert trained(tmp_path, 7).step == 12


def test_a_run_of_some_seconds_ends_in_time(tmp_path: Path) -> None:
    from edgedec.training.trainer import Watch

    now = [0.0]

    def clock() -> float:
        now[0] += 0.25
        return now[0]

    run = new_run(tmp_path)
    assert run.run(seconds=10.0, watch=Watch(clock=clock))
    assert 5 <= run.step <= 40


@pytest.mark.parametrize("data", [b"", b"junk", b"PK\x03\x04 no archive"])
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "checkpoint.pt").write_bytes(data)
    with pytest.raises(BadFileError, match="holds no training"):
        trained(tmp_path, 1)


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path: Path) -> None:
    trained(tmp_path, 2)
    with pytest.raises(BadFileError, match="another recipe"):
        trained(tmp_path, 2, depths=2)


def test_checkpoints_are_at_most_a_minute_apart() -> None:
    from edgedec.training.trainer import SAVE_EVERY_S

    assert SAVE_EVERY_S <= 60


def test_an_unrolled_head_is_better_on_its_own_outputs(learned, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """The reason to train on several depths: depth 3 is right more often than with one depth."""
    one = trained(tmp_path, 60, peak_rate=6e-3, depths=1)
    assert learned[0].agreement(3).rates[2] > one.agreement(3).rates[2]
