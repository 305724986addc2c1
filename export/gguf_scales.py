"""Scales that NVFP4 matrices of a GGUF file have in tensors of their own: one each, or one of each expert.

Converters write them as ``NAME.scale``, some as ``NAME.weight.scale``. The scale of inputs beside it is for
hardware that multiplies in four bits; ours quantises inputs by what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError
from edgedec.export.gguf_header import TensorInfo

_ROUTER_FACTORS = {"gemma4": "ffn_down_exps"}
"""Architectures that have factors of experts under the same name, which their own op multiplies."""
_LARGEST = np.float32(240 * 12)
"""The largest weight without such a scale."""


def with_scales(
    tensors: Mapping[str, TensorInfo],
    read: Callable[[TensorInfo], NDArray[np.float32]],
    architecture: object,
) -> dict[str, TensorInfo]:
    """Return tensors without those of scales, which become part of the tensors that they belong to.

    ``read`` returns the numbers of a small tensor. Raises BadFileError for scales that do not fit.
    """
    found, left = dict(tensors), set[str]()
    factors = _ROUTER_FACTORS.get(architecture) if isinstance(architecture, str) else None
    for tensor in tensors.values():
        if tensor.type != GGMLQuantizationType.NVFP4:
            continue
        stem = tensor.name.removesuffix(".weight")
        names = [f"{stem}.scale", f"{tensor.name}.scale"]
        left |= {name.replace(".scale", ".input_scale") for name in names}
        for name in names:
            if name in tensors and not (factors and stem.endswith(factors)):
                left.add(name)
                found[tensor.name] = replace(tensor, scales=_scales(tensor, tensors[name], read))
    return {name: tensor for name, tensor in found.items() if name not in left}


def _scales(
    tensor: TensorInfo, stated: TensorInfo, read: Callable[[TensorInfo], NDArray[np.float32]]
) -> tuple[float, ...]:
    experts = tensor.shape[0] if len(tensor.shape) > 2 else 1
    if stated.shape not in ((1,), (experts,)):
        raise BadFileError(f"tensor {stated.name[:60]} has shape {list(stated.shape)}, not [{experts}]")
    values = read(stated)
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(values * _LARGEST).all():
            raise BadFileError(f"tensor {stated.name[:60]} holds scales that are not finite, or too large")
    return tuple(values.tolist())
