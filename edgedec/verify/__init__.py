"""Lossless verification: which drafted tokens the target would have produced, and the token after them.

``keyed`` is a pure function and returns a ``Verdict``: a token is a function of logits, seed and position, so
that a draft is right or wrong and the output equals plain decoding token for token. The rules in
``classical`` keep the output's distribution instead; they are a library that no command uses.
"""

from __future__ import annotations

from edgedec.verify.keyed import Choose, keyed
from edgedec.verify.verdict import Verdict

__all__ = ["Choose", "Verdict", "keyed"]
