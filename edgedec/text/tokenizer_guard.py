"""Checks on the steps of a ``tokenizer.json``: they must be few, and must not multiply the text.

Each step rewrites the text that the step before it wrote. A thousand harmless steps that each double a
character keep a computer busy for ever and fill its memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from edgedec.core.errors import UnsupportedError

if TYPE_CHECKING:
    from edgedec.text.encoder import TokenizerFacts

_MOST_STEPS = 32
_MOST_REWRITES = 4
_MOST_CONTENT = 4
"""Most characters that a step may write for one; SentencePiece's space is one."""


def check_steps(facts: TokenizerFacts) -> None:
    """Raise UnsupportedError for a normaliser or pre-tokeniser that could multiply a text without end."""
    for part in (facts.normalizer, facts.pre_tokenizer):
        steps = list(_steps(part))
        kinds = [step["type"] for step in steps]
        written = [str(step.get("content", step.get("prepend", ""))) for step in steps]
        if (
            len(steps) > _MOST_STEPS
            or kinds.count("ByteLevel") > 1
            or kinds.count("Replace") + kinds.count("Prepend") > _MOST_REWRITES
            or any(len(text) > _MOST_CONTENT for text in written)
        ):
            raise UnsupportedError(
                "the tokenizer rewrites text in more steps than a model needs",
                hint="pull or export the model again",
            )


def most_shrinking(facts: TokenizerFacts) -> int:
    """Return how many times shorter, in bytes, a text may be after the normaliser.

    NFC joins at most three bytes into one: three Hangul letters of three bytes are a syllable of three. The
    factor for other steps is generous; a step that deletes characters has no bound.
    """
    kinds = {step["type"] for step in _steps(facts.normalizer)}
    kinds -= {"Sequence", "Replace", "Prepend"}
    return 1 if not kinds else 4 if kinds == {"NFC"} else 16


def _steps(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object that has a type, also those in sequences within sequences."""
    if isinstance(value, dict):
        if isinstance(value.get("type"), str):
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _steps(item)
