"""Rules by which byte-level BPE splits text into words, by their name in ``tokenizer.ggml.pre``.

A rule is a list of regular expressions, applied in order: the matches of one and the gaps between them are
the input of the next. The expressions are those of the models' own tokenizers; names and grouping follow
llama.cpp. Its engine knows no upper and lower case outside ASCII and approximates two expressions, gpt-4o and
tekken; EdgeDec uses the models' own. llama.cpp does not normalise texts for byte-level BPE either. Where
transformers composes them (Qwen2, Qwen3.5, GPT-NeoX, ModernBERT, Cohere), so does EdgeDec: the models saw no
other texts.
"""

from __future__ import annotations

from typing import Any

from edgedec.core.errors import UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.text import word_patterns as words


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """One rule.

    ``ignore_merges``: a word that is a token is taken whole. ``add_bos``: default of models with this rule.
    ``composes``: texts are brought into the composed normal form, NFC, before.
    """

    regexes: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False
    composes: bool = False


_FAMILIES: tuple[tuple[PreTokenizer, str], ...] = (
    (
        PreTokenizer(words.DEFAULT),
        "default",
    ),
    (
        PreTokenizer(words.GPT2),
        "gpt-2 phi-2 jais trillion granite-docling exaone4 gigachat a.x-4.0 mellum",
    ),
    (PreTokenizer(words.GPT2, composes=True), "mpt olmo modern-bert"),
    (
        PreTokenizer(words.SMOLLM),
        "smollm starcoder refact codeshell exaone minerva-7b mellum2",
    ),
    (PreTokenizer(words.SMOLLM, composes=True), "command-r"),
    (
        PreTokenizer(words.LLAMA3, ignore_merges=True, add_bos=True),
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2",
    ),
    (PreTokenizer(words.LLAMA3), "dbrx smaug-bpe chatglm-bpe"),
    (PreTokenizer(words.LLAMA3, ignore_merges=True), "glm4"),
    (PreTokenizer(words.QWEN2, composes=True), "qwen2 deepseek-r1-qwen"),
    (PreTokenizer(words.QWEN2), "stablelm2 hunyuan megrez grok-2 kormo solar-open"),
    (PreTokenizer(words.QWEN35, composes=True), "qwen35"),
    (PreTokenizer(words.SEED_CODER), "seed-coder"),
    (PreTokenizer(words.BAILING), "bailingmoe bailingmoe2 llada-moe"),
    (PreTokenizer(words.TEKKEN, ignore_merges=True, add_bos=True), "tekken"),
    (PreTokenizer(words.GPT4O), "gpt-4o llama4 kanana2 minimax-m2"),
    (PreTokenizer(words.DEEPSEEK3), "deepseek-v3 hunyuan-dense joyai-llm"),
    (
        PreTokenizer(words.DEEPSEEK_CODER),
        "deepseek-coder",
    ),
    (PreTokenizer(words.FALCON), "falcon"),
    (PreTokenizer(words.BLOOM), "bloom poro-chat gpt3-finnish"),
    (PreTokenizer(words.VIKING), "viking"),
)

PRE_TOKENIZERS: dict[str, PreTokenizer] = {name: rule for rule, names in _FAMILIES for name in names.split()}


def find_pre_tokenizer(name: str | None) -> PreTokenizer:
    """Return the rule called ``name``; None, in files without the key, means ``default``.

    Raises UnsupportedError for an unknown name.
    """
    rule = PRE_TOKENIZERS.get(name or "default")
    if rule is None:
        known = "known: " + ", ".join(sorted(PRE_TOKENIZERS))
        raise UnsupportedError(f"unknown pre-tokenizer {name!r} in tokenizer.ggml.pre", hint=known)
    return rule


def pre_tokenizer_section(rule: PreTokenizer) -> dict[str, Any]:
    """Return the ``pre_tokenizer`` section: the splits in order, then bytes as printable characters."""
    steps: list[dict[str, Any]] = [
        {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
        for regex in rule.regexes
    ]
    steps.append({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False})
    return {"type": "Sequence", "pretokenizers": steps}
