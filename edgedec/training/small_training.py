"""From a target's replies and a GGUF file to a small model: training, GGUF file, bundle, and its card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from gguf.constants import GGUFValueType
from numpy.typing import NDArray

from edgedec.bundle.drafter_manifest import Target
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import UnsupportedError
from edgedec.core.progress import Progress, silent
from edgedec.disk.files import atomic_path, sha256_of
from edgedec.disk.home import TRAINING
from edgedec.disk.listed_files import Scalar
from edgedec.draft.subset import counted, coverage
from edgedec.drafters.pairing import paired
from edgedec.export import ModelCard, export_gguf
from edgedec.export.calibration.search import quantise
from edgedec.export.gguf_writer import GgufTensor, Value, metadata_of, write_gguf
from edgedec.export.huggingface.groups import parse_quant, role_of
from edgedec.export.tokenizer import build_tokenizer
from edgedec.models.layout import Layout, slug
from edgedec.text.encoder import LibraryEncoder
from edgedec.text.tokenizer import Tokenizer
from edgedec.training.batch import KeptIds
from edgedec.training.data import TrainingData
from edgedec.training.features import FeatureCache, Teacher, trained_length
from edgedec.training.head_training import CARD, Replies
from edgedec.training.kept_ids import kept_ids
from edgedec.training.recipe import TrainingRecipe
from edgedec.training.rollouts import RolloutStore, rollouts_folder
from edgedec.training.small_source import EMBEDDING, HEAD, SmallSource
from edgedec.training.target_weights import Floats, KnownRows

if TYPE_CHECKING:
    from edgedec.training.small_learner import SmallLearner
    from edgedec.training.trainer import Trainer
    from edgedec.training.unrolling import Agreement

SMALL_RECIPE = TrainingRecipe(peak_rate=6e-4, depths=1)
_ANSWERS = "answers"
_HASH_DIGITS = 16


@dataclass(frozen=True, slots=True)
class SmallSettings:
    """Settings of one small model: ``layers`` of the source that it keeps, ``ids`` that it learns."""

    layers: int
    ids: int = 16384
    cache_bytes: int = 4_000_000_000
    """Most bytes of answers on disk; 0: none are kept."""
    device: str = "cpu"


class SmallTraining:
    """Training of a small model that drafts for the model in ``bundle``, out of the GGUF file ``source``.

    Raises UnsupportedError for a source with other tokens than the target's, and the errors of
    ``SmallSource``.
    """

    def __init__(self, bundle: Path, source: Path, home: Path, settings: SmallSettings) -> None:
        self._settings, self._bundle, self._home = settings, bundle, home
        self.manifest = Manifest.load(bundle)
        self.target = Target.of(self.manifest)
        self.source = SmallSource(source, settings.layers)
        self.tokenizer = Tokenizer.load(bundle, self.manifest.tokenizer)
        self._check_tokens()
        self.sha256 = sha256_of(source)
        made_of = f"small-{settings.layers}-{self.sha256[:_HASH_DIGITS]}"
        self.folder = home / TRAINING / self.target.short_hash / made_of
        self.store = RolloutStore(rollouts_folder(home, self.target))
        self.name = f"{slug(self.manifest.name)}-small{settings.layers}"

    def kept_ids(self, replies: Replies) -> NDArray[np.int64]:
        """Return the ids that the model learns; see ``training.kept_ids``."""
        spec = self.manifest.spec
        return kept_ids(self.folder, replies.train, self.tokenizer, spec, self._settings.ids)

    def data(
        self, replies: Replies, keep: NDArray[np.int64], teacher: Teacher, progress: Progress = silent
    ) -> TrainingData:
        """Compute what answers of the target are missing on disk, and return the data of a run."""
        folder = self.folder.parent / _ANSWERS if self._settings.cache_bytes else None
        parts, left = [], self._settings.cache_bytes
        for name, rollouts in (("held-out", replies.held_out), ("train", replies.train)):
            cache = FeatureCache(rollouts, teacher.features, folder and folder / name, left)
            left -= cache.fill(progress)
            parts.append(cache)
        return TrainingData(
            train=parts[1],
            lengths=[trained_length(one) for one in replies.train],
            held_out=parts[0],
            vocabulary=KeptIds(keep, self.source.vocabulary),
            embedding=KnownRows(self.source.embedding),
            rows=self.source.head.gather(keep),
        )

    def trainer(self, data: TrainingData, recipe: TrainingRecipe = SMALL_RECIPE) -> Trainer[SmallLearner]:
        """Return the trainer, which goes on from the last checkpoint. Raises BadFileError."""
        from edgedec.training.small_learner import SmallLearner
        from edgedec.training.trainer import Trainer

        learner = SmallLearner(self.source, data, recipe, self._settings.device)
        return Trainer(learner, data, recipe, self.folder)

    def facts(self, trainer: Trainer[SmallLearner], replies: Replies, found: Agreement) -> dict[str, Scalar]:
        """Return what is known about the model, for its manifest and its card."""
        measured = counted((one.reply for one in replies.held_out), self.source.vocabulary)
        keep = trainer.learner.facts()["keep"].numpy()
        return {
            "made of": self.source.path.name,
            "layers kept": ", ".join(str(layer) for layer in self.source.kept),
            "replies": len(replies.train),
            "reply tokens": replies.tokens,
            "tokens trained on": trainer.tokens,
            "steps": trainer.step,
            "seconds of training": round(trainer.seconds, 1),
            "ids learned": len(keep),
            "held-out coverage": round(coverage(keep, measured), 4),
            "held-out replies": len(replies.held_out),
            "held-out tokens a pass": round(found.tokens_a_pass, 3),
            **{f"agreement at depth {depth}": round(rate, 4) for depth, rate in enumerate(found.rates, 1)},
        }

    def export(
        self, trainer: Trainer[SmallLearner], facts: Mapping[str, Scalar], quant: str, progress: Progress
    ) -> tuple[Path, Path]:
        """Write the GGUF file and the bundle into the store, and the card; return file and bundle.

        Raises UsageError for ``quant``, StorageError.
        """
        layout = Layout(self._home)
        file = layout.kept(self.name) / f"{self.name}.gguf"
        file.parent.mkdir(parents=True, exist_ok=True)
        write_small(file, self.source, trainer.learner.arrays(), quant=quant, name=self.name)
        bundle = layout.model(self.name)
        shown = {name: str(value) for name, value in facts.items()}
        card = ModelCard(provenance={"trained for": self.manifest.name, **shown})
        export_gguf(file, bundle, name=self.name, card=card, progress=progress, backend="edgedec")
        with atomic_path(self.folder / CARD) as temporary:
            temporary.write_text(self._card(facts, quant), encoding="utf-8")
        return file, bundle

    def _check_tokens(self) -> None:
        from tokenizers import Tokenizer as Backend  # slow import

        text, info = build_tokenizer(self.source.metadata)
        theirs = Tokenizer(LibraryEncoder(Backend.from_str(text)), info)
        same = self.source.vocabulary == self.manifest.spec.vocab_size
        if not same or not paired(self.tokenizer, theirs).same:
            raise UnsupportedError(
                f"{self.source.path.name} has other tokens than {self.manifest.name}, so it cannot learn "
                "from its probabilities",
                hint="use a model of the same family, or the model itself",
            )

    def _card(self, facts: Mapping[str, Scalar], quant: str) -> str:
        licence = self.source.metadata.get("general.license") or self.manifest.source.get("licence")
        lines = [
            f"# {self.name}",
            "",
            f"A model of {self.source.hyper.layers} layers that drafts for {self.manifest.name}.",
            f"{self.manifest.name} verifies every guess: its replies do not change.",
            "",
            f"- For the weights: sha256 {self.target.sha256}",
            f"- Made of: {self.source.path.name}, sha256 {self.sha256}",
            "- Recipe: layers of that model, its embedding and head as they are; cross entropy with the",
            f"  target's eight best tokens on its own replies; AdamW, peak rate {SMALL_RECIPE.peak_rate:g}",
            f"- Weights: {quant}",
            f"- Licence: {licence or 'that of the source'}",
            "",
            "| measured | value |",
            "|---|---|",
            *(f"| {name} | {value} |" for name, value in facts.items()),
            "",
        ]
        return "\n".join(lines)


def write_small(
    path: Path, source: SmallSource, arrays: Mapping[str, Floats], *, quant: str, name: str
) -> None:
    """Write ``arrays`` with the tables and the metadata of ``source`` as a GGUF file of its architecture.

    ``quant`` is as in ``edgedec.export.export_huggingface``; embedding and head keep the source's bits.
    """
    formats, metadata = parse_quant(quant), metadata_of(source.path)
    prefix = source.hyper.architecture.name
    metadata[f"{prefix}.block_count"] = Value(source.hyper.layers, GGUFValueType.UINT32)
    metadata["general.name"] = Value(name, GGUFValueType.STRING)
    for key in ("general.file_type", "general.size_label"):
        metadata.pop(key, None)
    stored = [GgufTensor(EMBEDDING, source.embedding.packed, source.embedding.format)]
    if source.head is not source.embedding:
        stored.append(GgufTensor(HEAD, source.head.packed, source.head.format))
    if source.factors is not None:
        stored.append(GgufTensor("rope_freqs.weight", source.factors))
    for tensor, values in arrays.items():
        if values.ndim == 1:
            stored.append(GgufTensor(tensor, values))
        else:
            format = formats[role_of(tensor)]
            stored.append(GgufTensor(tensor, quantise(values, format), format))
    write_gguf(path, metadata, stored)
