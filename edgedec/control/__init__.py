"""Control: measures what passes cost and how often drafts are right, and decides what to draft."""

from __future__ import annotations

from edgedec.control.acceptance import Acceptance
from edgedec.control.batch_costs import BatchCosts
from edgedec.control.controller import Controller
from edgedec.control.costs import CostCurve, Costs
from edgedec.control.energy_costs import EnergyCosts
from edgedec.control.merge import merged
from edgedec.control.planner import FeedPlan, feed_plan
from edgedec.control.round import DraftAnswer, Query, Round, RoundTimes
from edgedec.control.streamed_costs import StreamedCosts
from edgedec.control.uncontrolled import Uncontrolled

__all__ = [
    "Acceptance",
    "BatchCosts",
    "Controller",
    "CostCurve",
    "Costs",
    "DraftAnswer",
    "EnergyCosts",
    "FeedPlan",
    "Query",
    "Round",
    "RoundTimes",
    "StreamedCosts",
    "Uncontrolled",
    "feed_plan",
    "merged",
]
