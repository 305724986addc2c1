"""Translates tensor names between Hugging Face models and GGUF files; the exporter uses the latter."""

from __future__ import annotations

from edgedec.export.architectures import Architecture

_TOP = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_BLOCK = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
# In models with norms after attention and MLP, the same name means another norm.
_TWO_NORMS = {"post_attention_layernorm": "ffn_norm"}
_FOUR_NORMS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def gguf_name(architecture: Architecture, name: str) -> str:
    """Return the GGUF name of a tensor; an unknown name is returned as it is, and refused later."""
    if name in _TOP:
        return _TOP[name]
    head, _, rest = name.removeprefix("model.layers.").partition(".")
    role, _, kind = rest.rpartition(".")
    found = (_BLOCK | (_FOUR_NORMS if architecture.post_norms else _TWO_NORMS)).get(role)
    if not name.startswith("model.layers.") or not head.isdecimal() or found is None:
        return name
    return f"blk.{head}.{found}.{kind}"


def huggingface_name(architecture: Architecture, name: str) -> str:
    """Return the Hugging Face name of a GGUF name, for messages."""
    for theirs, ours in _TOP.items():
        if ours == name:
            return theirs
    block, layer, role, kind = [*name.split(".", 3), "", "", ""][:4]
    table = _BLOCK | (_FOUR_NORMS if architecture.post_norms else _TWO_NORMS)
    names = [f"model.layers.{layer}.{theirs}.{kind}" for theirs, ours in table.items() if ours == role]
    return names[0] if block == "blk" and names else name
