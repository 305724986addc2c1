"""Translates tensor names between Hugging Face models and GGUF files; the exporter uses the latter."""

from __future__ import annotations

import re
from collections.abc import Mapping

from edgedec.export.architectures import Architecture

_TOP = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "model.embedding_norm.weight": "token_embd_norm.weight",
    "lm_head.weight": "output.weight",
    "model.embed_tokens_per_layer.weight": "per_layer_token_embd.weight",
    "model.per_layer_model_projection.weight": "per_layer_model_proj.weight",
    "model.per_layer_projection_norm.weight": "per_layer_proj_norm.weight",
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
_QWEN35 = {
    "post_attention_layernorm": "post_attention_norm",
    "linear_attn.in_proj_qkv": "attn_qkv",
    "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.in_proj_a": "ssm_alpha",
    "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.norm": "ssm_norm",
    "linear_attn.out_proj": "ssm_out",
}
_LFM2 = {
    "operator_norm": "attn_norm",
    "ffn_norm": "ffn_norm",
    "self_attn.q_layernorm": "attn_q_norm",
    "self_attn.k_layernorm": "attn_k_norm",
    "self_attn.out_proj": "attn_output",
    "conv.in_proj": "shortconv.in_proj",
    "conv.conv": "shortconv.conv",
    "conv.out_proj": "shortconv.out_proj",
    "feed_forward.w1": "ffn_gate",
    "feed_forward.w2": "ffn_down",
    "feed_forward.w3": "ffn_up",
}
_QWEN_EXPERTS = {
    "mlp.gate": "ffn_gate_inp",
    "mlp.experts.*.gate_proj": "ffn_gate_exps",
    "mlp.experts.*.up_proj": "ffn_up_exps",
    "mlp.experts.*.down_proj": "ffn_down_exps",
}
_OWN: Mapping[str, Mapping[str, str]] = {
    "gemma4": {
        "per_layer_input_gate": "inp_gate",
        "per_layer_projection": "proj",
        "post_per_layer_input_norm": "post_norm",
        "router.proj": "ffn_gate_inp",
        "pre_feedforward_layernorm_2": "pre_ffw_norm_2",
        "post_feedforward_layernorm_1": "post_ffw_norm_1",
        "post_feedforward_layernorm_2": "post_ffw_norm_2",
    },
    "qwen35": _QWEN35,
    "lfm2": _LFM2,
    "qwen3moe": _QWEN_EXPERTS,
    "lfm2moe": {
        **_LFM2,
        "feed_forward.gate": "ffn_gate_inp",
        "feed_forward.experts.*.w1": "ffn_gate_exps",
        "feed_forward.experts.*.w2": "ffn_down_exps",
        "feed_forward.experts.*.w3": "ffn_up_exps",
    },
    "granitemoe": {
        "block_sparse_moe.router.layer": "ffn_gate_inp",
        "block_sparse_moe.router": "ffn_gate_inp",
        "block_sparse_moe.input_linear": "ffn_gate_up_exps",
        "block_sparse_moe.output_linear": "ffn_down_exps",
    },
    "gpt-oss": {"mlp.router": "ffn_gate_inp", "post_attention_layernorm": "post_attention_norm"},
    "qwen35moe": {
        **_QWEN35,
        **_QWEN_EXPERTS,
        "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
        "mlp.shared_expert.up_proj": "ffn_up_shexp",
        "mlp.shared_expert.down_proj": "ffn_down_shexp",
        "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    },
}
"""Names of one architecture only, which come before the others; * is the number of an expert."""
_WHOLE = {
    "linear_attn.A_log": "ssm_a",
    "linear_attn.dt_bias": "ssm_dt.bias",
    "layer_scalar": "layer_output_scale.weight",
    "self_attn.sinks": "attn_sinks.weight",
    "feed_forward.expert_bias": "exp_probs_b.bias",
    "router.scale": "ffn_gate_inp.scale",
    "router.per_expert_scale": "ffn_down_exps.scale",
    **{
        f"{block}experts.{theirs}": ours
        for block in ("mlp.", "feed_forward.", "block_sparse_moe.", "")
        for theirs, ours in (
            ("gate_up_proj", "ffn_gate_up_exps.weight"),
            ("down_proj", "ffn_down_exps.weight"),
        )
    },
}
"""Names that end otherwise than with .weight or .bias."""
_EXPERT = re.compile(r"(?<=\.experts\.)\d{1,9}(?=\.)")
_LAYERS = "model.layers."
_INNER = {
    "model.language_model.": "model.",
    "language_model.model.": "model.",
    "language_model.lm_head.": "lm_head.",
}
"""Begins of names in the text part of a model that sees, and those of a text model."""
NEXTN = "mtp."
"""Begin of the names of the layers that predict further tokens."""
_NEXTN_TOP = {
    "mtp.fc": "nextn.eh_proj",
    "mtp.pre_fc_norm_embedding": "nextn.enorm",
    "mtp.pre_fc_norm_hidden": "nextn.hnorm",
    "mtp.norm": "nextn.shared_head_norm",
}


def gguf_name(architecture: Architecture, name: str, layers: int = 0) -> str:
    """Return the GGUF name of a tensor; an unknown name is returned as it is, and refused later.

    ``layers``: of the model, behind which a GGUF file has those that predict further tokens.
    """
    for begin, plain in _INNER.items():
        if name.startswith(begin):
            name = plain + name.removeprefix(begin)
            break
    if name in _TOP:
        return _TOP[name]
    if name.startswith(NEXTN):
        return _nextn_name(architecture, name, layers)
    head, _, rest = name.removeprefix(_LAYERS).partition(".")
    if not name.startswith(_LAYERS) or not head.isdecimal():
        return name
    if rest in _WHOLE:
        return f"blk.{head}.{_WHOLE[rest]}"
    role, _, kind = _EXPERT.sub("*", rest).rpartition(".")
    found = _roles(architecture).get(role)
    return name if found is None else f"blk.{head}.{found}.{kind}"


def expert_of(name: str) -> int | None:
    """Return the number of the expert whose tensor has this Hugging Face name; None for one of no expert."""
    found = _EXPERT.search(name)
    return int(found[0]) if found else None


def huggingface_name(architecture: Architecture, name: str) -> str:
    """Return the Hugging Face name of a GGUF name, for messages."""
    for theirs, ours in _TOP.items():
        if ours == name:
            return theirs
    block, layer, rest = [*name.split(".", 2), "", ""][:3]
    if block != "blk":
        return name
    role, _, kind = rest.rpartition(".")
    ends = {ours: theirs for theirs, ours in _WHOLE.items()}
    names = [theirs for theirs, ours in _roles(architecture).items() if ours == role]
    whole = f"{names[0]}.{kind}" if names else ends.get(rest)
    return f"{_LAYERS}{layer}.{whole}" if whole else name


def _roles(architecture: Architecture) -> Mapping[str, str]:
    own = _OWN.get(architecture.name, {})
    return {**own, **{theirs: ours for theirs, ours in _general(architecture).items() if theirs not in own}}


def _general(architecture: Architecture) -> Mapping[str, str]:
    return _BLOCK | (_FOUR_NORMS if architecture.post_norms else _TWO_NORMS)


def _nextn_name(architecture: Architecture, name: str, layers: int) -> str:
    stem, _, kind = name.rpartition(".")
    if stem in _NEXTN_TOP:
        return f"blk.{layers}.{_NEXTN_TOP[stem]}.{kind}"
    head, _, rest = name.removeprefix("mtp.layers.").partition(".")
    if not name.startswith("mtp.layers.") or not head.isdecimal():
        return name
    found = gguf_name(architecture, f"{_LAYERS}{layers + int(head)}.{rest}")
    return found if found.startswith("blk.") else name
