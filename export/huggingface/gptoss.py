"""The experts of gpt-oss in a model directory: gate and up row by row in one tensor, in MXFP4 or as floats.

MXFP4 is as its maker publishes it. Floats are what transformers saves: matrices that lie on their sides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from gguf import GGMLQuantizationType, quants
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.huggingface.shards import StoredTensor
from edgedec.kernels.packing.formats import GROUP

_EXPERTS = re.compile(
    r"model\.layers\.(\d{1,9})\.mlp\.experts\.(gate_up_proj|down_proj)(_blocks|_scales|_bias|)"
)
_HALF = GROUP // 2
_NO_NUMBER = 255
"""Exponent of MXFP4 that stands for NaN."""
MXFP4 = "mxfp4"


@dataclass(frozen=True, slots=True)
class SidewaysTensor:
    """Matrices [experts, rows, columns] of a tensor [experts, columns, all rows]: every ``step``-th row."""

    stored: StoredTensor
    first: int
    step: int
    format = ""

    @property
    def name(self) -> str:
        return self.stored.name

    @property
    def shape(self) -> tuple[int, ...]:
        experts, columns, rows = self.stored.shape
        return experts, rows // self.step, columns

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return rows ``start`` to ``stop``, counted through all experts; raises as ``StoredTensor.read``."""
        _, height, columns = self.shape
        flat = replace(self.stored, shape=(self.stored.shape[0] * columns, self.stored.shape[2]))
        found = []
        for expert in range(start // height, -(-stop // height)):
            whole = flat.read(expert * columns, (expert + 1) * columns)[:, self.first :: self.step]
            rows = slice(max(start - expert * height, 0), stop - expert * height)
            found.append(np.ascontiguousarray(whole[:, rows].T))
        return np.concatenate(found)


@dataclass(frozen=True, slots=True)
class Mxfp4Tensor:
    """Matrices [experts, rows, columns] in MXFP4: every ``step``-th row of ``values`` and ``scales``.

    - values: u8[experts, all rows, columns / 32, 16], the number 2i in the low half of byte i.
    - scales: u8[experts, all rows, columns / 32].
    """

    values: StoredTensor
    scales: StoredTensor
    first: int
    step: int
    format = MXFP4

    @property
    def name(self) -> str:
        return self.values.name

    @property
    def shape(self) -> tuple[int, ...]:
        experts, rows, groups, _ = self.values.shape
        return experts, rows // self.step, GROUP * groups

    def blocks(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Return rows ``start`` to ``stop``, counted through all experts, as blocks of a GGUF file.

        Raises BadFileError for a file that ends early or has a scale that is no number.
        """
        first, last = start * self.step, stop * self.step
        values, scales = (
            _rows(stored).read_bytes(first, last)[self.first :: self.step]
            for stored in (self.values, self.scales)
        )
        if (scales == _NO_NUMBER).any():
            raise BadFileError(f"tensor {self.scales.name[:80]} holds values that are not finite")
        numbers = np.stack([values & 15, values >> 4], axis=-1).reshape(*values.shape[:-1], GROUP)
        halves = numbers[..., :_HALF] | (numbers[..., _HALF:] << 4)
        return np.concatenate([scales[..., None], halves], axis=-1).reshape(stop - start, -1)

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return rows as floats; see ``blocks``."""
        found: NDArray[np.float32] = quants.dequantize(self.blocks(start, stop), GGMLQuantizationType.MXFP4)
        return found


@dataclass(frozen=True, slots=True)
class EveryOther:
    """Biases [experts, rows]: every ``step``-th column of a tensor."""

    stored: StoredTensor
    first: int
    step: int
    format = "f32"

    @property
    def name(self) -> str:
        return self.stored.name

    @property
    def shape(self) -> tuple[int, ...]:
        experts, rows = self.stored.shape
        return experts, rows // self.step

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return the biases of experts ``start`` to ``stop``; raises as ``StoredTensor.read``."""
        return np.ascontiguousarray(self.stored.read(start, stop)[:, self.first :: self.step])


ExpertsOfGptOss = SidewaysTensor | Mxfp4Tensor | EveryOther


def gptoss_experts(
    stored: Mapping[str, StoredTensor],
) -> tuple[dict[str, StoredTensor], dict[str, ExpertsOfGptOss]]:
    """Return the tensors that are of no expert, by their own names, and the others by those of a GGUF file.

    Raises BadFileError where values or scales lack, UnsupportedError for tensors of other shapes.
    """
    others: dict[str, StoredTensor] = {}
    found: dict[tuple[str, str], dict[str, StoredTensor]] = {}
    for name, tensor in stored.items():
        if match := _EXPERTS.fullmatch(name):
            found.setdefault((match[1], match[2]), {})[match[3]] = tensor
        else:
            others[name] = tensor
    made: dict[str, ExpertsOfGptOss] = {}
    for (layer, part), kinds in found.items():
        for at, ours in enumerate(names := ("gate", "up") if part == "gate_up_proj" else ("down",)):
            where = f"blk.{int(layer)}.ffn_{ours}_exps"
            made[f"{where}.weight"] = _matrices(kinds, at, len(names))
            if "_bias" in kinds:
                _check(kinds["_bias"], 2, 1, len(names))
                made[f"{where}.bias"] = EveryOther(kinds["_bias"], at, len(names))
    return others, made


def _matrices(kinds: Mapping[str, StoredTensor], first: int, step: int) -> SidewaysTensor | Mxfp4Tensor:
    """Return the matrices of a part of all experts of a layer, of the kinds of tensors that a model has."""
    if "" in kinds:
        _check(kinds[""], 3, 2, step)
        return SidewaysTensor(kinds[""], first, step)
    if not {"_blocks", "_scales"} <= kinds.keys():
        some = next(iter(kinds.values())).name
        raise BadFileError(f"tensor {some[:80]} stands without its _blocks and _scales")
    values, scales = kinds["_blocks"], kinds["_scales"]
    _check(values, 4, 1, step)
    if values.shape[3] != _HALF or scales.shape != values.shape[:3] or {values.dtype, scales.dtype} != {"U8"}:
        raise UnsupportedError(f"the tensors {values.name[:80]} and {scales.name[-40:]} are not MXFP4")
    return Mxfp4Tensor(values, scales, first, step)


def _check(tensor: StoredTensor, axes: int, rows: int, step: int) -> None:
    if len(tensor.shape) != axes or tensor.shape[rows] % step or 0 in tensor.shape:
        raise UnsupportedError(
            f"tensor {tensor.name[:80]} has the shape {list(tensor.shape)}, which is no mixture"
        )


def _rows(stored: StoredTensor) -> StoredTensor:
    """Return a tensor of experts as one of their rows."""
    return replace(stored, shape=(stored.shape[0] * stored.shape[1], *stored.shape[2:]))
