"""Weights on a GPU: tensors in a few large buffers, written from the file in pieces."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from edgedec.backends.gpu.device import ALIGNMENT, GpuDevice, Slice
from edgedec.backends.gpu.program import Program, TensorPlace
from edgedec.bundle.manifest import WEIGHTS
from edgedec.core.errors import BadFileError
from edgedec.core.progress import Progress, silent

_ARENA_BYTES = 1 << 30
_PIECE_BYTES = 8 << 20
_PIECES_AT_ONCE = 4
"""Pieces that may wait for the GPU: the driver holds a copy of each."""


class GpuWeights:
    """The tensors of a program on ``device``. Raises BackendError where they do not fit."""

    def __init__(self, device: GpuDevice, program: Program) -> None:
        self._device = device
        self._program = program
        self._arenas: list[Any] = []
        self.parts: dict[str, Slice] = {}
        """Name of a tensor -> its place on the device."""
        sizes = {name: place.bytes for name, place in program.tensors.items()}
        sizes |= {name: len(base64.b64decode(text)) for name, text in program.inline.items()}
        self._allocate(sizes)

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return sum(arena.size for arena in self._arenas)

    def load(self, bundle: Path, progress: Progress = silent) -> None:
        """Write all tensors from ``weights.bin``. Raises BadFileError, BackendError, DeviceLostError."""
        for name, text in self._program.inline.items():
            self._device.write(self.parts[name].buffer, base64.b64decode(text), self.parts[name].offset)
        total, done, waiting = self._program.weight_bytes(), 0, 0
        try:
            with (bundle / WEIGHTS).open("rb", buffering=0) as file:
                for name, place in self._program.tensors.items():
                    for offset, piece in _pieces(file, place):
                        part = self.parts[name]
                        self._device.write(part.buffer, piece, part.offset + offset)
                        done, waiting = done + len(piece), waiting + 1
                        if waiting >= _PIECES_AT_ONCE or len(piece) < _PIECE_BYTES:
                            self._device.run([])
                            self._device.wait()
                            waiting = 0
                        progress("weights", done, total)
        except OSError as error:
            raise BadFileError(f"{WEIGHTS} of the bundle cannot be read ({error.strerror})") from error

    def _allocate(self, sizes: dict[str, int]) -> None:
        most = min(self._device.limits["max-buffer-size"], _ARENA_BYTES)
        arenas: list[list[str]] = [[]]
        offset = 0
        places: dict[str, tuple[int, int]] = {}
        for name, nbytes in sizes.items():
            if offset and offset + nbytes > most:
                arenas.append([])
                offset = 0
            arenas[-1].append(name)
            places[name] = (len(arenas) - 1, offset)
            offset += -(-nbytes // ALIGNMENT) * ALIGNMENT
        for number, names in enumerate(arenas):
            nbytes = max((places[name][1] + sizes[name] for name in names), default=0)
            self._arenas.append(self._device.buffer(-(-nbytes // 4) * 4, f"weights {number}"))
        for name, (number, offset) in places.items():
            self.parts[name] = Slice(self._arenas[number], offset, sizes[name])


def _pieces(file: Any, place: TensorPlace) -> Any:
    """(offset within the tensor, bytes), each of a multiple of four bytes but the last."""
    file.seek(place.offset)
    at = 0
    while at < place.bytes:
        piece = file.read(min(_PIECE_BYTES, place.bytes - at))
        if not piece:
            raise BadFileError(f"{WEIGHTS} of the bundle is cut short", hint="pull or export the model again")
        yield at, piece
        at += len(piece)
