"""Reads weights of a Hugging Face model directory and quantises them, a few rows at a time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

from edgedec.core.errors import UnsupportedError
from edgedec.export.calibration.search import quantise
from edgedec.export.gguf_header import TensorInfo
from edgedec.export.huggingface.config import Config
from edgedec.export.huggingface.conversion import PLAIN, Conversion, role
from edgedec.export.huggingface.gptoss import ExpertsOfGptOss, Mxfp4Tensor, gptoss_experts
from edgedec.export.huggingface.groups import format_of
from edgedec.export.huggingface.names import expert_of, gguf_name, huggingface_name
from edgedec.export.huggingface.shards import StoredTensor
from edgedec.export.huggingface.stacked import EXPERTS, StackedTensor, of_many, of_one
from edgedec.kernels.packing.formats import FORMATS

_LARGEST = 65504.0
"""Bounds of fp16, the type of the scales of groups."""
_ROUTERS = ("ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight")
"""Matrices that choose experts. They keep their type, as in GGUF files: an error there chooses others."""
_Stored = StoredTensor | StackedTensor | ExpertsOfGptOss
_PLAIN_NORMS = ("ssm_norm.weight",)
"""Norms whose weights are stored as they are, in models that add 1 to others."""


class HuggingFaceSource:
    """Implements ``WeightSource``.

    - ``stored`` are the tensors of the files, by their own names.
    - ``formats`` has the format of each role.
    - ``importance`` maps the name of a matrix to the mean squares f64[K] of its inputs; it may be set later.
    """

    title = "the model"

    def __init__(
        self, directory: Path, config: Config, stored: Mapping[str, StoredTensor], formats: Mapping[str, str]
    ) -> None:
        self.path, self._config = directory, config
        self._stored: dict[str, _Stored] = {}
        self.importance: Mapping[str, NDArray[np.float64]] = {}
        self.tensors: dict[str, TensorInfo] = {}
        self.left_out = 0
        """Tensors that belong to pictures."""
        experts: dict[str, dict[int, StoredTensor]] = {}
        if config.architecture.name == "gpt-oss":
            stored, own = gptoss_experts(stored)
            for ours, mixture in own.items():
                self._add(ours, mixture, formats)
        for name, tensor in stored.items():
            ours = gguf_name(config.architecture, name, config.layers)
            if name.startswith(config.left_out):
                self.left_out += 1
                continue
            if (config.tied and ours == "output.weight") or name.endswith(".rotary_emb.inv_freq"):
                continue  # transformers ignores these tensors too
            expert = expert_of(name) if ours.endswith(EXPERTS) else None
            if expert is None:
                self._add(ours, tensor, formats)
            else:
                experts.setdefault(ours, {})[expert] = tensor
        for ours, found in experts.items():
            self._add(ours, of_many(self.spelling(ours), found), formats)
        for name, values in config.computed.items():
            kind_f32 = GGMLQuantizationType.F32
            self.tensors[name] = TensorInfo(name, kind_f32, values.shape, 0, int(values.nbytes))

    def _add(self, ours: str, stored: _Stored, formats: Mapping[str, str]) -> None:
        """Add a tensor by its GGUF name."""
        if ours in self._stored:
            raise UnsupportedError(f"tensor {stored.name[:80]} stands beside another one with its meaning")
        if isinstance(stored, StoredTensor) and ours.endswith(EXPERTS) and len(stored.shape) == 3:
            stored = of_one(stored)
        way = self._conversion(ours)
        kind = "f32"
        if isinstance(stored, StoredTensor) and ours.endswith(_ROUTERS):
            kind = stored.dtype.lower()
        elif isinstance(stored, ExpertsOfGptOss):
            kind = stored.format or format_of(ours, formats)
        elif isinstance(stored, StackedTensor) or (len(stored.shape) == 2 and not way.squeezed):
            kind = format_of(ours, formats)
        kind = kind if kind in FORMATS else "f32"  # reading another type is an error that names it
        self._stored[ours] = stored
        self.tensors[ours] = _info(ours, stored, way.shape(stored.shape), kind)

    def set_formats(self, formats: Mapping[str, str]) -> None:
        """Give matrices other formats, by their names."""
        for name, format in formats.items():
            self.tensors[name] = TensorInfo.unwritten(name, self.tensors[name].shape, format)

    def spelling(self, name: str) -> str:
        return huggingface_name(self._config.architecture, name)

    def rows(self, tensor: TensorInfo, start: int, stop: int) -> NDArray[np.uint8]:
        """See ``WeightSource``. Values that the format can represent with fp16 scales are kept exactly."""
        if isinstance(kept := self._stored[tensor.name], Mxfp4Tensor):
            return kept.blocks(start, stop)
        values = self.floats(tensor, start, stop)
        if tensor.format not in ("bf16", "f32") and np.abs(values).max(initial=0) > _LARGEST:
            name = self._stored[tensor.name].name[:80]
            raise UnsupportedError(f"tensor {name} holds values above {_LARGEST:.0f}", hint="choose bf16")
        return quantise(values, tensor.format, self.importance.get(tensor.name))

    def floats(self, tensor: TensorInfo, start: int, stop: int) -> NDArray[np.float32]:
        """Return rows of a matrix before quantising: f32[stop - start, K]. Raises the errors of ``rows``."""
        return self._conversion(tensor.name).read(self._stored[tensor.name].read, start, stop)

    def vector(self, tensor: TensorInfo) -> NDArray[np.float32]:
        """Return a vector, see ``WeightSource``; 1 is added to Gemma's norm weights, as in a GGUF file."""
        if tensor.name in self._config.computed:
            return self._config.computed[tensor.name]
        values = self.floats(tensor, 0, tensor.shape[0])
        norm = tensor.name.endswith("norm.weight") and role(tensor.name) not in _PLAIN_NORMS
        return values + np.float32(self._config.norm_offset) if norm else values

    def _conversion(self, name: str) -> Conversion:
        return self._config.conversions.get(role(name), PLAIN)


def _info(name: str, stored: _Stored, shape: tuple[int, ...], kind: str) -> TensorInfo:
    block, _ = GGML_QUANT_SIZES[GGMLQuantizationType[kind.upper()]]
    if shape and shape[-1] % block:
        raise UnsupportedError(
            f"tensor {stored.name[:80]} has rows of {shape[-1]}, which is not a multiple of {block}"
        )
    return TensorInfo.unwritten(name, shape, kind)
