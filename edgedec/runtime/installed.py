"""Drafters that belong to a model and that "auto" has without their names: found, not opened yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from edgedec.core.drafter_manifest import HEAD, TRIM, DrafterManifest, Target
from edgedec.core.errors import EdgeDecError
from edgedec.core.manifest import DRAFTING, Manifest
from edgedec.draft.exit import exit_name
from edgedec.runtime.companions import Companion, companions
from edgedec.runtime.config import RunConfig
from edgedec.runtime.drafting import AUTO
from edgedec.runtime.trim import SAVED

_LEAST_SAVED = 0.5
"""Share of a pass's bytes that a trimmed head has to save, so that the exit after all layers can pay."""


def with_installed(config: RunConfig, bundle: Path, home: Path | None) -> RunConfig:
    """Return ``config`` with the drafters that belong to the model at ``bundle``, where it names "auto".

    These are a trained head, and the exit after all layers where a trimmed head saves most of a pass.
    Conversations in a batch draft without them. A bundle that cannot be read has none: loading it says why.
    """
    if AUTO not in config.draft.split(",") or config.conversations:
        return config
    try:
        manifest = Manifest.load(bundle)
    except EdgeDecError:
        return config
    if DRAFTING not in manifest.files:
        return config
    named = config.drafting.of_target
    found = [name for name in _installed(manifest, home) if name.partition("-")[0] not in named]
    return replace(config, draft=",".join((config.draft, *found))) if found else config


def _installed(manifest: Manifest, home: Path | None) -> Iterator[str]:
    for one in companions(Target.of(manifest), home):
        if one.kind == HEAD:
            yield HEAD
        elif one.kind == TRIM and _saved(one) >= _LEAST_SAVED:
            yield exit_name(manifest.spec.n_layers)


def _saved(trimmed: Companion) -> float:
    """Return the share of a pass that a trimmed head saves; 0 for a broken one, of which its use tells."""
    try:
        saved = DrafterManifest.load(trimmed.path, verify=False).facts.get(SAVED)
    except EdgeDecError:
        return 0.0
    return saved if isinstance(saved, float) else 0.0
