"""SentencePiece BPE (``tokenizer.ggml.model`` = llama): tokens have scores, merges must be derived.

The reference algorithm repeatedly joins the two neighbours whose concatenation is the token of the highest
score, the leftmost on a tie. Text that is no token in the end is spelt in byte tokens <0xNN>.

As ranked merges, every split of a token into two tokens would be a merge with the rank of the token. Only one
of these splits can happen. While a span of text becomes token T, nothing outside the span takes part, so the
joins inside are the same, in the same order, as when T is tokenised alone. The last of them is T's split.
``canonical_split`` finds it. Leaving out the other splits gives the same result and half the file.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from edgedec.core.errors import BadFileError
from edgedec.export.tokenizer.vocabulary import NORMAL, UNUSED, GgufVocabulary

SPACE = "▁"


def canonical_split(token: str, scores: Mapping[str, float]) -> tuple[str, str] | None:
    """Return the pair whose join completes ``token`` when it is tokenised alone, or None if nothing does."""
    parts = list(token)
    missing = float("-inf")
    pairs = [scores.get(a + b, missing) for a, b in itertools.pairwise(parts)]
    while len(parts) > 2:
        best = max(pairs)
        if best == missing:
            return None
        at = pairs.index(best)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
        del pairs[at]
        if at > 0:
            pairs[at - 1] = scores.get(parts[at - 1] + parts[at], missing)
        if at < len(pairs):
            pairs[at] = scores.get(parts[at] + parts[at + 1], missing)
    return (parts[0], parts[1]) if len(parts) == 2 else None


def derive_merges(vocab: GgufVocabulary) -> list[tuple[str, str]]:
    """Return one merge for each reachable token, by falling score, then by rising id.

    Control, byte and user-defined tokens are not made by merging: as in SentencePiece, text that looks like
    one stays text. On equal scores, the reference decides by position in the text instead of by id.
    """
    mergeable = vocab.of_type(NORMAL, UNUSED)
    scores = {vocab.tokens[i]: vocab.scores[i] for i in mergeable}
    known = set(vocab.tokens)
    merges = []
    for i in sorted(mergeable, key=lambda i: -vocab.scores[i]):
        split = canonical_split(vocab.tokens[i], scores)
        # A half that is a lone character outside the vocabulary would already have become bytes.
        if split and known.issuperset(split):
            merges.append(split)
    return merges


def stated_merges(vocab: GgufVocabulary) -> list[tuple[str, str]]:
    """Return the merges of a file that has them (``tokenizer.ggml.model`` = gemma4), in order of rank.

    Raises BadFileError when there are none, or one uses or makes a token that the vocabulary lacks.
    """
    if not vocab.merges:
        raise BadFileError("tokenizer.ggml.merges is missing: a gemma4 tokenizer cannot work without it")
    known = set(vocab.tokens)
    for left, right in vocab.merges:
        if not known.issuperset((left, right, left + right)):
            raise BadFileError(f"tokenizer.ggml.merges: {left!r} + {right!r} is no merge of tokens")
    return list(dict.fromkeys(vocab.merges))


def spm_sections(
    vocab: GgufVocabulary, *, add_space_prefix: bool, unknown: int | None, ranked: bool = False
) -> dict[str, Any]:
    """Return the normalizer, pre-tokenizer, decoder and model sections of tokenizer.json.

    ``ranked``: the file has the merges. Raises BadFileError when those, or the scores, are missing.
    """
    if not ranked and not vocab.scores:
        raise BadFileError("tokenizer.ggml.scores is missing: a SentencePiece tokenizer needs it")
    merges = stated_merges(vocab) if ranked else derive_merges(vocab)
    # The short form "a b" cannot hold tokens that contain a space.
    plain = not any(" " in half for pair in merges for half in pair)
    escape = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    prepend = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, escape]}
    return {
        "normalizer": prepend if add_space_prefix else escape,
        "pre_tokenizer": None,
        "decoder": _decoder(add_space_prefix),
        "model": {
            "type": "BPE",
            "unk_token": None if unknown is None else vocab.tokens[unknown],
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": {text: i for text, i in vocab.ids.items() if i not in vocab.doubled},
            "merges": [f"{a} {b}" for a, b in merges] if plain else [list(pair) for pair in merges],
        },
    }


def _decoder(add_space_prefix: bool) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if add_space_prefix:
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {"type": "Sequence", "decoders": steps}
