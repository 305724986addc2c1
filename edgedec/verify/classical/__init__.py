"""The classical rules of verification: the same distribution as plain decoding, not the same tokens.

Each is a pure function of a draft tree, the target's and the drafter's ``Distributions``, and a ``Chance``.
It returns a ``Verdict``. ``speculative_sampling`` is for a chain, ``recursive_rejection`` for trees drafted
without replacement, ``k_seq`` for independent drafts. Decoding verifies by equality (``verify.keyed``) and
uses none of them: no drafter here draws its tokens.
"""

from __future__ import annotations

from edgedec.verify.classical.chance import Chance
from edgedec.verify.classical.distributions import Distributions, normalised, residual
from edgedec.verify.classical.k_seq import k_seq, optimal_rho
from edgedec.verify.classical.rejection import speculative_sampling
from edgedec.verify.classical.without_replacement import recursive_rejection

__all__ = [
    "Chance",
    "Distributions",
    "k_seq",
    "normalised",
    "optimal_rho",
    "recursive_rejection",
    "residual",
    "speculative_sampling",
]
