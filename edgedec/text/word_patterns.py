"""Regular expressions with which byte-level BPE cuts text into words before merging.

Each is one model family's own. ``edgedec.export`` knows which models use which; ``edgedec.text.pieces`` knows
where all of them cut.
"""

from __future__ import annotations

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SYMBOLS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_SYMBOLS}|{_SPACES}"
_QWEN2 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}|{_SYMBOLS}|{_SPACES}"
_QWEN35 = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
)
_SEED_CODER = rf"{_CONTRACTION}|{_WORD}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}"
_BAILING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
_BLOOM = r" ?[^(\s|.,!?" "\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
_CJK = "[\u4e00-\u9fa5\u3040-\u30ff]+"
_DEEPSEEK3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}"
)


def _cased(contraction: str, digits: str) -> str:
    """Cut words before a capital letter; optionally keep an English contraction at the end."""
    start = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{start}{_UPPER}*{_LOWER}+{contraction}|{start}{_UPPER}+{_LOWER}*{contraction}"
        rf"|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
    )


DEFAULT = (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")
GPT2 = (_GPT2,)
SMOLLM = (r"\p{N}", _GPT2)
LLAMA3 = (_LLAMA3,)
QWEN2 = (_QWEN2,)
QWEN35 = (_QWEN35,)
SEED_CODER = (_SEED_CODER,)
BAILING = (_BAILING,)
TEKKEN = (_cased("", r"\p{N}"),)
GPT4O = (_cased(_CONTRACTION + "?", r"\p{N}{1,3}"),)
DEEPSEEK3 = (r"\p{N}{1,3}", _CJK, _DEEPSEEK3)
DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u0800-\u9fa5\uac00-\ud7ff]+", r"\p{N}")
FALCON = (r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, r"[0-9][0-9][0-9]")
BLOOM = (_BLOOM,)
VIKING = (_BLOOM, r"\p{N}")

WORD_PATTERNS = frozenset(
    {DEFAULT, GPT2, SMOLLM, LLAMA3, QWEN2, QWEN35, SEED_CODER, BAILING, TEKKEN, GPT4O}
    | {DEEPSEEK3, DEEPSEEK_CODER, FALCON, BLOOM, VIKING}
)
"""All of them; several in a row apply one after the other, each to the matches of the last and the gaps."""
