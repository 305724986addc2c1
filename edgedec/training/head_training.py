"""From a target's replies to a trained head: ids, features, training, export, and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgedec.bundle.drafter_manifest import HEAD, Target
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import NotFoundError
from edgedec.core.progress import Progress, silent
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.files import atomic_path
from edgedec.disk.home import ARTIFACTS, TRAINING
from edgedec.disk.listed_files import Scalar
from edgedec.draft.subset import counted, coverage
from edgedec.text.tokenizer import Tokenizer
from edgedec.training.batch import KeptIds
from edgedec.training.data import TrainingData
from edgedec.training.features import FeatureCache, Teacher, trained_length
from edgedec.training.initial import initial_head
from edgedec.training.kept_ids import kept_ids
from edgedec.training.rollouts import Rollout, RolloutStore, rollouts_folder
from edgedec.training.target_weights import KnownRows, TargetWeights, refuse_experts

if TYPE_CHECKING:
    from edgedec.training.learner import HeadLearner
    from edgedec.training.recipe import TrainingRecipe
    from edgedec.training.trainer import Trainer
    from edgedec.training.unrolling import Agreement

DEFAULT_IDS = 16384
_FEATURES = "features"
CARD = "card.md"


@dataclass(frozen=True, slots=True)
class Replies:
    """The target's replies: those to train on, and those to measure on, whose prompts are others."""

    train: Sequence[Rollout]
    held_out: Sequence[Rollout]

    @classmethod
    def of(cls, store: RolloutStore, name: str) -> Replies:
        """Read a store. Raises NotFoundError when it lacks either kind.

        Replies without chance measure how often a head agrees; drawn ones do where there are no others.
        """
        measured = list(store.chosen(held_out=True))
        greedy = [one for one in measured if one.greedy]
        found = cls(list(store.chosen(held_out=False)), greedy or measured)
        if not found.train or not found.held_out:
            raise NotFoundError(
                f"{len(found.train) + len(found.held_out)} replies of {name} are too few to train a head on, "
                "because one in twenty is only measured",
                hint="let the model answer more prompts",
            )
        return found

    @property
    def tokens(self) -> int:
        """Tokens of the replies to train on."""
        return sum(len(one.reply) for one in self.train)


@dataclass(frozen=True, slots=True)
class HeadSettings:
    """Settings of one head. ``ids``: tokens that it predicts; ``own_head``: it has trained rows for them."""

    ids: int = DEFAULT_IDS
    own_head: bool = False
    cache_bytes: int = 4_000_000_000
    """Most bytes of features on disk; 0: none are kept."""
    device: str = "cpu"


