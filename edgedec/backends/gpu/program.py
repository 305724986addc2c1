"""A program: plain data that says which kernels run over which buffers, for one model and size of KV cache.

Executors are thin: one in Python over wgpu, one in a browser. Both put the source of each step together (see
``shaders.source``), allocate what ``buffers`` says, and run the steps of a pass in order.

A pass is over T tokens, behind ``length`` resident ones; its head over R rows, at most ``max_rows`` at a
time. Steps whose ``when`` is not "always" run for the head: again for each further ``max_rows`` rows. Before
a pass the executor fills those of these buffers that a step binds:

- ``@tokens`` u32[T], ``@positions`` u32[T]
- ``@rotary.NAME`` f32[T][dim]: RotaryTable of the positions and the inline tensor NAME, by the host
- ``@paths`` u32[T][1 + T]: the number of a token's ancestors within the pass, then these and the token
  itself, ascending
- ``@steps`` u32[behind + T][12]: the steps of recurrent layers, see ``kernels/recurrent/list_steps.h``. The
  ``behind`` first are of resident tokens that states do not cover
- ``@rows`` u32[R]: indices of tokens

``@kv.L`` is the KV cache of a layer in the format ``kv``: [key, value][kv head][capacity] rows of whole u32
words, see ``cache_row_bytes``. Layers with a window come after the others; all have all slots.

``@trail.KIND.L`` f32[32][row] and ``@state.KIND.L`` are what a recurrent layer keeps, ``@checkpoint.KIND.L``
has room for the tail's rows and the state. See ``States``; no step binds a checkpoint.

``settling`` are the steps that keep a path of the last pass, which drafts need: ``@kept`` u32[tokens] has the
kept tokens, ``length`` is that of the pass, and slot length + kept[i] goes to slot length + i.

A program for drafting has ``layers``: places between its steps, behind some layers, whose rows a pass can
copy to the buffer ``kept_tap``, for all tokens of a draft. At an exit among them a pass may end, or begin
with those rows. Its head has steps for a trimmed one too, which bind ``TRIM_TILES`` and ``TRIM_IDS``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any, Literal, NamedTuple

from edgedec.backends.gpu.shaders import Const
from edgedec.core.cache_config import KvType
from edgedec.core.cache_kinds import TRAIL_SLOTS
from edgedec.core.quick_dataclass import dataclass
from edgedec.memory import kv_row_bytes

When = Literal["always", "rows", "whole", "kept"]
"""In every pass; where rows of the head are wanted; where they are of the whole head, or of a trimmed one."""
GridUnit = Literal["once", "tokens", "rows", "kept", "tiles", "steps"]
SizeUnit = Literal["once", "token", "row", "slot", "step"]

FORMAT = 1
WORD = 4
"""Bytes of what kernels read and write at once."""
ROTARY = "@rotary."
"""The beginning of the names of rotary tables."""
TRAIL, STATE, CHECKPOINT = "@trail.", "@state.", "@checkpoint."
"""The beginnings of the names of what recurrent layers keep; the kind and the layer follow."""
STEP_WORDS = 12
"""Words of a step in ``@steps``."""
TRIM_TILES, TRIM_IDS = "@trim.tiles", "@trim.ids"
"""Inputs for a trimmed head: see ``kernels/quant_linear/kept.wgsl``, and its ids u32[kept]."""


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """A tensor, or a part of one: bytes of ``weights.bin``. Executors place it at a multiple of 256 bytes."""

    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BufferSize:
    """``bytes`` for each token or row of the longest pass, or for each slot; "once" for all.

    "step": for each step of the longest pass. Buffers of one ``memory`` share it, since no two of them are
    needed at the same time; it is as large as the largest of them. Below 0 nothing is shared.
    """

    per: SizeUnit
    bytes: int
    memory: int = -1


class PassSizes(NamedTuple):
    """Numbers of a pass that grids count.

    ``kept``: ids of a trimmed head; ``tiles``: those that hold them. ``steps``: of recurrent layers.
    """

    tokens: int
    rows: int
    kept: int = 0
    tiles: int = 0
    steps: int = 0


@dataclass(frozen=True, slots=True)
class GridCount:
    """ceil(value * times / over) workgroups.

    The value is 1 or one of ``PassSizes``.
    """

    per: GridUnit
    times: int = 1
    over: int = 1

    def of(self, sizes: PassSizes) -> int:
        """Workgroups of a pass."""
        value = 1 if self.per == "once" else int(getattr(sizes, self.per))
        return -(-value * self.times // self.over)


ONCE = GridCount("once")
Grid = tuple[GridCount, GridCount, GridCount]


@dataclass(frozen=True, slots=True)
class KernelStep:
    """A kernel over buffers and tensors. ``tokens``: passes that it is for, from and to; None: all.

    ``kernel``: the file below ``kernels/``, without its suffix. ``bind``: names for bindings 1 and on.
    """

    kernel: str
    consts: Mapping[str, Const]
    bind: tuple[str, ...]
    grid: Grid
    tokens: tuple[int, int] | None = None
    when: When = "always"

    def runs(self, tokens: int) -> bool:
        """Whether a pass over so many tokens has this step."""
        return self.tokens is None or self.tokens[0] <= tokens <= self.tokens[1]


@dataclass(frozen=True, slots=True)
class HeadEnding:
    """The end of the head on the host, see ``kernels/head_topk/head_topk.h``. Names are those of buffers."""

    k: int
    vocabulary: int
    blocks: int
    refined: bool
    softcap: float
    results: Mapping[str, str]
    """Name of a result -> buffer that holds it, by row."""
    logits: str
    """Whole rows."""


@dataclass(frozen=True, slots=True)
class LayerEnd:
    """The place behind a layer, and behind the first ``steps`` steps. ``out``: the buffer with its rows."""

    layer: int
    steps: int
    out: str


@dataclass(frozen=True, slots=True)
class Program:
    """Everything that an executor needs beside the kernels and ``weights.bin``."""

    spec: Mapping[str, Any]
    capacity: int
    """Slots of the KV cache; the steps' constants hold it too."""
    max_pass: int
    max_rows: int
    head: HeadEnding | None
    """None: the program ends with ``hidden``."""
    tensors: Mapping[str, TensorPlace]
    inline: Mapping[str, str] = field(repr=False)
    """Small constants, in base64."""
    buffers: Mapping[str, BufferSize]
    steps: tuple[KernelStep, ...]
    settling: tuple[KernelStep, ...] = ()
    hidden: str = ""
    """The buffer with the tokens' rows behind the program's layers, where it has not all of the model's."""
    rotary_scale: Mapping[str, str] = field(default_factory=dict)
    """NAME of a rotary table -> the inline tensor f32[dim] that each of its rows is multiplied by."""
    kv: KvType = "fp16"
    """Format of the KV cache."""
    convolution: int = 0
    """Taps of the convolutions of recurrent layers; 0 without such layers."""
    layers: tuple[LayerEnd, ...] = ()
    """Ends of the layers that can be tapped, ascending. Empty: the program is not for drafting."""

    def behind(self, layers: int) -> LayerEnd:
        """Return the place behind so many layers."""
        return next(one for one in self.layers if one.layer == layers - 1)

    def buffer_bytes(self, name: str) -> int:
        """Bytes of one buffer by itself."""
        size = self.buffers[name]
        units = {
            "once": 1,
            "token": self.max_pass,
            "row": self.max_rows,
            "slot": self.capacity,
            "step": self.max_pass + TRAIL_SLOTS,
        }
        return units[size.per] * size.bytes

    def memories(self) -> dict[int, int]:
        """Bytes of each memory that buffers share."""
        found: dict[int, int] = {}
        for name, size in self.buffers.items():
            if size.memory >= 0:
                found[size.memory] = max(found.get(size.memory, 0), self.buffer_bytes(name))
        return found

    def scratch_bytes(self) -> int:
        """Bytes of all buffers but the KV cache."""
        own = (self.buffer_bytes(name) for name, one in self.buffers.items() if one.memory < 0)
        return sum(own) - self.cache_bytes() - self.state_bytes() + sum(self.memories().values())

    def weight_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(place.bytes for place in self.tensors.values())

    def cache_bytes(self) -> int:
        """Bytes of the KV cache."""
        return sum(self.buffer_bytes(name) for name in self.buffers if is_cache(name))

    def state_bytes(self) -> int:
        """Bytes that recurrent layers keep, with their checkpoint."""
        return sum(self.buffer_bytes(name) for name in self.buffers if is_state(name))

    def inputs(self) -> tuple[str, ...]:
        """Buffers that the executor fills before a pass."""
        kept = (name for name in self.buffers if name.startswith("@") and not is_cache(name))
        return tuple(name for name in kept if not is_state(name))

    def to_json(self) -> str:
        """The program as one line of JSON; the steps' constants are as they are put into shaders."""
        return json.dumps({"format": FORMAT, **asdict(self)}, separators=(",", ":"))


def kept_tap(layer: int) -> str:
    """The buffer with a layer's rows of all tokens of a draft."""
    return f"drafting.tap.{layer}"


def is_cache(name: str) -> bool:
    """Whether a buffer is a part of the KV cache."""
    return name.startswith("@kv.")


def is_state(name: str) -> bool:
    """Whether a buffer is a part of what recurrent layers keep."""
    return name.startswith((TRAIL, STATE, CHECKPOINT))


def cache_row_bytes(head_dim: int, kv: KvType) -> int:
    """Bytes of a row of the KV cache: that of ``kv_row_bytes``, padded to whole words."""
    return -(-kv_row_bytes(head_dim, kv) // WORD) * WORD
