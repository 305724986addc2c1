"""How byte-level BPE cuts text into words before merging, by the name in ``tokenizer.ggml.pre``.

Each entry is the list of regular expressions applied one after the other: the matches of one and the gaps
between them are the input of the next one. The expressions are those of the models' own tokenizers; names and
grouping follow llama.cpp. Where llama.cpp approximates one (its engine knows no upper and lower case outside
ASCII: gpt-4o, tekken), the model's own expression is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edgedec.core.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """``ignore_merges``: a word that is a token is taken whole. ``add_bos`` is its default."""

    regexes: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False


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
    """Words cut before a capital letter, optionally with an English contraction kept at the end."""
    start = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{start}{_UPPER}*{_LOWER}+{contraction}|{start}{_UPPER}+{_LOWER}*{contraction}"
        rf"|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
    )


_FAMILIES: tuple[tuple[PreTokenizer, str], ...] = (
    (
        PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")),
        "default",
    ),
    (
        PreTokenizer((_GPT2,)),
        "gpt-2 phi-2 mpt olmo jais trillion granite-docling exaone4 gigachat a.x-4.0 mellum modern-bert",
    ),
    (
        PreTokenizer((r"\p{N}", _GPT2)),
        "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
    ),
    (
        PreTokenizer((_LLAMA3,), ignore_merges=True, add_bos=True),
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2",
    ),
    (PreTokenizer((_LLAMA3,)), "dbrx smaug-bpe chatglm-bpe"),
    (PreTokenizer((_LLAMA3,), ignore_merges=True), "glm4"),
    (PreTokenizer((_QWEN2,)), "qwen2 stablelm2 deepseek-r1-qwen hunyuan megrez grok-2 kormo solar-open"),
    (PreTokenizer((_QWEN35,)), "qwen35"),
    (PreTokenizer((_SEED_CODER,)), "seed-coder"),
    (PreTokenizer((_BAILING,)), "bailingmoe bailingmoe2 llada-moe"),
    (PreTokenizer((_cased("", r"\p{N}"),), ignore_merges=True, add_bos=True), "tekken"),
    (PreTokenizer((_cased(_CONTRACTION + "?", r"\p{N}{1,3}"),)), "gpt-4o llama4 kanana2 minimax-m2"),
    (PreTokenizer((r"\p{N}{1,3}", _CJK, _DEEPSEEK3)), "deepseek-v3 hunyuan-dense joyai-llm"),
    (
        PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u0800-\u9fa5\uac00-\ud7ff]+", r"\p{N}")),
        "deepseek-coder",
    ),
    (PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, r"[0-9][0-9][0-9]")), "falcon"),
    (PreTokenizer((_BLOOM,)), "bloom poro-chat gpt3-finnish"),
    (PreTokenizer((_BLOOM, r"\p{N}")), "viking"),
)

PRE_TOKENIZERS: dict[str, PreTokenizer] = {name: rule for rule, names in _FAMILIES for name in names.split()}


def find_pre_tokenizer(name: str | None) -> PreTokenizer:
    """The rule called ``name``; None, in files older than the key, is ``default``. Else UnsupportedError."""
    rule = PRE_TOKENIZERS.get(name or "default")
    if rule is None:
        known = "known: " + ", ".join(sorted(PRE_TOKENIZERS))
        raise UnsupportedError(f"unknown pre-tokenizer {name!r} in tokenizer.ggml.pre", hint=known)
    return rule


def pre_tokenizer_section(rule: PreTokenizer) -> dict[str, Any]:
    """The ``pre_tokenizer`` section: the splits in order, then bytes mapped to printable characters."""
    steps: list[dict[str, Any]] = [
        {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
        for regex in rule.regexes
    ]
    steps.append({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False})
    return {"type": "Sequence", "pretokenizers": steps}
