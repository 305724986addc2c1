"""Whether a run is possible at all: several conversations, and a memory budget, ask for more than others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgedec.core.errors import Remedy, UnsupportedError, UsageError
from edgedec.drafters.interface import DrafterSpec
from edgedec.drafters.registry import AUTO, OFF, kind_of
from edgedec.loaded_model import LoadedModel


def check_batch(model: LoadedModel, count: int) -> None:
    """Raise UsageError or UnsupportedError unless ``model`` can run ``count`` conversations in one pass."""
    most = model.backend.caps.sequences
    if count <= most:
        return
    if most > 1:
        raise UsageError(
            f"a batch of {count} conversations is not possible",
            hint=f"use 1 to {most}",
            remedy=Remedy("conversations", most),
        )
    if model.backend.device_bytes():
        raise UnsupportedError(
            f"{model.name} runs on {model.isa}, one conversation at a time",
            hint="run all layers in one place, or run one conversation",
            remedy=(Remedy("gpu_layers"), Remedy("conversations")),
        )
    raise UnsupportedError(
        f"{model.name} runs in {model.isa}, one conversation at a time",
        hint="export the model for EdgeDec's kernels, or run one conversation",
        remedy=(Remedy("export"), Remedy("conversations")),
    )


def check_contrast(model: LoadedModel) -> None:
    """Raise UnsupportedError unless ``model`` has passes with a text and without it."""
    if not model.backend.caps.contrasts:
        raise UnsupportedError(
            f"{model.name} runs in {model.isa}, which has no passes with a text and without it",
            hint="run it on the CPU with EdgeDec's kernels, or without a context weight",
            remedy=Remedy("context_weight"),
        )


def check_contrast_drafting(specs: Iterable[DrafterSpec]) -> None:
    """Raise UsageError unless replies that weigh a text can have these drafters."""
    if single := [spec for spec in specs if not kind_of(spec).batches]:
        raise UsageError(
            f"{single[0].name} drafts from layers of the model, and not with a context weight",
            hint=f"use the drafters {AUTO} or {OFF}, or leave the weight out",
            remedy=(Remedy("draft", AUTO), Remedy("draft", OFF), Remedy("context_weight")),
        )


def check_batch_drafting(specs: Iterable[DrafterSpec], *, history: bool = False) -> None:
    """Raise UsageError unless several conversations at once can have these drafters."""
    single = [spec for spec in specs if not kind_of(spec).batches]
    if single:
        raise UsageError(
            f"{single[0].name} cannot draft for a batch of conversations",
            hint=f"use the drafters {AUTO} or {OFF}, or one conversation at a time",
            remedy=(Remedy("draft", AUTO), Remedy("draft", OFF), Remedy("conversations")),
        )
    if history:
        raise UsageError(
            "drafts are kept between runs for one conversation at a time only",
            hint="do not keep them",
            remedy=Remedy("history"),
        )


def check_budget(models: Sequence[LoadedModel]) -> None:
    """Raise UnsupportedError for a model whose memory another runtime decides."""
    for one in models:
        if not one.backend.caps.reserves:
            raise UnsupportedError(
                f"{one.name} runs in {one.isa}, whose memory EdgeDec cannot bound",
                hint="run it without a budget, or export the model for EdgeDec's kernels",
                remedy=(Remedy("memory"), Remedy("export")),
            )
