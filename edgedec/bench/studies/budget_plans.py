"""Plans for memory budgets of every size, and the speeds that they allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgedec.control import CostCurve
from edgedec.core.cache_config import KvType
from edgedec.costs.speeds import PredictedSpeeds
from edgedec.memory.footprint import MemoryChoice, MemoryFacts
from edgedec.memory.plan import MemoryPlan, least, peak, planned

_POINTS = 240
_MARGIN = 0.06


def plans(facts: MemoryFacts, wanted: MemoryChoice, *, elastic: bool) -> list[MemoryPlan]:
    """Return plans for budgets from the smallest to a little more than any plan uses."""
    low, high = least(facts, wanted), peak(facts, wanted)
    high += int(_MARGIN * (high - low)) + 1
    budgets = [low + (high - low) * step // _POINTS for step in range(_POINTS + 1)]
    return [planned(facts, wanted, budget, elastic=elastic) for budget in budgets]


def predicted(found: Sequence[MemoryPlan], costs: Mapping[KvType, CostCurve]) -> list[PredictedSpeeds]:
    """Return the speeds of plans at a short context; ``costs``, of one moment, by the type of KV cache.

    With less memory neither speed rises while the type of KV cache stays: at a short context only drafts
    change it. A cache in int8 may be quicker or slower than one in fp16, by what its passes take.
    """
    return [PredictedSpeeds.of(costs[plan.choice.kv], plan.choice.drafted) for plan in found]
