"""A target and the models that draft for it, opened together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from edgedec.core.errors import BackendError, BadFileError, EdgeDecError, UnsupportedError
from edgedec.core.manifest import Manifest
from edgedec.core.progress import Progress, silent
from edgedec.drafters.trim import is_trimmed
from edgedec.loaded_model import LoadedModel, load_model

if TYPE_CHECKING:
    from edgedec.backends.onnx.head_forward import HeadModel


@dataclass(frozen=True, slots=True)
class LoadedModels:
    """A target and its draft models, by the names that ``RunConfig.draft`` gives them."""

    target: LoadedModel
    drafts: Mapping[str, LoadedModel] = field(default_factory=dict)
    refused: Mapping[str, EdgeDecError] = field(default_factory=dict)
    """Why draft models could not be loaded, by their names."""
    head: HeadModel | None = None
    """The trained head that drafts for the target."""

    def complete(self) -> LoadedModels:
        """Return them. Raises the error of the first draft model that could not be loaded."""
        for error in self.refused.values():
            raise error
        return self


class Loader(Protocol):
    """Loads the bundles of a target and its draft models; see ``load_models``."""

    def __call__(
        self, bundle: Path, drafts: Mapping[str, Path], threads: int | None, drafting: bool = False, /
    ) -> LoadedModels: ...


def load_models(
    bundle: Path,
    drafts: Mapping[str, Path],
    threads: int | None = None,
    drafting: bool = False,
    *,
    home: Path | None = None,
    progress: Progress = silent,
) -> LoadedModels:
    """Open a target and its draft models, all with the same number of threads.

    ``drafting``: as in ``load_model``, for the target; ``home`` and ``progress`` for each. A draft model that
    cannot be loaded is in ``refused``. Raises as ``load_model`` for the target.
    """
    target = load_model(bundle, threads=threads, drafting=drafting, home=home, progress=progress)
    found: dict[str, LoadedModel] = {}
    refused: dict[str, EdgeDecError] = {}
    for name, path in drafts.items():
        try:
            trimmed = is_trimmed(Manifest.load(path), home)
            found[name] = load_model(
                path, threads=target.threads, drafting=trimmed, home=home, progress=progress
            )
        except (BackendError, BadFileError, UnsupportedError) as error:
            refused[name] = error.with_traceback(None)  # its frames hold the memory of half a model
    return LoadedModels(target, found, refused)
