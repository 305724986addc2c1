"""The installed models that requests can name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.backends.checks import checked_capacity
from edgedec.bundle.manifest import MANIFEST, WEIGHTS, Manifest
from edgedec.core.errors import EdgeDecError
from edgedec.core.quick_dataclass import dataclass
from edgedec.server.work.request import ModelInfo

if TYPE_CHECKING:
    from edgedec.models import Store


@dataclass(frozen=True, slots=True)
class Adapted:
    """The model ``base`` with an adapter, ``FILE`` or ``FILE:SCALE``, by a name of its own."""

    name: str
    base: str
    lora: str


@dataclass(frozen=True, slots=True)
class Served:
    """A model by the name that it has here: its bundle, and the adapters that change it."""

    name: str
    path: Path
    lora: tuple[str, ...] = ()


class InstalledModels:
    """Facts about the models of ``store``, read again where a manifest has changed.

    ``adapted``: models with an adapter, which come first.
    """

    def __init__(self, store: Store, context: int | None, adapted: Sequence[Adapted] = ()) -> None:
        self._store = store
        self._context = context
        self._adapted = {one.name: one for one in adapted}
        self._known: dict[Path, tuple[int, ModelInfo]] = {}

    def path(self, name: str) -> Path:
        """Return the bundle of a model by one of its names. Raises NotFoundError; nothing is pulled."""
        return self._store.path(name)

    def served(self, name: str) -> Served:
        """Return the model that a request names. Raises NotFoundError."""
        if found := self._adapted.get(name):
            return Served(name, self.path(found.base), (found.lora,))
        path = self.path(name)
        return Served(path.name, path)

    def encodes(self, bundle: Path) -> bool:
        """Return whether a model makes vectors of texts, and does not reply."""
        return self._info(bundle.name, bundle).dimensions > 0

    def infos(self) -> list[ModelInfo]:
        """Return all of them, none of them loaded: those with an adapter, then the others by name."""
        installed = [self._info(one.name, one.path) for one in self._store.list()]
        adapted = [(name, self.path(one.base)) for name, one in self._adapted.items()]
        return [*(replace(self._info(path.name, path), name=name) for name, path in adapted), *installed]

    def info(self, name: str) -> ModelInfo:
        """Return one of them by one of its names. Raises NotFoundError."""
        bundle = self.path(name)
        return self._info(bundle.name, bundle)

    def _info(self, name: str, bundle: Path) -> ModelInfo:
        try:
            changed = (bundle / MANIFEST).stat().st_mtime_ns
        except OSError:
            return ModelInfo(name=name, created=0)
        known = self._known.get(bundle)
        if known is None or known[0] != changed:
            known = self._known[bundle] = changed, self._read(name, bundle, changed // 10**9)
        return known[1]

    def _read(self, name: str, bundle: Path, created: int) -> ModelInfo:
        try:
            manifest = Manifest.load(bundle)
            asked = None if manifest.embedding else self._context
            context = checked_capacity(manifest.spec, asked)
        except EdgeDecError:
            return ModelInfo(name=name, created=created)
        return ModelInfo(
            name=name,
            created=created,
            context=context,
            preset=manifest.preset,
            has_template=manifest.tokenizer.chat_template,
            dimensions=manifest.embedding.size if manifest.embedding else 0,
        )


def weight_bytes(bundle: Path) -> int:
    """Return the bytes of a bundle's weights that passes read; 0 if unknown."""
    try:
        manifest = Manifest.load(bundle)
    except EdgeDecError:
        return 0
    weights = manifest.files.get(WEIGHTS)
    return max(weights.bytes - manifest.spec.table_bytes, 0) if weights else 0
