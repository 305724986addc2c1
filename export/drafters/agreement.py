"""How often a drafter agrees with the tokens that its target wrote."""

from __future__ import annotations

from edgedec.core.errors import BadFileError
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.listed_files import Scalar

LEAST = 0.2
"""A drafter that agrees with fewer of the tokens is refused: its drafts could hardly pay."""


@dataclass(frozen=True)
class TokenAgreement:
    """The number of ``tokens`` of the target, and how many of them a drafter predicts."""

    hits: int
    tokens: int

    @property
    def rate(self) -> float:
        return self.hits / max(self.tokens, 1)

    def found(self, what: str, name: str) -> str:
        """Return it in words, for the drafter ``what`` of the model ``name``."""
        return f"{what} agrees with {self.rate:.0%} of {self.tokens} tokens that {name} wrote"

    def check(self, what: str, name: str, least: float = LEAST) -> None:
        """Raise BadFileError for the drafter ``what`` of the model ``name`` below a rate of ``least``."""
        if self.rate < least:
            raise BadFileError(self.found(what, name), hint="it was made for another model")

    def facts(self) -> dict[str, Scalar]:
        """Return the facts of a manifest."""
        return {"agreement": round(self.rate, 4), "tokens it was measured on": self.tokens}
