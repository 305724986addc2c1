"""Control: what a pass costs and how often drafts are right, measured, and what to draft because of it."""

from __future__ import annotations

from edgedec.control.acceptance import Acceptance
from edgedec.control.batch_costs import Company
from edgedec.control.controller import Controller
from edgedec.control.costs import CostCurve, Costs
from edgedec.control.planner import planned

__all__ = ["Acceptance", "Company", "Controller", "CostCurve", "Costs", "planned"]
