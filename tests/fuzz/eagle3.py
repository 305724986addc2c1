"""EAGLE-3 heads of other trainers: damaged configs, headers and GGUF files."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from edgedec.bundle.manifest import Manifest
from edgedec.core.model_spec import ModelSpec
from edgedec.export.draft_head.bundle import export_head
from edgedec.export.drafters.gguf import write_drafter_gguf
from edgedec.export.eagle3.files import open_head
from tests.fixtures.draft_heads import random_head
from tests.fixtures.tiny_models import tiny_bundle
from tests.fuzz.huggingface import _config, _safetensors
from tests.fuzz.mutate import mutate_bytes
from tests.fuzz.mutate_gguf import mutate_gguf
from tests.fuzz.target import Files

GGUF = "head.gguf"
_VOCAB, _HIDDEN = 300, 64
SPEC = ModelSpec("target", "llama", _VOCAB, 12, 4, 2, 16, _HIDDEN, 256)


def seeds(folder: Path) -> list[tuple[Files, Files]]:
    """A head with the names of each trainer, and a GGUF file."""
    return [(dict(files), {}) for files in _seeds(folder)]


@cache
def _seeds(folder: Path) -> tuple[Files, ...]:
    manifest = Manifest.load(bundle := tiny_bundle(folder))
    made = random_head(_HIDDEN, manifest.spec.vocab_size, ids=32)
    export_head(made, bundle, folder / "made")
    source = bundle.parent / "llama-0.gguf"
    write_drafter_gguf(folder / GGUF, folder / "made", manifest, source, name="head")
    return (*map(_directory, ("midlayer.", "layers.0.")), {GGUF: (folder / GGUF).read_bytes()})


def _directory(layer: str) -> Files:
    """A head as SpecForge or as speculators names its tensors."""
    made = random_head(_HIDDEN, _VOCAB, ids=24)
    tensors = {_name(field, layer): getattr(made, field) for field in made.shapes()}
    places = np.arange(made.keep.size, dtype=np.int64)
    tensors |= {"d2t": made.keep - places, "embed_tokens.weight": np.ones((_VOCAB, _HIDDEN), np.float16)}
    tensors |= {f"fc_norm.{at}.weight": np.ones(_HIDDEN, np.float32) for at in range(3)}
    own = {
        "num_attention_heads": made.heads,
        "num_key_value_heads": made.kv_heads,
        "head_dim": made.head_dim,
        "hidden_size": _HIDDEN,
        "intermediate_size": made.ffn,
        "vocab_size": _VOCAB,
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    }
    config = {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 24, **own}
    if layer != "midlayer.":
        config = {"speculators_model_type": "eagle3", "transformer_layer_config": own}
        config["eagle_aux_hidden_state_layer_ids"] = [2, 6, 9]
    return {"config.json": json.dumps(config).encode(), "model.safetensors": save(tensors)}


def _name(field: str, layer: str) -> str:
    """The name that ``field_of`` takes for a field."""
    within = {
        "norm_embed": "input_layernorm",
        "norm_state": "hidden_norm",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        **{f"attn_{one}": f"self_attn.{one}_proj" for one in "qkv"},
        **{f"ffn_{one}": f"mlp.{one}_proj" for one in ("gate", "up", "down")},
    }
    if field in within:
        return f"{layer}{within[field]}.weight"
    return {"output_norm": "norm", "head": "lm_head"}.get(field, field) + ".weight"


def mutate(files: Files, rng: random.Random) -> None:
    name = rng.choice(sorted(files))
    data = files[name]
    assert isinstance(data, bytes)
    if name == GGUF and rng.random() < 0.7:
        files[name] = mutate_gguf(data, rng)
    elif name == "config.json" and rng.random() < 0.6:
        files[name] = _config(data, rng)
    elif name.endswith(".safetensors") and rng.random() < 0.7:
        files[name] = _safetensors(data, rng)
    else:
        files[name] = mutate_bytes(data, rng)


def read(folder: Path) -> None:
    """It is a head that fits the target, or one line says why not."""
    with open_head(folder / GGUF if (folder / GGUF).exists() else folder, SPEC) as head:
        weights = head.weights
        assert weights.keep[-1] < SPEC.vocab_size
        assert len(weights.taps) == 3
        if weights.embedding is not None:
            weights.embedding.read(0, 1)
