"""Facts about the tokens of some models that no key of a GGUF file states.

A family is known by its tokens: names in metadata are free, and fine-tunes change them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from edgedec.core.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TokenFamily:
    """A family of models; ``known_by`` are tokens that its vocabularies have, and no others all of them.

    ``ends``: further tokens that end a reply. ``rstrip``: tokens that take the white space behind them;
    ``lstrip``: before them.
    """

    known_by: frozenset[str]
    ends: tuple[str, ...] = ()
    rstrip: frozenset[str] = frozenset()
    lstrip: frozenset[str] = frozenset()


def _bars(words: str) -> frozenset[str]:
    return frozenset(f"<|{word}|>" for word in words.split())


_PHI3 = TokenFamily(
    _bars("assistant end placeholder1 placeholder6"),
    ends=("<|assistant|>",),
    rstrip=_bars("assistant end system user")
    | _bars(" ".join(f"placeholder{i}" for i in range(1, 7)))
    | {"</s>"},
)
_PHI4_TOKENS = _bars("endoftext fim_prefix fim_middle fim_suffix im_start im_end im_sep")
_PHI4 = TokenFamily(_bars("im_start im_sep fim_middle"), rstrip=_PHI4_TOKENS, lstrip=_PHI4_TOKENS)
_PHI4_MINI = TokenFamily(
    _bars("assistant end endofprompt tool /tool"),
    rstrip=_bars("assistant end user system tool /tool tool_call /tool_call tool_response tag"),
)
_GEMMA4 = TokenFamily(frozenset({"<|turn>", "<turn|>", "<eos>"}), ends=("<|tool_response>", "<eos>"))

_FAMILIES = (_PHI3, _PHI4, _PHI4_MINI, _GEMMA4)


def families_of(tokens: Collection[str]) -> Iterator[TokenFamily]:
    """Yield the families whose tokens a vocabulary has; in ``tokens`` texts are found quickly."""
    return (family for family in _FAMILIES if all(text in tokens for text in family.known_by))
