"""Parses the formats of a model's matrices: one for all, and others for single roles."""

from __future__ import annotations

from collections.abc import Mapping

from edgedec.core.errors import UsageError

QUANTS = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "bf16", "f16", "f32")
"""Formats for the matrices of a Hugging Face model: groups of 32 weights with one scale, or floats."""
ROLES = ("attn", "mlp", "head")
"""Parts of a model that can have different formats; ``head`` includes the embedding."""
_TABLES = ("token_embd.weight", "output.weight")
_MIXERS = (".attn_", ".ssm_", ".shortconv.")
_SMALL = ("ssm_alpha.weight", "ssm_beta.weight")
_EXACT = ("bf16", "f16", "f32")
_TABLE_QUANT = "q8_0"
"""Embedding and head have eight bits by default: rounding does most harm there."""


def parse_quant(text: str) -> dict[str, str]:
    """Parse ``q4_0``, ``q4_0,attn=q5_1`` or ``head=q4_1`` into the format of every role.

    A format without a role is for attention and MLP. If a role occurs twice, the last one counts. Raises
    UsageError.
    """
    found = {role: _TABLE_QUANT if role == "head" else QUANTS[0] for role in ROLES}
    words = [word.strip() for word in text.split(",")]
    for word in sorted(words, key=lambda word: "=" in word):  # formats with a role override those without
        role, equals, format = word.rpartition("=")
        if (equals and role not in ROLES) or format not in QUANTS:
            raise UsageError(
                f"no quantisation {word[:40]!r}",
                hint=f"there are {', '.join(QUANTS)}, also for a part: {'=, '.join(ROLES)}=",
            )
        found |= {role: format} if equals else {"attn": format, "mlp": format}
    return found


def show_quant(formats: Mapping[str, str]) -> str:
    """Return the text for ``parse_quant`` with every role spelled out."""
    return ",".join(f"{role}={formats[role]}" for role in ROLES)


def role_of(name: str) -> str:
    """Return the role of the matrix with this GGUF name."""
    if name in _TABLES:
        return "head"
    return "attn" if any(part in name for part in _MIXERS) else "mlp"


def format_of(name: str, formats: Mapping[str, str]) -> str:
    """Return the format of the matrix with this GGUF name; ``formats`` has that of each role.

    Matrices of a row a head have eight bits at least: they are small, and a state remembers their errors.
    """
    chosen = formats[role_of(name)]
    return _TABLE_QUANT if name.endswith(_SMALL) and chosen not in _EXACT else chosen