class HeadTraining:
    """Training of a head for the model in ``bundle``; its files are in a folder below ``home``.

    Raises UnsupportedError for a model of which no head can be trained.
    """

    def __init__(self, bundle: Path, home: Path, settings: HeadSettings) -> None:
        self._bundle, self._home, self._settings = bundle, home, settings
        self.manifest = Manifest.load(bundle)
        refuse_experts(self.manifest)
        self.target = Target.of(self.manifest)
        self.folder = home / TRAINING / self.target.short_hash
        self.store = RolloutStore(rollouts_folder(home, self.target))

    def replies(self) -> Replies:
        """Return the replies that there are. Raises NotFoundError for too few."""
        return Replies.of(self.store, self.manifest.name)

    def kept_ids(self, replies: Replies, tokenizer: Tokenizer) -> NDArray[np.int64]:
        """Return the ids that the head predicts: the most frequent, and those that must not lack.

        The first training chooses them, and later ones keep them.
        """
        return kept_ids(self.folder, replies.train, tokenizer, self.manifest.spec, self._settings.ids)

    def data(
        self, replies: Replies, keep: NDArray[np.int64], teacher: Teacher, progress: Progress = silent
    ) -> TrainingData:
        """Compute what features are missing on disk, and return the data of a run."""
        weights = TargetWeights(self._bundle, self.manifest)
        folder = self.folder / _FEATURES if self._settings.cache_bytes else None
        parts, left = [], self._settings.cache_bytes
        for name, rollouts in (("held-out", replies.held_out), ("train", replies.train)):
            cache = FeatureCache(rollouts, teacher.features, folder and folder / name, left)
            left -= cache.fill(progress)
            parts.append(cache)
        lengths = [trained_length(one) for one in replies.train]
        vocabulary = KeptIds(keep, self.manifest.spec.vocab_size)
        rows = weights.head.gather(keep)
        table = weights.embedding
        embedding = KnownRows(table.rows, table.cols, table.gather).gather
        return TrainingData(parts[1], lengths, parts[0], vocabulary, embedding, rows)

    def trainer(self, data: TrainingData, recipe: TrainingRecipe) -> Trainer[HeadLearner]:
        """Return the trainer, which goes on from the last checkpoint. Raises BadFileError."""
        from edgedec.training.learner import HeadLearner
        from edgedec.training.trainer import Trainer

        weights = TargetWeights(self._bundle, self.manifest)
        keep = data.vocabulary.keep
        own, spec = self._settings.own_head, self.manifest.spec
        start = initial_head(weights, spec, keep, own_head=own, seed=recipe.seed)
        learner = HeadLearner(start, data, recipe, self._settings.device)
        return Trainer(learner, data, recipe, self.folder)

    def facts(self, trainer: Trainer[HeadLearner], replies: Replies, found: Agreement) -> dict[str, Scalar]:
        """Return what is known about a trained head, for its manifest and its card."""
        keep = trainer.learner.weights().keep
        measured = counted((one.reply for one in replies.held_out), self.manifest.spec.vocab_size)
        return {
            "replies": len(replies.train),
            "reply tokens": replies.tokens,
            "tokens trained on": trainer.tokens,
            "steps": trainer.step,
            "seconds of training": round(trainer.seconds, 1),
            "ids kept": len(keep),
            "held-out coverage": round(coverage(keep, measured), 4),
            "held-out replies": len(replies.held_out),
            "held-out tokens a pass": round(found.tokens_a_pass, 3),
            **{f"agreement at depth {depth}": round(rate, 4) for depth, rate in enumerate(found.rates, 1)},
        }

    def export(
        self, trainer: Trainer[HeadLearner], facts: Mapping[str, Scalar], quant: str, progress: Progress
    ) -> Path:
        """Write the drafter where the model finds it from the next start on, and the card; return its folder.

        Raises the errors of ``export_head``.
        """
        from edgedec.export.draft_head.bundle import export_head

        place = self._home / ARTIFACTS / self.target.short_hash / HEAD
        export_head(
            trainer.learner.weights(), self._bundle, place, quant=quant, facts=facts, progress=progress
        )
        with atomic_path(self.folder / CARD) as temporary:
            temporary.write_text(card(self.manifest, trainer.recipe, facts), encoding="utf-8", newline="\n")
        return place


def card(manifest: Manifest, recipe: TrainingRecipe, facts: Mapping[str, Scalar]) -> str:
    """Return the card of a head as Markdown: for which model, how it was made, and what was measured."""
    licence = manifest.source.get("licence", "that of the model")
    lines = [
        f"# Drafting head for {manifest.name}",
        "",
        f"One decoder layer that guesses the next tokens of {manifest.name} from its hidden states.",
        "The model verifies every guess: its replies do not change.",
        "",
        f"- Weights of the model: sha256 {Target.of(manifest).sha256}",
        f"- Data: {facts['replies']} replies of the model itself, {facts['reply tokens']} tokens",
        f"- Recipe: EAGLE-3, {recipe.depths} steps over its own outputs, weights {recipe.decay:g}^i; AdamW"
        f", peak rate {recipe.peak_rate:g}, cosine; batches of {recipe.batch_tokens} tokens",
        f"- Licence: {licence}",
        "",
        "| measured | value |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in facts.items()),
        "",
        "Agreement at a depth is the share of guesses that were the model's next token, after right ones at",
        "all depths before, on replies whose prompts were not trained on.",
        "",
    ]
    return "\n".join(lines)
