"""A token of a reply with its probability."""

from __future__ import annotations

from edgedec.core.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token with the natural logarithm of its probability under the model at temperature 1.

    ``top`` has the most probable tokens at that place, best first. ``raw``: the bytes of the token, which may
    be a part of a character.
    """

    token: int
    text: str
    logprob: float
    top: tuple[TokenLogprob, ...] = ()
    raw: bytes = b""

    def as_json(self) -> dict[str, object]:
        """Return the token as JSON fields."""
        top = [{"token": one.token, "text": one.text, "logprob": one.logprob} for one in self.top]
        return {"token": self.token, "text": self.text, "logprob": self.logprob, "top": top}
