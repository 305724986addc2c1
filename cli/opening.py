"""Opening a model for replies as the options say: with what drafts for it, within its budget of memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli.progress import notice
from edgedec.cli.seams import fetch_drafts, open_draft, open_model, open_speculation
from edgedec.core.errors import UsageError
from edgedec.core.units import size
from edgedec.core.when_full import STOP

if TYPE_CHECKING:
    from edgedec.decode.speculation import Speculation
    from edgedec.runtime.budget import Budget
    from edgedec.runtime.drafting import Drafting
    from edgedec.runtime.loaded_model import LoadedModel


@dataclass(frozen=True, slots=True)
class Opened:
    """A model, what drafts for it (None: nothing) and its budget (None: as much as there is)."""

    model: LoadedModel
    speculation: Speculation | None
    budget: Budget | None

    def say_overrun(self) -> None:
        """One line when more memory was taken than promised."""
        if self.budget and (above := self.budget.overrun()):
            notice(f"memory: {size(above)} more than --memory {size(self.budget.plan.budget)} were in use")


def open_for_replies(
    ctx: click.Context,
    name: str,
    drafting: Drafting,
    options: dict[str, Any],
    *,
    drawing: int,
    when_full: str,
) -> Opened:
    """Load ``name`` with the ``options`` of a reply; what had to be given up to fit is said, a line each.

    ``drawing``: see ``sampling.drawing_bytes``.
    """
    fetch_drafts(ctx, drafting)
    model = open_model(ctx, name, threads=options["threads"], context=options["context"], kv=options["kv"])
    memory = options["memory"]
    if memory is None:
        return Opened(model, open_speculation(ctx, model, drafting), None)
    elastic = options["context"] is None
    budget, drafter = within_memory(
        ctx, memory, model, drafting, elastic=elastic, drawing=drawing, when_full=when_full
    )
    model = _told(budget, model)
    return Opened(model, open_speculation(ctx, model, budget.drafting(drafting), drafter), budget)


def open_for_several(
    ctx: click.Context, name: str, drafting: Drafting, options: dict[str, Any], count: int, *, drawing: int
) -> tuple[Opened, Drafting]:
    """As ``open_for_replies``, for ``count`` conversations at once, which bring their own drafters; and who
    may draft.
    """
    from edgedec.session.conversations import check_several

    model = open_model(ctx, name, threads=options["threads"], context=options["context"], kv=options["kv"])
    check_several(model, count, drafting)
    memory = options["memory"]
    if memory is None:
        return Opened(model, None, None), drafting
    elastic = options["context"] is None
    budget, _ = within_memory(
        ctx, memory, model, drafting, elastic=elastic, drawing=drawing, conversations=count
    )
    return Opened(_told(budget, model), None, budget), budget.drafting(drafting)


def _told(budget: Budget, model: LoadedModel) -> LoadedModel:
    """``model`` as it is within ``budget``, after what was given up for that has been said."""
    for line in budget.plan.given_up:
        notice(f"--memory {size(budget.plan.budget)}, {line}")
    return replace(model, kv=budget.plan.choice.kv)


def within_memory(
    ctx: click.Context,
    memory: int,
    model: LoadedModel,
    drafting: Drafting,
    *,
    elastic: bool,
    drawing: int,
    conversations: int = 1,
    when_full: str = STOP,
) -> tuple[Budget, LoadedModel | None]:
    """See ``session.budget.within``; and the model that drafts, loaded, if one was asked for and fits."""
    from edgedec.runtime.budget import within

    if len(drafting.models) > 1:
        raise UsageError("only one model can draft within --memory", hint="name one, or leave out --memory")
    drafter = open_draft(ctx, model, drafting.models[0]) if drafting.models else None
    budget = within(
        memory,
        model,
        drafting,
        elastic=elastic,
        drawing=drawing,
        drafter=drafter,
        conversations=conversations,
        when_full=when_full,
    )
    if drafter is None or budget.plan.choice.model_drafts:
        return budget, drafter
    return budget, None
