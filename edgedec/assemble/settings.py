"""The settings of a run as arguments of a call: fields of ``RunConfig``, and single values of sampling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from edgedec.assemble.config import MemoryRule, Objective, RunConfig
from edgedec.control.switching import SwitchRule
from edgedec.core.cache_config import Device, KvChoice, WhenFull
from edgedec.core.errors import UsageError
from edgedec.sampling.named import Sampling, SamplingArguments, params_of


class RunSettings(SamplingArguments, total=False):
    """The fields of ``RunConfig`` and of ``SamplingParams``, which say what they mean there."""

    threads: int | None
    device: Device
    device_memory: int | str | None
    gpu_layers: int | None
    context: int | None
    kv: KvChoice
    memory: int | str | MemoryRule | None
    draft: str
    draft_tokens: int
    objective: Objective
    history: bool
    prefixes: int | str | None
    when_full: WhenFull | None
    switch: str | None
    switch_rule: SwitchRule | None
    context_weight: float | None
    conversations: int | None
    lora: tuple[str, ...]
    template: str | None
    thinking: bool | None
    think_tokens: int | None
    sampling: Sampling | None
    structured: bool


def config_of(config: RunConfig | None, settings: Mapping[str, Any]) -> RunConfig:
    """Return ``config``, or one with ``settings``. Raises UsageError for both, and for an unknown name."""
    if config is not None and settings:
        names = ", ".join(settings)
        raise UsageError(f"both a config and {names} are given", hint=f"set {names} in the config")
    known = [one.name for one in fields(RunConfig) if one.init]
    drawing = {name: value for name, value in settings.items() if name in SamplingArguments.__annotations__}
    own = {name: value for name, value in settings.items() if name not in drawing}
    for name in own:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, [*known, *SamplingArguments.__annotations__], n=1)
            meant = f"did you mean {near[0]}? " if near else ""
            raise UsageError(f"there is no setting {name!r:.40}", hint=f"{meant}there are {', '.join(known)}")
    if drawing:
        own["sampling"] = params_of(own.get("sampling"), drawing)
    return config or RunConfig(**own)
