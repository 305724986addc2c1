"""An estimate of energy from bytes moved and operations done, with published constants.

It is no measurement, and is never put in the place of one without its label. It has what the work itself
takes: bytes from memory and arithmetic. Power that flows whatever is computed (leakage, cores that wait for
memory, display) is not in it, so a meter shows more.

Constants, low and high:

- Memory, 80 to 160 pJ/byte: LPDDR5X takes 10 pJ/bit and LPDDR5 20 pJ/bit for a transfer ("PIM-AI: A Novel
  Architecture for High-Efficiency LLM Inference", arXiv 2411.17309, table 1). The upper one is also what
  Horowitz gives for 32 bits from DRAM, 640 pJ.
- A multiplication with its addition, 0.23 to 4.6 pJ: with 8-bit integers 0.2 + 0.03 pJ, with 32-bit floats
  3.7 + 0.9 pJ, at 45 nm (Horowitz, "Computing's energy problem", ISSCC 2014). Fetching and issuing an
  instruction takes about 70 pJ there, which for an instruction of 16 products is 4.4 pJ for each: so the
  range covers products of vectors of integers on a processor.
"""

from __future__ import annotations

import math

from edgedec.core.quick_dataclass import dataclass

_PJ = 1e-12
BYTE_J = (80 * _PJ, 160 * _PJ)
PRODUCT_J = (0.23 * _PJ, 4.6 * _PJ)
OPERATIONS_EACH = 2
"""Operations of a product: a multiplication and an addition."""
MODEL = "model (bytes and operations, published constants)"
"""The source that estimates name."""


@dataclass(frozen=True, slots=True)
class EnergyEstimate:
    """Joules between ``low`` and ``high``; ``joules`` is their geometric mean."""

    low: float
    high: float

    @property
    def joules(self) -> float:
        return math.sqrt(self.low * self.high)


def estimate(bytes_read: float, operations: float) -> EnergyEstimate:
    """Estimate the joules of work that read ``bytes_read`` bytes from memory and did ``operations``.

    Linear in both.
    """
    products = operations / OPERATIONS_EACH
    low, high = (
        bytes_read * byte + products * product for byte, product in zip(BYTE_J, PRODUCT_J, strict=True)
    )
    return EnergyEstimate(low, high)
