"""The names of the tensors of EAGLE-3 heads, and the fields of ``HeadWeights`` that they are."""

from __future__ import annotations

import re

_LAYER = r"(?:midlayer|layers\.0)\."
_FIELDS = {
    r"fc\.weight": "fc",
    r"input_norm\.weight": "norm_taps",
    r"fc_norm\.([012])\.weight": "norm_taps.",
    _LAYER + r"input_layernorm\.weight": "norm_embed",
    _LAYER + r"hidden_norm\.weight": "norm_state",
    _LAYER + r"self_attn\.([qkv])_proj\.weight": "attn_",
    _LAYER + r"self_attn\.o_proj\.weight": "attn_output",
    _LAYER + r"self_attn\.q_norm\.weight": "q_norm",
    _LAYER + r"self_attn\.k_norm\.weight": "k_norm",
    _LAYER + r"post_attention_layernorm\.weight": "ffn_norm",
    _LAYER + r"mlp\.(gate|up|down)_proj\.weight": "ffn_",
    r"norm\.weight": "output_norm",
    r"lm_head\.weight": "head",
    r"embed_tokens\.weight": "embedding",
    r"(d2t|t2d)": "",
}
_PATTERNS = {re.compile(r"(?:model\.)?" + pattern): field for pattern, field in _FIELDS.items()}
_IGNORED = re.compile(r"verifier_(?:norm|lm_head)\.weight|.*\.rotary_emb\.inv_freq")
"""Copies of the target's that only training needs, and values that are computed."""


def field_of(name: str) -> str | None:
    """Return the field of a tensor; "" for one that is not needed, None for one that no head has.

    >>> field_of("midlayer.mlp.gate_proj.weight")
    'ffn_gate'
    """
    if _IGNORED.fullmatch(name):
        return ""
    for pattern, field in _PATTERNS.items():
        if found := pattern.fullmatch(name):
            return field + (found[1] if pattern.groups else "")
    return None
