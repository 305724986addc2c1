"""Memory of an encoder: what the process holds, weights, and the batch with most tokens."""

from __future__ import annotations

from edgedec.bundle.manifest import WEIGHTS, Manifest
from edgedec.core.errors import MemoryBudgetError, Remedy
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.units import size, size_up
from edgedec.system.allocator import release_freed
from edgedec.system.memory import mapped_rss_bytes, peak_rss_bytes, rss_bytes

USUAL_TOKENS = 1024
"""Tokens of a batch where memory allows it; more are no quicker."""
USUAL_CONTEXT = 8192
"""Tokens of the longest text, unless the model allows fewer."""
LEAST_CONTEXT = 512
"""The same in a small budget: shorter texts would be cut too often."""
_FLOAT_BYTES = 4
_SLACK_BYTES = 12 << 20
"""Texts, token ids and vectors of a batch, and what Python's and the runtime's allocators keep."""
_QUERIES = 24
"""Rows of scores of a thread at a time (kernels/tree_attention/segments.cc, kQueries)."""


@dataclass(frozen=True, slots=True)
class EncoderPlan:
    """Bytes by purpose, tokens of a batch of several texts, and of the longest text.

    ``budget``: None where there is none.
    """

    tokens: int
    context: int
    parts: dict[str, int]
    budget: int | None = None

    @property
    def total(self) -> int:
        """The most bytes that the process has resident at once."""
        return sum(self.parts.values())

    @property
    def beside_process(self) -> int:
        """The same without what the process holds anyway."""
        return self.total - self.parts["process"]


def plan_encoder(manifest: Manifest, threads: int, budget: int | None) -> EncoderPlan:
    """Fit batches into a budget, in bytes, once the model is loaded.

    Batches become smaller first, then the longest text. Raises MemoryBudgetError for a budget that is too
    small for texts of ``LEAST_CONTEXT``, or of the model's own context.
    """
    facts, spec = manifest.embedding, manifest.spec
    assert facts is not None, "the manifest is an encoder's"
    release_freed()
    resident = rss_bytes() or peak_rss_bytes()
    whole = min(spec.context_length, USUAL_CONTEXT)
    of_token = facts.token_numbers * _FLOAT_BYTES
    parts = {
        "process": max(resident - mapped_rss_bytes(WEIGHTS), 0) + _SLACK_BYTES,
        "weights": manifest.files[WEIGHTS].bytes - spec.table_bytes,
        "scores": threads * (_QUERIES + 1) * (whole + 16) * _FLOAT_BYTES,
    }
    fits = whole if budget is None else (budget - sum(parts.values())) // of_token
    if fits < (least := min(whole, LEAST_CONTEXT)):
        needed = sum(parts.values()) + least * of_token
        raise MemoryBudgetError(
            f"a memory budget of {size(budget or 0)} is too small for {manifest.name}, which needs"
            f" {size_up(needed)} for a text of {least} tokens",
            hint="allow more",
            remedy=Remedy("memory", needed),
        )
    tokens = USUAL_TOKENS if budget is None else min(fits, USUAL_TOKENS)
    context = min(whole, fits)
    return EncoderPlan(tokens, context, parts | {"batch": max(tokens, context) * of_token}, budget)
