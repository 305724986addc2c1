"""The identity of a model: which bundle a saved session belongs to."""

from __future__ import annotations

from edgedec.bundle.manifest import Manifest
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.digest import sha256_hex


@dataclass(frozen=True, slots=True)
class ModelId:
    """A name for people, and a hash over all files of the bundle."""

    name: str
    sha256: str

    @classmethod
    def of(cls, manifest: Manifest) -> ModelId:
        """Return the identity of the bundle that ``manifest`` describes."""
        lines = "\n".join(f"{name} {manifest.files[name].sha256}" for name in sorted(manifest.files))
        return cls(manifest.name, sha256_hex(lines.encode()))
