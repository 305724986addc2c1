"""EAGLE-3 heads in files of other trainers and of llama.cpp."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from edgedec.bundle.head_facts import HeadFacts
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError
from edgedec.core.model_spec import ModelSpec
from edgedec.core.progress import Progress
from edgedec.disk.listed_files import Scalar
from edgedec.export.draft_head.bundle import head_drafter
from edgedec.export.draft_head.gguf import head_gguf
from edgedec.export.draft_head.target import has_targets_table
from edgedec.export.draft_head.weights import HeadWeights
from edgedec.export.drafters.interface import DrafterFiles, GgufForm, NewDrafter, StoredDrafter
from edgedec.export.eagle3.agreement import HeadAgreement, agreement, layers_to_measure
from edgedec.export.eagle3.gguf import read_head_gguf
from edgedec.export.eagle3.reading import ForeignHead, is_head_directory, read_head_directory
from edgedec.export.gguf_source import GgufSource, open_gguf
from edgedec.export.own_texts import opened_target, own_texts


class HeadFiles(DrafterFiles):
    """See ``DrafterFiles``."""

    def in_directory(self, path: Path) -> bool:
        """See ``DrafterFiles``."""
        return is_head_directory(path)

    @contextmanager
    def opened(self, path: Path, bundle: Path, target: Manifest, quant: str) -> Iterator[NewDrafter]:
        """See ``DrafterFiles``."""
        with open_head(path, target.spec) as found:
            made = {"made with": found.layout}
            if found.trained_for:
                made["trained for"] = found.trained_for
            weights = without_copy(found.weights, bundle)
            yield replace(head_drafter(weights, bundle, target, quant), made=made)

    def agreement(
        self, folder: Path, facts: Mapping[str, Scalar], bundle: Path, progress: Progress
    ) -> HeadAgreement:
        """See ``DrafterFiles``."""
        from edgedec.backends.onnx.head_forward import HeadModel

        spec, sizes = Manifest.load(bundle).spec, HeadFacts.of(facts)
        readings = layers_to_measure(sizes.read_from(spec.n_layers), spec.n_layers)
        layers = tuple(sorted({tap for reading in readings for tap in reading}))
        model, forward = opened_target(bundle, layers)
        head = HeadModel(folder, bundle, sizes, spec.vocab_size, threads=model.threads)
        return agreement(head, own_texts(model, forward, layers, progress), readings)

    def gguf(self, drafter: StoredDrafter, source: GgufSource, name: str) -> GgufForm:
        """See ``DrafterFiles``."""
        return head_gguf(drafter, source, name)


@contextmanager
def open_head(path: Path, spec: ModelSpec) -> Iterator[ForeignHead]:
    """Read the head at ``path`` for a target of the sizes ``spec``; its embedding stays in the file.

    Raises NotFoundError, BadFileError and UnsupportedError.
    """
    if not path.is_dir():
        with open_gguf(path) as gguf:
            yield read_head_gguf(gguf, spec)
    elif is_head_directory(path):
        yield read_head_directory(path, spec)
    else:
        raise BadFileError(f"{path} holds no EAGLE-3 head", hint="name its folder, with config.json")


def without_copy(weights: HeadWeights, bundle: Path) -> HeadWeights:
    """Return the head without its embedding, if that is a copy of the target's: the target's is used then."""
    own = weights.embedding
    if own is None or not has_targets_table(own, bundle):
        return weights
    return replace(weights, embedding=None)
