"""Installs an MTP layer that lies in a GGUF file of its own: read, converted, and compared with its model.

llama.cpp's converter writes such files (``mtp-*.gguf``): the metadata of the model, the tensors of the layer
as those of the block behind the model's last one, and the tables of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgedec.bundle.drafter_manifest import MTP, DrafterManifest, Target
from edgedec.bundle.manifest import Manifest
from edgedec.bundle.mtp_facts import MtpFacts
from edgedec.core.errors import UnsupportedError
from edgedec.core.progress import Progress, silent
from edgedec.disk.files import atomic_path
from edgedec.disk.home import ARTIFACTS
from edgedec.disk.listed_files import Scalar
from edgedec.export.architectures import ARCHITECTURES
from edgedec.export.draft_head.compare import has_targets_table
from edgedec.export.draft_head.target import last_norm
from edgedec.export.draft_head.weights import Floats
from edgedec.export.eagle3.gguf import float_rows
from edgedec.export.gguf_header import TensorInfo
from edgedec.export.gguf_source import GgufSource, open_gguf
from edgedec.export.hyperparameters import Hyperparameters, read_hyperparameters
from edgedec.export.mtp.bundle import export_mtp, has_mtp
from edgedec.export.mtp.check import agreement
from edgedec.export.mtp.source import MtpSource
from edgedec.export.own_texts import LEAST, manifest_of_target

LAYOUT = "nextn"
_TABLE = "token_embd.weight"
_OWN = "import a layer that was made of the model's own checkpoint"


def install_mtp(
    path: Path,
    bundle: Path,
    home: Path,
    *,
    facts: Mapping[str, Scalar] | None = None,
    least: float = LEAST,
    progress: Progress = silent,
) -> DrafterManifest:
    """Read the MTP layer in the GGUF file ``path``, and install it for the model in ``bundle``.

    ``facts`` go into the manifest. A layer that was there before stays until it agrees with the model. Raises
    NotFoundError, BadFileError for a damaged file and for a layer that predicts fewer than ``least`` of the
    tokens that the model writes, UnsupportedError for a layer of another model, StorageError.
    """
    manifest = manifest_of_target(bundle, "an MTP layer")

    def judged(folder: Path, sizes: MtpFacts) -> Mapping[str, Scalar]:
        found = agreement(folder, sizes, bundle, progress)
        found.check("the MTP layer", manifest.name, least)
        return {"made with": LAYOUT, **(facts or {}), **found.facts()}

    place = home / ARTIFACTS / Target.of(manifest).short_hash / MTP
    with open_gguf(path) as gguf:
        source = layer_for(gguf, bundle, manifest)
        with atomic_path(place, directory=True) as folder:
            return export_mtp(source, bundle, folder, manifest, facts=judged, progress=progress)


def layer_for(gguf: GgufSource, bundle: Path, manifest: Manifest) -> MtpSource:
    """Return the MTP layer in an open GGUF file, for the model in ``bundle``. Raises as ``install_mtp``."""
    hyper = _sizes(gguf, manifest)
    _check_embedding(gguf, bundle, manifest.name)
    return MtpSource(gguf, hyper, last_norm(bundle).weight)


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


@dataclass(frozen=True, slots=True)
class _Table:
    """A matrix of an open GGUF file, read by rows."""

    gguf: GgufSource
    tensor: TensorInfo

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape

    def read(self, start: int, stop: int) -> Floats:
        """See ``weights.RowReader``."""
        return float_rows(self.gguf, self.tensor, start, stop)


def _check_embedding(gguf: GgufSource, bundle: Path, model: str) -> None:
    """Raise UnsupportedError if the file has another embedding than the model, beyond rounding."""
    tensor = gguf.tensors.get(_TABLE)
    if tensor is not None and not has_targets_table(_Table(gguf, tensor), bundle):
        raise UnsupportedError(
            f"{gguf.path.name} has another embedding than {model}: it belongs to another model", hint=_OWN
        )
