"""The account of a switched reply: who wrote how much, the switches, and what they cost and saved."""

from __future__ import annotations

from dataclasses import field

from edgedec.core.quick_dataclass import dataclass

_ENOUGH_TOKENS = 8
"""Tokens of the large model from which its time per token is taken."""


@dataclass
class Written:
    """Tokens of one model, and the time they took."""

    tokens: int = 0
    """Tokens of the reply, as the reply's model counts them."""
    stretches: int = 0
    own_tokens: int = 0
    """Tokens that the model drew."""
    first_s: float = 0.0
    """Seconds from the beginnings of stretches to their first tokens: what was missed is read there."""
    rest_s: float = 0.0
    """Seconds for all other tokens."""

    @property
    def token_s(self) -> float | None:
        """Seconds per further token; None where too few were written to tell."""
        further = self.own_tokens - self.stretches
        return self.rest_s / further if further >= _ENOUGH_TOKENS else None


@dataclass
class SwitchRecord:
    """Figures of the latest reply."""

    small: str
    large: str
    written: dict[str, Written] = field(default_factory=dict)
    switches: int = 0
    catch_up_tokens: int = 0
    """Tokens that a model read at hand-overs: its prompt, and those that the other one wrote."""
    catch_up_s: float = 0.0
    """Seconds from hand-overs to the next tokens, the passes of which are included."""
    waited_s: float = 0.0
    """Seconds from requests to a model elsewhere to the first text of its answers."""
    dropped_tokens: int = 0
    """Tokens of the small model that the large one wrote instead."""
    elsewhere: bool = False
    """Whether the large model runs on another machine, or in another process."""
    large_token_s: float | None = None
    """Seconds per token of the large model alone, as known before the reply."""

    def of(self, name: str) -> Written:
        """The figures of one model."""
        return self.written.setdefault(name, Written())

    @property
    def share_of_large(self) -> float:
        """Share of the reply's tokens that the large model wrote, 0 to 1."""
        total = sum(one.tokens for one in self.written.values())
        return self.of(self.large).tokens / total if total else 0.0

    @property
    def cost_saved(self) -> float | None:
        """Estimated share of decoding time that the small model saved; negative where it cost time.

        The large model alone would take its own time per token for all tokens: as measured in this reply, or
        else as known before. None where neither is known. The reading of the prompt does not count.
        """
        each = self.of(self.large).token_s or self.large_token_s
        alone = (each or 0.0) * sum(one.tokens for one in self.written.values())
        if not alone:
            return None
        rest_s = sum(one.rest_s for one in self.written.values())
        return 1.0 - (self.catch_up_s + self.waited_s + rest_s) / alone

    def as_json(self) -> dict[str, object]:
        """Return the figures as JSON fields."""
        saved = self.cost_saved
        return {
            "small": self.small,
            "large": self.large,
            "tokens": {name: self.of(name).tokens for name in (self.small, self.large)},
            "share_of_large": round(self.share_of_large, 4),
            "switches": self.switches,
            "catch_up_tokens": self.catch_up_tokens,
            "catch_up_s": round(self.catch_up_s, 6),
            "waited_s": round(self.waited_s, 6),
            "dropped_tokens": self.dropped_tokens,
            "seconds": {name: round(self.of(name).rest_s, 6) for name in (self.small, self.large)},
            "cost_saved": None if saved is None else round(saved, 4),
        }

    def summary(self) -> str:
        """Describe it in one line: ``small 30 tokens, large 12 (29 %); 2 switches, 25 tokens read again``."""
        small, large = self.of(self.small).tokens, self.of(self.large).tokens
        line = (
            f"{self.small} {small} tokens, {self.large} {large} ({self.share_of_large:.0%}); "
            f"{self.switches} switches, {self.catch_up_tokens} tokens caught up in {self.catch_up_s:.2f} s"
        )
        line += f", {self.waited_s:.2f} s of waiting for {self.large}" if self.waited_s else ""
        saved = self.cost_saved
        return line if saved is None else f"{line}; about {saved:.0%} of the time saved"
