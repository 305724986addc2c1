"""The parts of reading and writing drafters that differ by kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from pathlib import Path

from edgedec.bundle.drafter_manifest import DrafterManifest
from edgedec.bundle.manifest import Manifest
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.listed_files import Scalar
from edgedec.export.drafters.agreement import TokenAgreement
from edgedec.export.gguf_source import GgufSource
from edgedec.export.gguf_writer import GgufTensor, Value
from edgedec.export.model import ExportModel
from edgedec.export.source import WeightSource

GgufForm = tuple[Mapping[str, Value], Sequence[GgufTensor]]
"""Metadata and tensors of a GGUF file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDrafter:
    """A drafter that is ready to be written: its graph, and the source of its weights."""

    kind: str
    model: ExportModel
    """The finished graph."""
    graph: str
    """The name of its file."""
    source: WeightSource
    stated: Mapping[str, Scalar]
    """Its sizes, as its manifest states them."""
    made: Mapping[str, Scalar] = field(default_factory=dict)
    """How others made it, for the manifest of an installed one."""
    weights_first: bool = False
    """Whether its manifest lists the weights before the graph."""


@dataclass(frozen=True, slots=True)
class StoredDrafter:
    """A drafter in its folder, with its manifest, and the manifest of its target."""

    folder: Path
    manifest: DrafterManifest
    target: Manifest


class DrafterFiles(ABC):
    """Reads and writes one kind of drafter."""

    def in_directory(self, path: Path) -> bool:
        """Return whether a directory holds one. Raises BadFileError for a broken config.json.

        Default: they lie in GGUF files alone.
        """
        return False

    @abstractmethod
    def opened(
        self, path: Path, bundle: Path, target: Manifest, quant: str
    ) -> AbstractContextManager[NewDrafter]:
        """Read the drafter at ``path`` for the model in ``bundle``, whose manifest is ``target``.

        Matrices in floats get the format ``quant``. Raises NotFoundError, BadFileError for damaged files,
        UnsupportedError for a drafter that does not fit the model and for one that no graph can express.
        """

    @abstractmethod
    def agreement(
        self, folder: Path, facts: Mapping[str, Scalar], bundle: Path, progress: Progress
    ) -> TokenAgreement:
        """Return how often the drafter in ``folder`` agrees with what its target writes.

        ``facts`` are those of its manifest. Raises BackendError, BadFileError, and UnsupportedError for a
        target that hands out too little.
        """

    @abstractmethod
    def gguf(self, drafter: StoredDrafter, source: GgufSource, name: str) -> GgufForm:
        """Return the drafter as llama.cpp reads it. ``source`` is its target's file, ``name`` its title.

        Raises BadFileError for a file of another model, UnsupportedError for a drafter that llama.cpp cannot
        express. Other errors come of a damaged drafter.
        """
