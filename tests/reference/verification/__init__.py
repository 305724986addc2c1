"""Verification, as an oracle: by equality, and the classical rules.

``keyed`` is the rule of the core: a drafted token is the target's or it is not, and the output equals plain
decoding token for token; ``until`` cuts a verdict. The classical rules keep the distribution of plain
decoding instead, not the same tokens. Each is a pure function of a draft tree, the target's and the drafter's
``Distributions``, and a ``Chance``:

- ``speculative_sampling`` for a chain,
- ``recursive_rejection`` for trees drafted without replacement,
- ``k_seq`` for independent drafts.

Decoding uses none of them: no drafter draws its tokens.
"""

from __future__ import annotations

from tests.reference.verification.chance import Chance
from tests.reference.verification.distributions import Distributions, normalised, residual
from tests.reference.verification.k_seq import k_seq, optimal_rho
from tests.reference.verification.keyed import Choose, keyed, until
from tests.reference.verification.rejection import speculative_sampling
from tests.reference.verification.without_replacement import recursive_rejection

__all__ = [
    "Chance",
    "Choose",
    "Distributions",
    "k_seq",
    "keyed",
    "normalised",
    "optimal_rho",
    "recursive_rejection",
    "residual",
    "speculative_sampling",
    "until",
]
