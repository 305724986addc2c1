"""Export a GGUF file or a Hugging Face directory as a bundle, the directory that EdgeDec runs.

Importing this package is cheap: an exporter is imported at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from edgedec.export.huggingface.groups import QUANTS, ROLES
from edgedec.export.model_card import ModelCard
from edgedec.export.npu.plan import NpuPlan

if TYPE_CHECKING:
    from edgedec.export.directories import check_huggingface, export_huggingface
    from edgedec.export.exporter import export_gguf
    from edgedec.export.huggingface.exporter import huggingface_files
    from edgedec.export.huggingface.merged import WithAdapters
    from edgedec.export.npu.exporter import export_for_npu

__all__ = [
    "BACKENDS",
    "QUANTS",
    "ROLES",
    "TARGETS",
    "ModelCard",
    "NpuPlan",
    "WithAdapters",
    "check_huggingface",
    "export_for_npu",
    "export_gguf",
    "export_huggingface",
    "huggingface_files",
]

BACKENDS = ("edgedec", "llama.cpp")
"""Runtimes that a bundle of a GGUF file can be for."""
TARGETS = ("npu", "htp")
"""Devices other than the CPU that a bundle can be for: any NPU, or also compiled for Qualcomm's HTP."""
_HOMES = {
    "WithAdapters": "huggingface.merged",
    "check_huggingface": "directories",
    "export_for_npu": "npu.exporter",
    "export_gguf": "exporter",
    "export_huggingface": "directories",
    "huggingface_files": "huggingface.exporter",
}


def __getattr__(name: str) -> object:
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
