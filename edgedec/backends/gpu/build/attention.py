"""TreeAttention: prepare and attend; and the rows that a kept path moves."""

from __future__ import annotations

from collections.abc import Iterator

from edgedec.backends.gpu.build.builder import FLOAT, Builder, BuildLimits
from edgedec.backends.gpu.program import ONCE, ROTARY, WORD, GridCount, KernelStep, cache_row_bytes
from edgedec.backends.onnx.graph import OpNode
from edgedec.core.cache_config import KvType
from edgedec.core.cache_kinds import Keys
from edgedec.core.errors import Remedy, UnsupportedError
from edgedec.core.model_spec import ModelSpec
from edgedec.memory import ring_keys, whole_keys

_HEADS = 4
"""Query heads of a workgroup, at most."""
_WORDS = 64
"""Words of a workgroup of copies."""
_SUFFIXES: dict[KvType, str] = {"fp16": "", "int8": "_int8"}
"""Ends of the names of kernels that read or write a KV cache."""


def cache_name(layer: int) -> str:
    """The buffer with keys and values of a layer. Layers with a window come after the others."""
    return f"@kv.{layer}"


def declare_cache(build: Builder) -> None:
    """Declare the KV cache, a buffer for each layer. Raises UnsupportedError where one cannot be bound."""
    limits = build.limits
    for name, keys in cached_layers(build.spec):
        slot = 2 * keys.kv_heads * cache_row_bytes(keys.head_dim, limits.kv)
        _check_bound(slot, limits)
        build.scratch(name, "slot", slot)


def cached_layers(spec: ModelSpec) -> Iterator[tuple[str, Keys]]:
    """Yield the buffer of each layer that keeps keys and values, and their kind; those with a window last."""
    kinds = (whole_keys(spec), *filter(None, (ring_keys(spec),)))
    layers = (keys for keys in kinds for _ in range(keys.layers))
    return ((cache_name(number), keys) for number, keys in enumerate(layers))


def _check_bound(slot: int, limits: BuildLimits) -> None:
    """Raise UnsupportedError where the slots of a layer cannot be bound at once."""
    if slot * limits.capacity > limits.binding:
        most = limits.binding // slot
        raise UnsupportedError(
            f"this GPU binds at most {limits.binding} bytes at once: a context of {most} tokens",
            hint="use a smaller context",
            remedy=Remedy("shorter_context"),
        )


def tree_attention(build: Builder, node: OpNode) -> None:
    """Build the attention of one layer."""
    heads, kv_heads, dim = (node.integer(name) for name in ("num_heads", "num_kv_heads", "head_dim"))
    limits = build.limits
    before = whole_keys(build.spec).layers if node.integer("ring") else 0
    cache = cache_name(before + node.integer("layer"))
    shape = {"HEADS": heads, "KV_HEADS": kv_heads, "DIM": dim, "CAPACITY": limits.capacity, "LAYER": 0}
    out = build.made(node.outputs[0], "token", heads * dim)
    queries = build.scratch(f"{out}.queries", "token", heads * dim * FLOAT)
    build.scratch("@paths", "token", (1 + limits.max_pass) * FLOAT)
    rotary = rotary_input(build, node.input(1))
    q_norm, k_norm, sinks = node.input(5), node.input(6), node.input(9)
    kind, shared = _SUFFIXES[limits.kv], bool(node.integer("shared"))
    build.step(
        f"tree_attention/prepare{kind}",
        {
            **shape,
            "SCALE": node.real("scale"),
            "EPSILON": node.real("epsilon", 1e-6),
            "INTERLEAVED": bool(node.integer("interleaved")),
            "Q_NORM": bool(q_norm),
            "K_NORM": bool(k_norm),
            "VALUE_NORM": bool(node.integer("value_norm")),
            "SHARED": shared,
        },
        (
            node.input(0),
            rotary,
            build.weight(q_norm) if q_norm else rotary,
            build.weight(k_norm) if k_norm else rotary,
            queries,
            cache,
        ),
        (GridCount("once", heads + (0 if shared else 2 * kv_heads)), GridCount("tokens")),
    )
    build.step(
        f"tree_attention/attend{kind}",
        {**shape, "WINDOW": node.integer("window"), "SOFTCAP": node.real("softcap"), "SINKS": bool(sinks)},
        (queries, "@paths", cache, build.weight(sinks) if sinks else queries, out),
        (GridCount("once", kv_heads * -(-heads // kv_heads // _HEADS)), GridCount("tokens")),
    )


def rotary_input(build: Builder, name: str) -> str:
    """Name the input that holds a RotaryTable's output, or this times a vector."""
    producers = {one.outputs[0]: one for one in build.graph.nodes}
    table, scale = producers[name], ""
    if table.op == "Mul":
        table, scale = producers[table.input(0)], table.input(1)
    frequencies = build.weight(table.input(1))
    if scale:
        build.rotary_scale[frequencies] = build.weight(scale)
    return build.scratch(f"{ROTARY}{frequencies}", "token", 2 * build.stored(frequencies).nbytes)


def settling(build: Builder) -> tuple[KernelStep, ...]:
    """Return the steps that keep a path of the last pass. They bind its tokens as ``@kept``."""
    build.scratch("@kept", "token", FLOAT)
    layers = [one for one in cached_layers(build.spec) if one[0] in build.buffers]
    return tuple(_copied_rows(build, name, keys) for name, keys in layers)


def _copied_rows(build: Builder, name: str, keys: Keys) -> KernelStep:
    words, planes = cache_row_bytes(keys.head_dim, build.limits.kv) // WORD, 2 * keys.kv_heads
    consts = {"PLANES": planes, "CAPACITY": build.limits.capacity, "ROW_WORDS": words}
    grid = (GridCount("once", planes * words, _WORDS), ONCE, ONCE)
    return KernelStep("tree_attention/copy_rows", consts, ("@kept", name), grid)
