"""Llama 3.2, by Meta."""

from __future__ import annotations

from dataclasses import replace

from edgedec.core.model_spec import ModelSpec
from edgedec.core.preset import Preset
from edgedec.models.catalogue.entry import Entry, on_hub
from edgedec.models.recipes import HubFile, Licence

_LICENCE = Licence(
    "Llama 3.2 Community License",
    "https://www.llama.com/llama3_2/license",
    "by downloading and using it you accept this licence and the acceptable-use policy it names",
)
_SPEC = ModelSpec(
    name="llama3.2-1b",
    architecture="llama",
    vocab_size=128_256,
    n_layers=16,
    n_heads=32,
    n_kv_heads=8,
    head_dim=64,
    hidden_size=2048,
    context_length=131_072,
    ffn_size=8192,
)
_PRESET = Preset(temperature=0.6, top_k=50, top_p=0.9)

LLAMA3 = (
    Entry(
        on_hub(
            name="llama3.2-1b",
            title="Llama 3.2 1B Instruct, Q4_K_M",
            bytes=808_000_000,
            licence=_LICENCE,
            hub=HubFile("bartowski/Llama-3.2-1B-Instruct-GGUF", quant="Q4_K_M"),
            preset=_PRESET,
        ),
        _SPEC,
        parameters=1_236_000_000,
        vocabulary="llama3",
        good_for="chat, summaries and rewriting; drafts for its larger sister",
        tested="twin",
    ),
    Entry(
        on_hub(
            name="llama3.2-3b",
            title="Llama 3.2 3B Instruct, Q4_K_M",
            bytes=2_019_000_000,
            licence=_LICENCE,
            hub=HubFile("bartowski/Llama-3.2-3B-Instruct-GGUF", quant="Q4_K_M"),
            preset=_PRESET,
        ),
        replace(_SPEC, name="llama3.2-3b", n_layers=28, n_heads=24, head_dim=128, hidden_size=3072),
        parameters=3_213_000_000,
        vocabulary="llama3",
        good_for="chat, summaries and long texts",
        tested="twin",
        drafter="llama3.2-1b",
    ),
)
