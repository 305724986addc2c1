"""Which format each group of matrices gets: one word for the body of a model, others for parts of it."""

from __future__ import annotations

from collections.abc import Mapping

from edgedec.core.errors import UsageError
from edgedec.export import QUANTS, ROLES

_TABLES = ("token_embd.weight", "output.weight")
_TABLE_QUANT = "q8_0"
"""Embedding and head keep eight bits unless told otherwise: rounding shows there first."""


def parse_quant(text: str) -> dict[str, str]:
    """``q4_0``, ``q4_0,attn=q5_1`` or ``head=q4_1``: the format of every role. Raises UsageError.

    A format alone is that of attention and MLP; the last word about a role counts.
    """
    found = {role: _TABLE_QUANT if role == "head" else QUANTS[0] for role in ROLES}
    words = [word.strip() for word in text.split(",")]
    for word in sorted(words, key=lambda word: "=" in word):  # those about one role after the general ones
        role, equals, format = word.rpartition("=")
        if (equals and role not in ROLES) or format not in QUANTS:
            raise UsageError(
                f"no quantisation {word[:40]!r}",
                hint=f"there are {', '.join(QUANTS)}, also for a part: {'=, '.join(ROLES)}=",
            )
        found |= {role: format} if equals else {"attn": format, "mlp": format}
    return found


def show_quant(formats: Mapping[str, str]) -> str:
    """The text that ``parse_quant`` takes, every role spelled out."""
    return ",".join(f"{role}={formats[role]}" for role in ROLES)


def role_of(name: str) -> str:
    """The role of the matrix with this GGUF name."""
    if name in _TABLES:
        return "head"
    return "attn" if ".attn_" in name else "mlp"
