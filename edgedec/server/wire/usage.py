"""Figures of a reply in OpenAI's form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgedec.core.quick_dataclass import dataclass
from edgedec.server.work.request import Usage


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory of the server's process, and its bound."""

    nbytes: int
    budget: int | None




def together(samples: Sequence[Usage]) -> Usage:
    """Return the cost of all samples of a request; its prompt counts once, times are those of the longest."""
    if not samples:
        return Usage()
    joules = [one.joules for one in samples]
    return Usage(
        prompt_tokens=samples[0].prompt_tokens,
        cached_tokens=samples[0].cached_tokens,
        disk_tokens=samples[0].disk_tokens,
        completion_tokens=sum(one.completion_tokens for one in samples),
        drafted_tokens=sum(one.drafted_tokens for one in samples),
        queue_s=samples[0].queue_s,
        prefill_s=samples[0].prefill_s,
        decode_s=max(one.decode_s for one in samples),
        passes=sum(one.passes for one in samples),
        joules=None if None in joules else sum(one for one in joules if one is not None),
    )


def usage_json(
    usage: Usage, memory: MemoryUse, thought: int = 0, *, read: str = "prompt", written: str = "completion"
) -> Any:
    """Return the figures as JSON fields; ``thought``: tokens of reasoning.

    ``read`` and ``written`` are the names of tokens that the model reads and writes.
    """
    return {
        f"{read}_tokens": usage.prompt_tokens,
        f"{written}_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        f"{read}_tokens_details": {"cached_tokens": usage.cached_tokens},
        f"{written}_tokens_details": {
            "accepted_prediction_tokens": usage.drafted_tokens,
            "reasoning_tokens": thought,
        },
        "edgedec": _own(usage, memory),
    }


def _own(usage: Usage, memory: MemoryUse) -> dict[str, Any]:
    joules, tokens = usage.joules, usage.completion_tokens
    return {
        "tokens_per_second": usage.tokens_per_s,
        "tokens_per_pass": usage.tokens_per_pass,
        "queue_seconds": usage.queue_s,
        "prefill_seconds": usage.prefill_s,
        "memory_bytes": memory.nbytes,
        "memory_budget_bytes": memory.budget,
        "joules_per_token": joules / tokens if joules is not None and tokens else None,
        "joules_estimated": True,
    }
