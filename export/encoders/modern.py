"""ModernBERT and NomicBERT: config.json, names of tensors in GGUF files, and the ranking head."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from edgedec.bundle.embedding_facts import Pooling
from edgedec.core.errors import UnsupportedError
from edgedec.export.encoders.bert_source import ACTIVATIONS, label_count
from edgedec.export.encoders.ends import Dense, Ends
from edgedec.export.encoders.sizes import BertSizes, Rotations
from edgedec.export.fields import MOST_LAYERS, Fields
from edgedec.export.huggingface.config import check_unquantised

MODERN, NOMIC = "modernbert", "nomic_bert"
"""Model types of config.json."""
_GATES = {"swiglu": "silu", "geglu": "gelu"}
_LOCAL = "sliding_attention"
_NAMES = {
    "embeddings.tok_embeddings": "token_embd",
    "embeddings.norm": "token_embd_norm",
    "final_norm": "output_norm",
    "head.dense": "cls",
    "head.norm": "cls.norm",
    "classifier": "cls.output",
    "embeddings.word_embeddings": "token_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
    "emb_ln": "token_embd_norm",
}
_IN_LAYERS = {
    "attn_norm": "attn_norm",
    "attn.Wqkv": "attn_qkv",
    "attn.Wo": "attn_output",
    "mlp_norm": "ffn_norm",
    "mlp.Wi": "ffn_up",
    "mlp.Wo": "ffn_down",
    "attn.out_proj": "attn_output",
    "norm1": "attn_output_norm",
    "mlp.fc11": "ffn_up",
    "mlp.fc12": "ffn_gate",
    "mlp.fc2": "ffn_down",
    "norm2": "layer_output_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "attn_output_norm",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_proj": "ffn_gate",
    "mlp.down_proj": "ffn_down",
    "post_mlp_layernorm": "layer_output_norm",
}
"""Those of ModernBERT, of NomicBERT's own files, and of NomicBERT as transformers writes it."""
_LAYER = re.compile(r"(?:encoder\.)?layers\.(\d+)\.(.+)")


def modern_name(name: str) -> str:
    """Return the name in a GGUF file; "" for a tensor of another task."""
    for prefix in ("model.", "nomic_bert.", "0.auto_model."):
        name = name.removeprefix(prefix)
    begin, _, end = name.rpartition(".")
    if end not in ("weight", "bias"):
        return ""
    if found := _LAYER.fullmatch(begin):
        ours = _IN_LAYERS.get(found[2])
        return f"blk.{found[1]}.{ours}.{end}" if ours else ""
    return f"{_NAMES[begin]}.{end}" if begin in _NAMES else ""


def read_modern(data: Mapping[str, Any]) -> BertSizes:
    """Read config.json of ModernBERT. Raises BadFileError or UnsupportedError."""
    fields = Fields("config.json", data)
    check_unquantised(data)
    if data.get("mlp_bias"):
        raise UnsupportedError("a ModernBERT model with biases in its MLP is not supported")
    return BertSizes(
        name=MODERN,
        vocab=fields.size("vocab_size"),
        layers=fields.layers,
        hidden=fields.size("hidden_size"),
        heads=fields.size("num_attention_heads"),
        ffn=fields.size("intermediate_size"),
        positions=fields.size("max_position_embeddings", 8192),
        epsilon=fields.positive("norm_eps", 1e-5),
        activation=activation_of(fields.text("hidden_activation", "gelu"), MODERN),
        labels=label_count(fields),
        rotations=_windows(fields),
        gated=True,
        norms_first=True,
    )


