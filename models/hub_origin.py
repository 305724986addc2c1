"""Read from an installed bundle which file of the model hub it was made of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from edgedec.bundle.manifest import MANIFEST
from edgedec.core.quick_dataclass import dataclass
from edgedec.models.hub_choice import USUAL, quant_of
from edgedec.models.hub_names import hub_name
from edgedec.models.recipes import HubFile

REPO, FILE, REVISION, CHOSEN = "repo", "repo_file", "revision", "chosen"
"""Keys of the manifest's source: repository, path in it, commit; and, where the file is the one that the
repository's bare name means, ``BY_ORDER``."""
BY_ORDER = "by order"
_HASHES = ("sha256", "sha256 of ")


@dataclass(frozen=True, slots=True)
class HubOrigin:
    """A file of the hub, at one commit, with the hashes of what was exported."""

    repo: str
    file: str | None
    revision: str | None
    usual: bool
    hashes: Mapping[str, str]

    @property
    def reference(self) -> str:
        """A name that means it: ``owner/repo:QUANT`` where the file's name has a quantisation."""
        if self.file is None:
            return self.repo
        quant = quant_of(self.file)
        return f"{self.repo}:{quant}" if quant else f"hf:{self.repo}/{self.file}"

    def answers(self, wanted: HubFile) -> bool:
        """Return whether a reference without a file means this one."""
        if self.repo.lower() != wanted.repo.lower():
            return False
        found = quant_of(self.file) if self.file else None
        if wanted.quant:
            return found == wanted.quant.upper()
        return self.usual or found == USUAL or self.file is None


def read_hub_origin(bundle: Path) -> HubOrigin | None:
    """Return the file that a bundle was made of; None for a bundle that is not from the hub, or is broken."""
    try:
        source = json.loads((bundle / MANIFEST).read_text(encoding="utf-8"))["source"]
        texts = {key: value for key, value in source.items() if isinstance(value, str)}
        repo = texts[REPO]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    hashes = {key: value for key, value in texts.items() if key.startswith(_HASHES)}
    return HubOrigin(repo, texts.get(FILE), texts.get(REVISION), texts.get(CHOSEN) == BY_ORDER, hashes)


def installed_from(bundles: Iterable[Path], wanted: HubFile) -> str | None:
    """Return the name of the installed bundle that a reference without a file means; None without one."""
    for bundle in bundles:
        origin = read_hub_origin(bundle)
        if origin is None or not origin.answers(wanted):
            continue
        if hub_name(replace(wanted, repo=origin.repo, file=origin.file)) == bundle.name:
            return bundle.name
    return None
