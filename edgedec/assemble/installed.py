"""Drafters that belong to a model and that "auto" has without their names: found, not opened yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from edgedec.assemble.config import RunConfig
from edgedec.assemble.loaded_models import LoadedModels
from edgedec.core.drafter_manifest import HEAD, TRIM, DrafterManifest, Target
from edgedec.core.errors import EdgeDecError, NotFoundError, UnsupportedError
from edgedec.core.manifest import DRAFTING, Manifest
from edgedec.core.progress import Notice
from edgedec.draft.exit import exit_name
from edgedec.drafters.artifacts import DrafterArtifact, artifact, artifacts
from edgedec.drafters.drafting import AUTO, OFF, Drafting
from edgedec.drafters.head import opened_head
from edgedec.drafters.pairing import paired, require, same_tokenizer
from edgedec.drafters.trim import SAVED

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
    for one in artifacts(Target.of(manifest), home):
        if one.kind == HEAD:
            yield HEAD
        elif one.kind == TRIM and _saved(one) >= _LEAST_SAVED:
            yield exit_name(manifest.spec.n_layers)


def _saved(trimmed: DrafterArtifact) -> float:
    """Return the share of a pass that a trimmed head saves; 0 for a broken one, of which its use tells."""
    try:
        saved = DrafterManifest.load(trimmed.path, verify=False).facts.get(SAVED)
    except EdgeDecError:
        return 0.0
    return saved if isinstance(saved, float) else 0.0


def usable_drafts(config: RunConfig, models: LoadedModels, notice: Notice) -> tuple[RunConfig, LoadedModels]:
    """Leave out the draft models that could not be loaded or cannot draft for the target, with a line each.

    No token depends on them. Raises the error of a model that ``config`` switches to.
    """
    target, refused = models.target, dict(models.refused)
    for name in (name for name in config.drafting.models if name in models.drafts):
        draft = models.drafts[name]
        try:
            if not same_tokenizer(target, draft):
                require(paired(target.tokenizer, draft.tokenizer), target.name, name)
        except UnsupportedError as error:
            refused[name] = error
    if config.switch is not None and config.switch in models.refused:
        raise models.refused[config.switch]
    for name, why in refused.items():
        notice(f"{target.name} runs without {name}, which drafts for it: {why.message}")
    names = [name for name in config.draft.split(",") if name not in refused]
    drafts = {
        name: one for name, one in models.drafts.items() if name not in refused or name == config.switch
    }
    if not refused:
        return config, models
    return replace(config, draft=",".join(names) or OFF), replace(models, drafts=drafts)


def with_head(models: LoadedModels, drafting: Drafting, home: Path | None, notice: Notice) -> LoadedModels:
    """Return ``models`` with the head of the target opened, if ``drafting`` names it.

    One that cannot be used is left out, and ``notice`` says why. Raises NotFoundError where there is none.
    """
    model = models.target
    if HEAD not in drafting.of_target:
        return models
    try:
        folder = artifact(model.manifest, HEAD, home)
        if folder and model.bundle:
            return replace(models, head=opened_head(folder, model.bundle, model))
    except EdgeDecError as error:
        notice(f"{model.name} runs without its trained head: {error.message}")
        return models
    raise NotFoundError(f"{model.name} has no trained head", hint="train one, or use other drafters")
