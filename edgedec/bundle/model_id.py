"""The identity of a model: which bundle a saved session belongs to."""

from __future__ import annotations

from collections.abc import Iterable

from edgedec.bundle.manifest import Manifest
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.digest import sha256_hex


@dataclass(frozen=True, slots=True)
class ModelId:
    """A name for people, and a hash over all files of the bundle and all adapters that change something."""

    name: str
    sha256: str

    @classmethod
    def of(cls, manifest: Manifest, adapters: Iterable[str] = ()) -> ModelId:
        """Return the identity of the bundle that ``manifest`` describes, with matrices changed.

        ``adapters``: the hashes of these changes.
        """
        lines = [f"{name} {manifest.files[name].sha256}" for name in sorted(manifest.files)]
        lines += [f"adapter {sha256}" for sha256 in adapters]
        return cls(manifest.name, sha256_hex("\n".join(lines).encode()))