def _windows(fields: Fields) -> Rotations:
    kinds = fields.data.get("layer_types")
    if kinds is None:
        period = fields.size("global_attn_every_n_layers", 3)
        local = tuple(layer % period > 0 for layer in range(fields.layers))
    elif isinstance(kinds, list) and len(kinds) == fields.layers:
        local = tuple(kind == _LOCAL for kind in kinds)
    else:
        raise UnsupportedError("layer_types in config.json does not say which layers have a window")
    base = _base(fields, "full_attention", "global_rope_theta", 160_000.0)
    # Files that state none for windows, by a null, mean the other one.
    stated = "local_rope_theta" in fields.data and fields.data["local_rope_theta"] is None
    local_base = _base(fields, _LOCAL, "local_rope_theta", base if stated else 10_000.0)
    return Rotations(base, local_base, fields.size("local_attention", 128) // 2, local)


def _base(fields: Fields, kind: str, older: str, usual: float) -> float:
    """Return a base of frequencies, from the newer form of config.json or the older one."""
    nested = fields.object("rope_parameters")
    return _plain_base(nested.object(kind) if kind else nested, fields.positive(older, usual))


def _plain_base(rope: Fields, usual: float) -> float:
    if (form := rope.text("rope_type", "default")) != "default":
        raise UnsupportedError(f"frequencies of the form {form[:40]!r} are not supported in an encoder")
    return rope.positive("rope_theta", usual)


def read_nomic(data: Mapping[str, Any]) -> BertSizes:
    """Read config.json of NomicBERT, its own or that of transformers.

    Raises BadFileError or UnsupportedError.
    """
    fields = Fields("config.json", data)
    check_unquantised(data)
    if data.get("moe_every_n_layers"):
        raise UnsupportedError("a NomicBERT model with experts is not supported")
    if label_count(fields):
        raise UnsupportedError("a NomicBERT model that sorts texts into classes is not supported")
    usual = {"rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "prenorm": False, "causal": False,
             "parallel_block": False, "use_rms_norm": False}  # fmt: skip
    for key, value in usual.items():
        if data.get(key) not in (None, value):
            raise UnsupportedError(f"a NomicBERT model with {key} {ascii(data[key])[:20]} is not supported")
    own = "n_embd" in data
    gate = fields.text("activation_function", "swiglu")
    if own and gate not in _GATES:
        raise UnsupportedError(f"the activation {gate[:40]!r} is not supported in a {NOMIC} model")
    positions = fields.size("n_positions" if own else "max_position_embeddings", 2048)
    return BertSizes(
        name=NOMIC,
        vocab=fields.size("vocab_size"),
        layers=fields.size("n_layer" if own else "num_hidden_layers", most=MOST_LAYERS),
        hidden=fields.size("n_embd" if own else "hidden_size"),
        heads=fields.size("n_head" if own else "num_attention_heads"),
        ffn=fields.size("n_inner" if own else "intermediate_size"),
        # Longer texts would need other frequencies than those that it was trained with.
        positions=min(positions, fields.size("max_trained_positions", 2048)),
        epsilon=fields.positive("layer_norm_epsilon" if own else "layer_norm_eps", 1e-12),
        activation=_GATES[gate] if own else activation_of(fields.text("hidden_act", "silu"), NOMIC),
        types=fields.size("type_vocab_size", 2),
        rotations=Rotations(_base(fields, "", "rotary_emb_base", 1000.0)),
        gated=True,
    )


def activation_of(name: str, kind: str) -> str:
    """Return the kernels' name of an activation. Raises UnsupportedError."""
    if name not in ACTIVATIONS:
        raise UnsupportedError(f"the activation {name[:40]!r} is not supported in a {kind} model")
    return ACTIVATIONS[name]


def ranking_ends(sizes: BertSizes, pooling: Pooling, activation: str, there: Collection[str]) -> Ends:
    """Return ModernBERT's ranking head; ``there``: names of the tensors that the model has."""
    first = Dense(
        "cls", sizes.hidden, sizes.hidden, "cls.bias" in there, activation,
        norm="cls.norm", norm_bias="cls.norm.bias" in there, epsilon=sizes.epsilon,
    )  # fmt: skip
    last = Dense("cls.output", 1, sizes.hidden, "cls.output.bias" in there, "sigmoid")
    return Ends(pooling, (first, last), normalised=False)


READERS: dict[str, Callable[[Mapping[str, Any]], BertSizes]] = {MODERN: read_modern, NOMIC: read_nomic}
"""Readers of config.json by model type."""
