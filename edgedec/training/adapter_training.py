"""From a target's replies and a small model to an adapter: training, file, bundle."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgedec.bundle.drafter_manifest import Target
from edgedec.bundle.manifest import WEIGHTS, Manifest
from edgedec.core.errors import BadFileError
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.files import atomic_path, sha256_of
from edgedec.disk.home import TRAINING
from edgedec.disk.listed_files import Scalar
from edgedec.draft.subset import (
    STRETCH,
    always_kept,
    best_ids,
    best_tiles,
    counted,
    coverage,
    expected,
)
from edgedec.drafters.pairing import paired, require
from edgedec.drafters.trim import SAVED, ends_of, save_trim
from edgedec.export.adapter import AdapterFacts, WeightAdapter, merge
from edgedec.export.tokenizer import build_tokenizer
from edgedec.models.adapters import adapter_file, install_adapter
from edgedec.models.layout import slug
from edgedec.text.encoder import LibraryEncoder
from edgedec.text.tokenizer import Tokenizer
from edgedec.training.batch import KeptIds
from edgedec.training.data import TrainingData
from edgedec.training.features import Features
from edgedec.training.head_training import Replies
from edgedec.training.kept_ids import first_chosen
from edgedec.training.recipe import TrainingRecipe
from edgedec.training.retokenised import Retokeniser
from edgedec.training.rollouts import Rollout, RolloutStore, rollouts_folder
from edgedec.training.small_source import SmallSource
from edgedec.training.target_weights import KnownRows
from edgedec.training.unrolling import Agreement, agreement, no_agreement

if TYPE_CHECKING:
    from edgedec.training.adapter_learner import AdapterLearner
    from edgedec.training.trainer import Trainer

ADAPTER_RECIPE = TrainingRecipe(peak_rate=4e-3, batch_tokens=2600, depths=1)
GPU_RECIPE = replace(ADAPTER_RECIPE, peak_rate=8e-3, batch_tokens=8192)
"""On a GPU a step takes as long for few tokens."""
TRIMMED_IDS = 20_480
"""Ids that the head of the merged model is trimmed to, where it has twice as many."""
_BEFORE = "before.json"
MEASURED_DEPTHS = 5
_HASH_DIGITS = 16

ByKind = dict[str, Agreement]
"""Agreement by kind of text."""


@dataclass(frozen=True, slots=True)
class AdapterSettings:
    """Settings of one adapter: ``ids`` of the small model that it learns."""

    ids: int = 16384
    device: str = "cpu"


class AdapterTraining:
    """Training of an adapter for the model in the GGUF file ``source``, which drafts for that in ``bundle``.

    Raises UnsupportedError for a source whose tokens cannot say enough of the target's text, and the errors
    of ``SmallSource``.
    """

    def __init__(self, bundle: Path, source: Path, home: Path, settings: AdapterSettings) -> None:
        self._settings, self._home = settings, home
        self.manifest = Manifest.load(bundle)
        self.target = Target.of(self.manifest)
        self.source = SmallSource(source)
        target = Tokenizer.load(bundle, self.manifest.tokenizer)
        self.tokenizer = _tokenizer(self.source.metadata)
        require(paired(target, self.tokenizer), self.manifest.name, source.name)
        self.sha256 = sha256_of(source)
        made_of = f"adapter-{self.sha256[:_HASH_DIGITS]}"
        self.folder = home / TRAINING / self.target.short_hash / made_of
        self.store = RolloutStore(rollouts_folder(home, self.target))
        self.name = slug(f"{source.stem}-for-{self.manifest.name}")
        self._retokeniser = Retokeniser(target, self.tokenizer, self.source.vocabulary)
        self._kinds: list[str] = []
        self._measured_on = ""
        self._counts = self._held_out = counted((), self.source.vocabulary)

    def data(
        self, replies: Replies, progress: Progress, kinds: Mapping[str, str] | None = None
    ) -> TrainingData:
        """Return the replies in the small model's tokens, and its tables.

        ``kinds``: the kind of text by the key of a prompt; that of others is seen by the reply.
        """
        train, held_out = (
            list(self._retokenised(some, progress)) for some in (replies.train, replies.held_out)
        )
        self._kinds = [
            (kinds or {}).get(rollout.key) or self._retokeniser.kind(rollout) for _, rollout in held_out
        ]
        keys = [rollout.key for _, rollout in held_out]
        self._measured_on = sha256(json.dumps([keys, self._kinds]).encode()).hexdigest()
        size = self.source.vocabulary
        self._counts, self._held_out = (
            counted((text.ids[:, 0].tolist() for text, _ in some), size) for some in (train, held_out)
        )

        def chosen() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
            always = always_kept(self.tokenizer, self.tokenizer.info.eos_ids)
            return best_ids(self._counts, always, min(self._settings.ids, size))

        self.folder.mkdir(parents=True, exist_ok=True)
        keep = first_chosen(self.folder, chosen)
        texts, table = [text for text, _ in train], self.source.embedding
        return TrainingData(
            train=texts,
            lengths=[len(text.end_of_prompt().tokens) for text in texts],
            held_out=[text for text, _ in held_out],
            vocabulary=KeptIds(keep, size),
            embedding=KnownRows(table.rows, table.cols, table.gather).gather,
            rows=self.source.head.gather(keep),
        )

    def trainer(
        self, data: TrainingData, recipe: TrainingRecipe | None = None
    ) -> tuple[Trainer[AdapterLearner], ByKind]:
        """Return the trainer, which goes on from the last checkpoint, and the agreement before any training.

        ``recipe``: None for that of the device. Raises BadFileError.
        """
        from edgedec.training.adapter_learner import AdapterLearner
        from edgedec.training.trainer import Trainer

        recipe = recipe or (GPU_RECIPE if self._settings.device == "cuda" else ADAPTER_RECIPE)
        learner = AdapterLearner(self.source, data, recipe, device=self._settings.device)
        before = self._before(learner, data)
        return Trainer(learner, data, recipe, self.folder), before

    def by_kind(self, learner: AdapterLearner, data: TrainingData) -> ByKind:
        """Return how often drafts of the small model are the held-out replies, by kind of text."""
        found: ByKind = {}
        for at, kind in enumerate(self._kinds):
            hits = learner.hits(data.held_out[at].end_of_prompt(), MEASURED_DEPTHS)
            found[kind] = found.get(kind, no_agreement(MEASURED_DEPTHS)) + agreement(hits)
        return found

    def facts(
        self, trainer: Trainer[AdapterLearner], replies: Replies, before: ByKind, after: ByKind
    ) -> dict[str, Scalar]:
        """Return what is known about the adapter, for its file, the model's manifest and the report."""
        found: dict[str, Scalar] = {
            "replies": len(replies.train),
            "reply tokens": replies.tokens,
            "tokens trained on": trainer.tokens,
            "steps": trainer.step,
            "seconds of training": round(trainer.seconds, 1),
            "held-out replies": len(replies.held_out),
        }
        for when, measured in (("before", before), ("after", after)):
            whole = sum(measured.values(), no_agreement(MEASURED_DEPTHS))
            found[f"tokens a pass {when}"] = round(whole.tokens_a_pass, 3)
            found |= {
                f"agreement at depth {depth} {when}": round(rate, 4)
                for depth, rate in enumerate(whole.rates, 1)
            }
            found |= {
                f"agreement on {kind} {when}": round(one.rates[0], 4)
                for kind, one in sorted(measured.items())
            }
        return found

    def export(
        self, trainer: Trainer[AdapterLearner], facts: Mapping[str, Scalar], progress: Progress
    ) -> tuple[Path, Path]:
        """Write the adapter, and install the model that it is merged to; return its file and the bundle.

        Raises UnsupportedError for an adapter that is too large, StorageError.
        """
        about = AdapterFacts(
            self.name, self.source.path.name, self.sha256, self.target.name, self.target.sha256,
            facts=dict(facts),
        )  # fmt: skip
        adapter = WeightAdapter(about, trainer.learner.changed(), trainer.learner.vectors())
        file = adapter_file(self._home, self.name)
        file.parent.mkdir(parents=True, exist_ok=True)
        merged = merge(adapter, self.source.path, self.folder / "merged.gguf")
        (self.folder / "merged.gguf").unlink()
        replace(adapter, about=replace(about, merged=merged)).save(file)
        bundle = install_adapter(file, self._home, base=self.source.path, progress=progress)
        self._trim(Manifest.load(bundle))
        return file, bundle

    def _trim(self, made: Manifest) -> None:
        """Trim the head of the merged model, for its drafts, to ids that the replies are made of."""
        size, head = self.source.vocabulary, self.source.head
        if size < 2 * TRIMMED_IDS:
            return
        always = always_kept(self.tokenizer, ends_of(made))
        ids = best_tiles(expected(self._counts), always, TRIMMED_IDS, STRETCH)
        streamed = made.files[WEIGHTS].bytes - made.spec.table_bytes
        facts: dict[str, Scalar] = {
            "ids": int(ids.size),
            "whole_tiles": True,
            "counted_tokens": int(self._counts.sum()),
            "coverage": round(coverage(ids, self._held_out), 4),
            SAVED: round((1.0 - ids.size / size) * head.packed.nbytes / streamed, 4),
            "made of": f"replies of {self.target.name}",
        }
        save_trim(made, self._home, ids, facts)

    def _retokenised(
        self, replies: Iterable[Rollout], progress: Progress
    ) -> Iterable[tuple[Features, Rollout]]:
        some = list(replies)
        for done, rollout in enumerate(some, 1):
            if (text := self._retokeniser.features(rollout)) is not None:
                yield text, rollout
            progress("replies", done, len(some))

    def _before(self, learner: AdapterLearner, data: TrainingData) -> ByKind:
        """Measure once for the same held-out replies what the small model agrees with as it is."""
        path = self.folder / _BEFORE
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept.get("measured on") == self._measured_on:
                return {kind: _agreement_of(one) for kind, one in kept["kinds"].items()}
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadFileError(f"{path} cannot be read", hint="remove it") from error
        found = self.by_kind(learner, data)
        with atomic_path(path) as temporary:
            kinds = {kind: asdict(one) for kind, one in found.items()}
            facts = {"measured on": self._measured_on, "kinds": kinds}
            temporary.write_text(json.dumps(facts), encoding="utf-8", newline="\n")
        return found


def _agreement_of(kept: Mapping[str, Any]) -> Agreement:
    lists = {name: tuple(int(count) for count in kept[name]) for name in ("reached", "agreed")}
    return Agreement(**lists, rounds=int(kept["rounds"]), tokens=int(kept["tokens"]))


def _tokenizer(metadata: Mapping[str, object]) -> Tokenizer:
    """Return the tokenizer in the metadata of a GGUF file."""
    from tokenizers import Tokenizer as Backend  # slow import

    text, info = build_tokenizer(metadata)
    return Tokenizer(LibraryEncoder(Backend.from_str(text)), info)
