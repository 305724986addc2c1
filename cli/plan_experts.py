"""The part of ``edgedec plan`` about a model with experts: how much each budget is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgedec.cli.services import Services
from edgedec.core.experts import AGAIN
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.assemble.budget import Budget
    from edgedec.loaded_model import LoadedModel
    from edgedec.metrics.expert_budgets import ExpertBudget, Rates

_HEADS = ("memory", "experts", "in memory", "from the disk", "tokens/s")
_WIDTHS = (10, 16, 11, 15, 10)


def budgets_of(model: LoadedModel, budget: Budget, services: Services) -> tuple[Rates, list[ExpertBudget]]:
    """Measure memory and disk, and return what budgets are worth; all but experts is as in ``budget``."""
    from edgedec.bundle.manifest import WEIGHTS
    from edgedec.metrics.expert_budgets import Rates, expert_budgets
    from edgedec.telemetry.bandwidth import measure
    from edgedec.telemetry.disk import read_rate

    spec, weights = model.spec, model.manifest.files[WEIGHTS].bytes
    assert spec.experts is not None
    assert model.bundle is not None
    held = budget.plan.parts.get("experts", 0) or spec.experts.nbytes
    (memory,) = measure(services.bandwidth, [model.threads])
    rates = Rates(memory.gb_per_s * 1e9, read_rate(model.bundle / WEIGHTS, spec.experts.slot_bytes))
    others = budget.plan.peak - held
    return rates, list(expert_budgets(spec.experts, others, spec.read_bytes(weights), rates))


def as_json(rates: Rates, budgets: list[ExpertBudget]) -> dict[str, object]:
    """Return the same for machines."""
    read = {"memory_bytes_per_s": round(rates.memory), "disk_bytes_per_s": round(rates.disk)}
    return {**read, "again": AGAIN, "budgets": [one.as_json() for one in budgets]}


def show(rates: Rates, budgets: list[ExpertBudget]) -> None:
    """Print a row for each budget."""
    click.echo(
        f"\nExpected without drafts, if a token takes {AGAIN:.0%} of the last one's experts again.\n"
        f"A disk that reads {size(rates.disk)}/s and a memory that reads {size(rates.memory)}/s allow:\n"
    )
    click.echo(_row(_HEADS))
    for one in budgets:
        speed = f"{one.tokens_per_s:.{1 if one.tokens_per_s < 100 else 0}f}"
        held = f"{one.slots} of {budgets[-1].slots}"
        click.echo(_row((size(one.memory), held, f"{one.hits:.0%}", f"{size(one.read)}/token", speed)))
    click.echo(f"\nAbove {size(budgets[-1].memory)} more memory brings nothing: all experts are there.")


def _row(cells: tuple[str, ...]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, _WIDTHS, strict=True))
