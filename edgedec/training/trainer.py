"""Trains a drafting head: steps, measuring on held-out replies, and checkpoints that survive a kill."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgedec.core.errors import BadFileError
from edgedec.core.progress import Progress, silent
from edgedec.export.draft_head.weights import HeadWeights
from edgedec.telemetry.stats import Clock
from edgedec.training.batch import TextBatch, batch_of
from edgedec.training.checkpoint import Checkpoint
from edgedec.training.data import TrainingData
from edgedec.training.features import Features
from edgedec.training.head_model import DraftHead, cross_entropy
from edgedec.training.log import TrainingLog
from edgedec.training.order import Place, following
from edgedec.training.schedule import TrainingPlan, rate
from edgedec.training.unrolling import Agreement, agreement, no_agreement

CHECKPOINT = "checkpoint.pt"
SAVE_EVERY_S = 45.0
"""Seconds between two checkpoints; a kill costs no more than these and one step."""
MEASURED_DEPTHS = 5
_LOG_EVERY_STEPS = 10
_MEASURES = 8
"""Measurements on held-out replies in one plan, the last one at its end."""


@dataclass(frozen=True, slots=True)
class TrainingRecipe:
    """Settings of training that a checkpoint cannot change."""

    peak_rate: float = 1e-3
    batch_tokens: int = 1024
    depths: int = 4
    """Draft steps that each row is unrolled over."""
    decay: float = 0.8
    """Weight of the loss at each depth, relative to the one before."""
    clip: float = 1.0
    """Largest norm of the gradient."""
    weight_decay: float = 0.01
    seed: int = 0


@dataclass(slots=True)
class Watch:
    """How a run speaks to its caller. ``stop`` is asked between two steps."""

    progress: Progress = silent
    stop: Callable[[], bool] = lambda: False
    clock: Clock = time.monotonic
    measured: Callable[[int, Agreement], None] = field(default=lambda step, found: None)


class Trainer:
    """A head in training, with its checkpoint and its log in ``folder``.

    ``start`` is the head to begin with; a checkpoint in ``folder`` comes first. Raises BadFileError for a
    checkpoint that is damaged, or that is of another target, recipe or vocabulary.
    """

    def __init__(
        self,
        start: HeadWeights,
        data: TrainingData,
        recipe: TrainingRecipe,
        folder: Path,
        device: str = "cpu",
    ) -> None:
        self.recipe, self._data, self._folder, self._device = recipe, data, folder, device
        self._head = DraftHead(start, data.rows).to(device)
        self._optimizer = torch.optim.AdamW(
            self._head.parameters(), lr=recipe.peak_rate, betas=(0.9, 0.95), weight_decay=recipe.weight_decay
        )
        self._facts = {**asdict(recipe), "sizes": _sizes(start), "keep": torch.from_numpy(start.keep)}
        self._log = TrainingLog(folder)
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        self._place, self._plan, self._planned_s = Place(), TrainingPlan(0, 0, None), 0.0
        if (found := Checkpoint.load(folder / CHECKPOINT)) is not None:
            self._take(found)

    @property
    def unfinished(self) -> bool:
        """Whether a plan was begun and not ended."""
        return self._plan.progress(self.step, self._planned_s) < 1.0

    def weights(self) -> HeadWeights:
        """Return the head as it is now."""
        found: HeadWeights = self._head.weights()
        return found

    def run(
        self, *, steps: int | None = None, seconds: float | None = None, watch: Watch | None = None
    ) -> bool:
        """Train, and save at the end; return whether the plan came to its end.

        A plan that was not ended goes on; otherwise a new one has ``steps`` steps or takes ``seconds``.
        """
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
                self._measure(watch)
            if watch.clock() - saved >= SAVE_EVERY_S:
                self.save()
                saved = watch.clock()
        self.save()
        return not self.unfinished

    def agreement(self, depths: int = MEASURED_DEPTHS) -> Agreement:
        """Return how chains of the head agree with the target on held-out replies."""
        found = no_agreement(depths)
        for index in range(len(self._data.held_out)):
            text = self._data.held_out[index].end_of_prompt()
            found += agreement(self._hits(text, depths))
        return found

    def save(self) -> None:
        """Write the checkpoint. Raises StorageError."""
        Checkpoint(
            weights=self._head.state_dict(),
            optimizer=self._optimizer.state_dict(),
            step=self.step,
            place=self._place,
            plan=self._plan,
            planned_s=self._planned_s,
            seconds=self.seconds,
            tokens=self.tokens,
            facts=self._facts,
        ).save(self._folder / CHECKPOINT)

    def _take(self, found: Checkpoint) -> None:
        """Go on from a checkpoint."""
        path = self._folder / CHECKPOINT
        same = {name: value for name, value in found.facts.items() if name != "keep"}
        mine = {name: value for name, value in self._facts.items() if name != "keep"}
        if same != mine or not torch.equal(found.facts["keep"], self._facts["keep"]):
            raise BadFileError(
                f"{path} was trained with another recipe or for other tokens",
                hint="remove it, and training begins anew",
            )
        self._head.load_state_dict(found.weights)
        self._optimizer.load_state_dict(found.optimizer)
        self.step, self.tokens, self.seconds = found.step, found.tokens, found.seconds
        self._place, self._plan, self._planned_s = found.place, found.plan, found.planned_s

    def _train(self, batch: TextBatch, learning_rate: float) -> dict[str, Any]:
        """Take one step; return its losses and shares of right guesses by depth."""
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        places, probs, taught = (
            torch.from_numpy(array).to(self._device) for array in (batch.places, batch.probs, batch.taught)
        )
        total = torch.zeros((), device=self._device)
        losses, right = [], []
        with self._autocast():
            first = batch.first
            for step, outputs in enumerate(self._outputs(batch, self.recipe.depths, first)):
                answers = slice(first + 1 + step, None)
                rows = taught[:, answers]
                asked = self._head.normed(outputs[:, : rows.shape[1]][rows])
                at = places[:, answers][rows]
                loss, guesses = cross_entropy(asked, self._matrix(), at, probs[:, answers][rows])
                loss = loss / max(len(asked), 1)
                total = total + self.recipe.decay**step * loss
                losses.append(float(loss.detach()))
                right.append(float((guesses == at[:, 0]).float().mean()) if len(asked) else 0.0)
        self._optimizer.zero_grad(set_to_none=True)
        total.backward()
        torch.nn.utils.clip_grad_norm_(self._head.parameters(), self.recipe.clip)
        self._optimizer.step()
        return {"loss": losses, "right": right, "rate": learning_rate, "tokens": batch.size}

    def _outputs(self, batch: TextBatch, depths: int, first: int) -> Any:
        embedded = torch.from_numpy(self._data.embedding.gather(batch.tokens)).to(self._device)
        taps = torch.from_numpy(batch.hidden).to(self._device).float()
        return self._head.unrolled(embedded, taps, depths, first)

    def _hits(self, text: Features, depths: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return bool[rows, depths] for the rows of the reply whose guesses are all within it."""
        batch = batch_of([text], self._data.vocabulary)
        rows = range(text.first + 1, len(text.tokens) - 1 - depths)
        found = np.zeros((len(rows), depths), dtype=np.bool_)
        if not rows:
            return found
        with torch.no_grad(), self._autocast():
            for step, outputs in enumerate(self._outputs(batch, depths, rows.start)):
                normed = self._head.normed(outputs[0, : len(rows)])
                logits = normed.to(self._matrix().dtype) @ self._matrix().T
                said = self._data.vocabulary.keep[logits.argmax(dim=1).cpu().numpy()]
                found[:, step] = said == batch.tokens[0, rows.start + 2 + step : rows.stop + 2 + step]
        return found

    def _matrix(self) -> torch.Tensor:
        matrix = self._head.matrix
        return matrix.to(torch.bfloat16) if self._device == "cuda" else matrix

    def _autocast(self) -> AbstractContextManager[object]:
        """Compute in bfloat16 on a GPU."""
        return torch.autocast("cuda", torch.bfloat16) if self._device == "cuda" else nullcontext()

    def _measure(self, watch: Watch) -> None:
        found = self.agreement()
        self._log.held_out(self.step, self.seconds, found)
        watch.measured(self.step, found)


def _sizes(head: HeadWeights) -> Sequence[int]:
    return [head.hidden, head.heads, head.kv_heads, head.head_dim, head.ffn, int(head.head is not None)]
