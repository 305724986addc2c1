"""Tensors of the layers that predict further tokens, which the graph of a model leaves out.

A GGUF file has them behind the layers of the model: ``blk.N.nextn.*``, and those of a layer of attention.
"""

from __future__ import annotations

from collections.abc import Iterable

from edgedec.export.hyperparameters import Hyperparameters

NEEDED = "nextn.eh_proj.weight"
"""The end of the name of a tensor that every such layer has."""


def nextn_tensors(hyper: Hyperparameters, names: Iterable[str]) -> list[str]:
    """Return those of ``names`` that belong to layers for further tokens, by their names in a GGUF file."""
    blocks = {str(layer) for layer in range(hyper.layers, hyper.layers + hyper.nextn)}
    return sorted(name for name in names if name.startswith("blk.") and name.split(".")[1] in blocks)
