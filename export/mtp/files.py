"""MTP layers in GGUF files of their own.

llama.cpp's converter writes such files (``mtp-*.gguf``): the metadata of the model, the tensors of the layer
as those of the block behind the model's last one, and the tables of the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from edgedec.bundle.manifest import Manifest
from edgedec.bundle.mtp_facts import MtpFacts
from edgedec.core.errors import UnsupportedError
from edgedec.core.progress import Progress
from edgedec.disk.listed_files import Scalar
from edgedec.export.architectures import ARCHITECTURES
from edgedec.export.draft_head.target import has_targets_table, last_norm
from edgedec.export.drafters.agreement import TokenAgreement
from edgedec.export.drafters.interface import DrafterFiles, GgufForm, NewDrafter, StoredDrafter
from edgedec.export.drafters.sources import GgufRows
from edgedec.export.gguf_source import GgufSource, open_gguf
from edgedec.export.hyperparameters import Hyperparameters, read_hyperparameters
from edgedec.export.mtp.bundle import has_mtp, mtp_drafter
from edgedec.export.mtp.gguf import mtp_gguf
from edgedec.export.mtp.source import MtpSource
from edgedec.export.own_texts import CONTEXT, layer_agreement, opened_target, own_texts

LAYOUT = "nextn"
_TABLE = "token_embd.weight"
_OWN = "import a layer that was made of the model's own checkpoint"


class MtpFiles(DrafterFiles):
    """See ``DrafterFiles``."""

    @contextmanager
    def opened(self, path: Path, bundle: Path, target: Manifest, quant: str) -> Iterator[NewDrafter]:
        """See ``DrafterFiles``."""
        with open_gguf(path) as gguf:
            hyper = _sizes(gguf, target)
            _check_embedding(gguf, bundle, target.name)
            source = MtpSource(gguf, hyper, last_norm(bundle).weight)
            yield replace(mtp_drafter(source, bundle, target), made={"made with": LAYOUT})

    def agreement(
        self, folder: Path, facts: Mapping[str, Scalar], bundle: Path, progress: Progress
    ) -> TokenAgreement:
        """See ``DrafterFiles``."""
        from edgedec.backends.onnx.mtp_forward import MtpModel

        last = Manifest.load(bundle).spec.n_layers - 1
        model, forward = opened_target(bundle, (last,))
        layer = MtpModel(folder, bundle, MtpFacts.of(facts), threads=model.threads)
        texts = own_texts(model, forward, (last,), progress)
        return layer_agreement([layer.forward(CONTEXT) for _ in texts], texts, (last,))

    def gguf(self, drafter: StoredDrafter, source: GgufSource, name: str) -> GgufForm:
        """See ``DrafterFiles``."""
        return mtp_gguf(drafter, source, name)


def _sizes(gguf: GgufSource, manifest: Manifest) -> Hyperparameters:
    """Return the sizes in a GGUF file with an MTP layer.

    Raises BadFileError, and UnsupportedError for a file without one, or with one of another model.
    """
    spec, name = manifest.spec, gguf.metadata.get("general.architecture")
    if name != spec.architecture or name not in ARCHITECTURES:
        raise UnsupportedError(
            f"{gguf.path.name} is of the architecture {str(name)[:40]!r}, and {manifest.name} is of "
            f"{spec.architecture!r}",
            hint=_OWN,
        )
    hyper = read_hyperparameters(ARCHITECTURES[name], gguf.metadata)
    if not has_mtp(gguf, hyper):
        raise UnsupportedError(
            f"{gguf.path.name} has no MTP layer (blk.N.nextn)", hint="make it of a checkpoint that has one"
        )
    theirs, ours = (hyper.layers, hyper.hidden), (spec.n_layers, spec.hidden_size)
    if theirs != ours:
        raise UnsupportedError(
            f"the MTP layer is for a model of {theirs[0]} layers of {theirs[1]} numbers, and {manifest.name} "
            f"has {ours[0]} of {ours[1]}",
            hint=_OWN,
        )
    return hyper


def _check_embedding(gguf: GgufSource, bundle: Path, model: str) -> None:
    """Raise UnsupportedError if the file has another embedding than the model, beyond rounding."""
    tensor = gguf.tensors.get(_TABLE)
    if tensor is not None and not has_targets_table(GgufRows(gguf, tensor), bundle):
        raise UnsupportedError(
            f"{gguf.path.name} has another embedding than {model}: it belongs to another model", hint=_OWN
        )
