"""Kinds of drafters that belong to one target: found by the hash of its weights, checked and opened.

Memory of a layer with a cache of its own: its weights; the cache; the scratch of its passes; hidden states of
128 tokens, W numbers each; buffers of 4 (W + 3 D + 4 K + 14) P' bytes, with K entries a row and P' = 64
tokens in a pass.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from edgedec.bundle.drafter_manifest import DrafterManifest, Target
from edgedec.bundle.head_facts import LONGEST_PASS
from edgedec.core.errors import BadFileError, EdgeDecError, NotFoundError
from edgedec.core.model_spec import ModelSpec
from edgedec.disk.listed_files import Scalar
from edgedec.drafters.artifacts import artifact, artifacts
from edgedec.drafters.interface import (
    DrafterKind,
    DrafterSpec,
    Offer,
    OpenContext,
    OpenDrafter,
    SearchContext,
)
from edgedec.loaded_model import LoadedModel
from edgedec.memory.footprint import cache_bytes, scratch_bytes


class ArtifactKind(DrafterKind):
    """A kind whose drafters read the hidden states of their target, and lie in a folder of their own."""

    parts = True
    title: ClassVar[str]
    """The drafter, in messages."""
    remedy: ClassVar[str]
    """The hint for a target without one."""

    @abstractmethod
    def opened(self, folder: Path, bundle: Path, opening: OpenContext) -> OpenDrafter:
        """Open the checked drafter in ``folder`` for the target in ``bundle``.

        Raises EdgeDecError where the target cannot use it.
        """

    def unnamed(self, search: SearchContext, chosen: Sequence[DrafterSpec]) -> Iterator[Offer]:
        """Yield it where the target has one."""
        if not search.batch and search.has_parts and self.folder(search):
            yield Offer(self.name)

    def taps(self, name: str, search: SearchContext) -> tuple[int, ...]:
        """Return the last layer. See ``DrafterKind.taps``."""
        return (search.manifest.spec.n_layers - 1,)

    def weight_bytes(self, name: str, search: SearchContext, bundle: Path | None) -> int:
        """See ``DrafterKind.weight_bytes``."""
        folder = self.folder(search)
        try:
            return DrafterManifest.load(folder, verify=False).total_bytes if folder else 0
        except EdgeDecError:
            return 0

    def folder(self, search: SearchContext) -> Path | None:
        """Return the folder of the target's drafter, unchecked; None without one."""
        found = artifacts(Target.of(search.manifest), search.home, search.bundle)
        return next((one.path for one in found if one.kind == self.name), None)

    def open(self, name: str, opening: OpenContext) -> OpenDrafter | None:
        """See ``DrafterKind.open``."""
        model = opening.target
        try:
            folder = artifact(model.manifest, self.name, opening.home, model.bundle)
            if folder and model.bundle:
                return self.opened(folder, model.bundle, opening)
        except EdgeDecError as error:
            opening.notice(f"{model.name} runs without its {self.title}: {error.message}")
            return None
        raise NotFoundError(f"{model.name} has no {self.title}", hint=self.remedy)


def facts_in(folder: Path) -> dict[str, Scalar]:
    """Return the facts of a drafter whose files were checked. Raises BadFileError, UnsupportedError."""
    return dict(DrafterManifest.load(folder, verify=False).facts)


def check_last_layer(model: LoadedModel, hidden: int, ids: int) -> None:
    """Raise BadFileError unless a model hands out its last layer's output, and has these sizes."""
    if model.spec.n_layers - 1 not in model.backend.caps.taps:
        raise BadFileError("its bundle hands out no hidden states", hint="pull or export the model again")
    if (hidden, ids) != (model.spec.hidden_size, model.spec.vocab_size):
        raise BadFileError(f"it is for a model of {hidden} numbers a token and {ids} tokens")


def layer_bytes(spec: ModelSpec, width: int, threads: int, context: int) -> int:
    """Return the bytes of a layer beside its weights, with ``context`` positions in its cache."""
    from edgedec.core_lib.layer_drafters import layer_limits

    longest = min(LONGEST_PASS, context)
    buffers = longest * (4 * (width + 3 * spec.hidden_size + 4 * spec.head_k + 4) + 5 * 8)
    cache = cache_bytes(spec, context, "fp16", longest)
    return cache + scratch_bytes(spec, threads, longest, context) + buffers + layer_limits()[0] * width * 4
