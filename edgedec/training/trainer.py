"""Trains a drafter: steps, measuring on held-out replies, and checkpoints that survive a kill."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch

from edgedec.core.errors import BadFileError
from edgedec.core.progress import Progress, silent
from edgedec.core.quick_dataclass import dataclass
from edgedec.metrics.stats import Clock
from edgedec.system.allocator import keep_freed
from edgedec.training.batch import TextBatch
from edgedec.training.checkpoint import Checkpoint
from edgedec.training.data import TrainingData
from edgedec.training.learner import Learner
from edgedec.training.log import TrainingLog
from edgedec.training.order import Place, batches, following
from edgedec.training.recipe import TrainingRecipe
from edgedec.training.schedule import TrainingPlan, rate
from edgedec.training.unrolling import Agreement, agreement, no_agreement

CHECKPOINT = "checkpoint.pt"
SAVE_EVERY_S = 45.0
"""Seconds between two checkpoints; a kill costs no more than these and one step. Measuring saves first."""
MEASURED_DEPTHS = 5
_LOG_EVERY_STEPS = 10
_MEASURES = 4
"""Measurements on held-out replies in one plan, the last one at its end."""


L = TypeVar("L", bound=Learner)


@dataclass(slots=True)
class Watch:
    """How a run speaks to its caller. ``stop`` is asked between two steps."""

    progress: Progress = silent
    stop: Callable[[], bool] = lambda: False
    clock: Clock = time.monotonic
    measured: Callable[[int, Agreement], None] = field(default=lambda step, found: None)


class Trainer(Generic[L]):
    """A drafter in training, with its checkpoint and its log in ``folder``.

    ``learner`` is the drafter to begin with; a checkpoint in ``folder`` comes first. Raises BadFileError for
    one that is damaged, or that is of another target, recipe or vocabulary.
    """

    def __init__(self, learner: L, data: TrainingData, recipe: TrainingRecipe, folder: Path) -> None:
        self.learner, self.recipe, self._data, self._folder = learner, recipe, data, folder
        self._optimizer = torch.optim.AdamW(
            learner.module.parameters(),
            lr=recipe.peak_rate,
            betas=(0.9, 0.95),
            weight_decay=recipe.weight_decay,
        )
        self._log = TrainingLog(folder)
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        self._place, self._plan, self._planned_s = Place(), TrainingPlan(0, 0, None), 0.0
        self._measured: tuple[int, Agreement] | None = None
        """The last measurement, and its step."""
        if (found := Checkpoint.load(folder / CHECKPOINT)) is not None:
            self._take(found)

    @property
    def unfinished(self) -> bool:
        """Whether a plan was begun and not ended."""
        return self._plan.progress(self.step, self._planned_s) < 1.0

    @property
    def lost_s(self) -> float:
        """Seconds of training after the checkpoint, by the log until ``run``: a kill lost them."""
        return max(self._log.seconds_after(self.step) - self.seconds, 0.0)

    def steps_of(self, epochs: float) -> int:
        """Return the steps of so many epochs over the data as it is now."""
        first = batches(self._data.lengths, self.recipe.batch_tokens, (self.recipe.seed, self._place.epoch))
        return max(round(epochs * len(first)), 1)

    def run(
        self, *, steps: int | None = None, seconds: float | None = None, watch: Watch | None = None
    ) -> bool:
        """Train, and save at the end; return whether the plan came to its end.

        A plan that was not ended goes on; otherwise a new one has ``steps`` steps or takes ``seconds``.
        """
        keep_freed()
        watch = watch or Watch()
        if not self.unfinished:
            self._plan, self._planned_s = TrainingPlan(self.step, steps, seconds), 0.0
        self._log.forget_after(self.step)
        began, before, saved = watch.clock(), (self._planned_s, self.seconds), watch.clock()
        measured = int(self._plan.progress(self.step, self._planned_s) * _MEASURES)
        data, recent = self._data, list[dict[str, Any]]()
        for indices, after in following(
            data.lengths, self.recipe.batch_tokens, self.recipe.seed, self._place
        ):
            if watch.stop() or not self.unfinished:
                break
            batch = data.batch(indices.tolist())
            done = self._plan.progress(self.step, self._planned_s)
            recent.append(self._train(batch, rate(self.recipe.peak_rate, done)))
            self._place, self.step, self.tokens = after, self.step + 1, self.tokens + batch.size
            now = watch.clock()
            self._planned_s, self.seconds = (start + now - began for start in before)
            done = self._plan.progress(self.step, self._planned_s)
            watch.progress("training", round(done * 1000), 1000)
            if self.step % _LOG_EVERY_STEPS == 0:
                self._log.steps(self.step, self.seconds, recent)
                recent.clear()
            if int(done * _MEASURES) > measured:
                measured = int(done * _MEASURES)
                self.save()
                self._measure(watch)
                saved = watch.clock()
            if watch.clock() - saved >= SAVE_EVERY_S:
                self.save()
                saved = watch.clock()
        self.save()
        return not self.unfinished

    def agreement(self, depths: int = MEASURED_DEPTHS) -> Agreement:
        """Return how chains of the head agree with the target on held-out replies.

        The weights of one step are measured once.
        """
        if self._measured and self._measured[0] == self.step and len(self._measured[1].rates) == depths:
            return self._measured[1]
        found = no_agreement(depths)
        for index in range(len(self._data.held_out)):
            text = self._data.held_out[index].end_of_prompt()
            found += agreement(self.learner.hits(text, depths))
        self._measured = self.step, found
        return found

    def save(self) -> None:
        """Write the checkpoint. Raises StorageError."""
        Checkpoint(
            weights=self.learner.module.state_dict(),
            optimizer=self._optimizer.state_dict(),
            step=self.step,
            place=self._place,
            plan=self._plan,
            planned_s=self._planned_s,
            seconds=self.seconds,
            tokens=self.tokens,
            facts=self.learner.facts(),
        ).save(self._folder / CHECKPOINT)

    def _take(self, found: Checkpoint) -> None:
        """Go on from a checkpoint."""
        path = self._folder / CHECKPOINT
        facts = self.learner.facts()
        same = {name: value for name, value in found.facts.items() if name != "keep"}
        mine = {name: value for name, value in facts.items() if name != "keep"}
        if same != mine or not torch.equal(found.facts["keep"], facts["keep"]):
            raise BadFileError(
                f"{path} was trained with another recipe or for other tokens",
                hint="remove it, and training begins anew",
            )
        self.learner.module.load_state_dict(found.weights)
        self._optimizer.load_state_dict(found.optimizer)
        self.step, self.tokens, self.seconds = found.step, found.tokens, found.seconds
        self._place, self._plan, self._planned_s = found.place, found.plan, found.planned_s

    def _train(self, batch: TextBatch, learning_rate: float) -> dict[str, Any]:
        """Take one step; return its losses and shares of right guesses by depth."""
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        found, parameters = self.learner.losses(batch), self.learner.module.parameters()
        self._optimizer.zero_grad(set_to_none=True)
        found.total.backward()
        torch.nn.utils.clip_grad_norm_(parameters, self.recipe.clip)
        self._optimizer.step()
        return {"loss": found.loss, "right": found.right, "rate": learning_rate, "tokens": batch.size}

    def _measure(self, watch: Watch) -> None:
        found = self.agreement()
        self._log.held_out(self.step, self.seconds, found)
        watch.measured(self.step, found)
