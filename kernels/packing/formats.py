"""Weight formats: the GGUF tensor types that have kernels, and the sizes of their packed records."""

from __future__ import annotations

from edgedec.core.quick_dataclass import dataclass

TILE = 16
"""Output columns of a tile."""
GROUP = 32
"""Inputs of a group."""
IQ4_NL_VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
MXFP4_VALUES = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""Twice the values of the OCP specification; scales are halved to match, as in ggml."""
_IQ3X = (4, 12, 20, 28, 36, 44, 52, 62)
_IQ3S = (1, 3, 5, 7, 9, 11, 13, 15)
IQ3X_VALUES = (*_IQ3X, *(-value for value in _IQ3X))
IQ3S_VALUES = (*_IQ3S, *(-value for value in _IQ3S))
IQ2_VALUES = (8, 25, 43, 0, -8, -25, -43, 0)
IQ1_VALUES = (-7, 1, 9, 0, -9, -1, 7, 0)
"""Eight times a ternary value and the shift of its block, 1/8 or -1/8."""


@dataclass(frozen=True, slots=True)
class Format:
    """One weight format. Sizes are in elements unless the name says bytes.

    A weight is scale * (quant - offset), plus min where ``has_min``; or scale * values[quant].
    Codebooks of GGUF files have few values, so a weight of theirs is kept as a sign and an index of a size.
    The scale of nvfp4 is that of a matrix, in 32 bits, times that of 16 inputs, in 8 bits.
    """

    name: str
    record: int
    record_bytes: int
    bits: int
    offset: int
    has_min: bool
    block: int
    """Inputs of a GGUF block."""
    block_bytes: int
    values: tuple[int, ...] = ()
    """The value of each quant, in formats whose quants are indices."""
    unit: float = 1.0
    """A power of two that multiplies fp16 scales, and the 8-bit ones of nvfp4."""
    recoded: bool = False
    """Whether blocks are ours, made of those of a GGUF file by ``recode``."""

    @property
    def is_float(self) -> bool:
        """Whether weights are floats of ``bits`` bits, without scales."""
        return self.block == 1

    @property
    def pairs(self) -> int:
        """Pairs of groups in a record."""
        return self.record // (2 * GROUP)

    def records(self, cols: int) -> int:
        """Records of a tile with ``cols`` inputs."""
        return -(-cols // self.record)

    def row_bytes(self, cols: int) -> int:
        """Bytes of one row of ``cols`` inputs; the last block of ours may have more of them."""
        return -(-cols // self.block) * self.block_bytes

    def packed_shape(self, rows: int, cols: int) -> tuple[int, int]:
        """Shape (tiles, bytes per tile) of a packed [rows, cols] matrix."""
        return -(-rows // TILE), self.records(cols) * self.record_bytes


FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        Format("q4_0", 64, 576, 4, 8, False, 32, 18),
        Format("q4_1", 64, 640, 4, 0, True, 32, 20),
        Format("q5_0", 64, 704, 5, 16, False, 32, 22),
        Format("q5_1", 64, 768, 5, 0, True, 32, 24),
        Format("q8_0", 64, 1088, 8, 128, False, 32, 34),
        Format("q4_k", 256, 2304, 4, 0, True, 256, 144),
        Format("q5_k", 256, 2816, 5, 0, True, 256, 176),
        Format("q6_k", 256, 3360, 6, 32, False, 256, 210),
        Format("q2_k", 256, 1344, 2, 0, True, 256, 84),
        Format("q3_k", 256, 1760, 3, 4, False, 256, 110),
        Format("iq4_nl", 64, 576, 4, 0, False, 32, 18, IQ4_NL_VALUES),
        Format("mxfp4", 64, 544, 4, 0, False, 32, 17, MXFP4_VALUES),
        Format("tq2_0", 256, 1056, 2, 1, False, 256, 66),
        Format("iq4", 256, 2208, 4, 0, False, 256, 138, IQ4_NL_VALUES, recoded=True),
        Format("iq3x", 256, 2208, 4, 0, False, 256, 138, IQ3X_VALUES, 0.25, recoded=True),
        Format("iq3s", 256, 2208, 4, 0, False, 256, 138, IQ3S_VALUES, recoded=True),
        Format("iq2", 256, 1696, 3, 0, False, 256, 106, IQ2_VALUES, 0.125, recoded=True),
        Format("iq1", 256, 1696, 3, 0, False, 256, 106, IQ1_VALUES, 0.125, recoded=True),
        Format("nvfp4", 256, 2368, 4, 0, False, 256, 148, MXFP4_VALUES, 128.0, recoded=True),
        Format("f16", 1, 32, 16, 0, False, 1, 2),
        Format("bf16", 1, 32, 16, 0, False, 1, 2),
        Format("f32", 1, 64, 32, 0, False, 1, 4),
    )
}
