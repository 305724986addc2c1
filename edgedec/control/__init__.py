"""Control: measures what passes cost and how often drafts are right, and decides what to draft.

The core does so (kernels/core/control). Here are its costs, its counts as values, and turns of two models.
"""

from __future__ import annotations

from edgedec.core_lib.costs import BatchCosts, CostCurve, Costs, EnergyCosts, StreamedCosts

__all__ = ["BatchCosts", "CostCurve", "Costs", "EnergyCosts", "StreamedCosts"]
