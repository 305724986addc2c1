"""Lossless verification: which drafted tokens the target would have produced, and the token after them.

Every rule is a pure function and returns a ``Verdict``. ``keyed`` is the one that decoding uses: a token is a
function of logits, seed and position, so that a draft is right or wrong and the output equals plain decoding
token for token. The classical rules keep the output's law instead: ``speculative_sampling`` for a chain,
``recursive_rejection`` for trees drafted without replacement, ``k_seq`` for independent drafts. ``RULES``
has their names: ``fitted`` cuts a draft to the part that the rule of a name can take, ``classical`` applies
it.
"""

from __future__ import annotations

from edgedec.verify.chance import Chance, SeededChance
from edgedec.verify.classical import KEYED, RULES, classical, fitted
from edgedec.verify.k_seq import k_seq
from edgedec.verify.keyed import Choose, keyed
from edgedec.verify.rejection import speculative_sampling
from edgedec.verify.verdict import Laws, Verdict
from edgedec.verify.without_replacement import recursive_rejection

__all__ = [
    "KEYED",
    "RULES",
    "Chance",
    "Choose",
    "Laws",
    "SeededChance",
    "Verdict",
    "classical",
    "fitted",
    "k_seq",
    "keyed",
    "recursive_rejection",
    "speculative_sampling",
]
