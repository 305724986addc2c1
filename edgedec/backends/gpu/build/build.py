"""Builds the program of a model: each op of ``model.onnx`` becomes steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, replace

from edgedec.backends.gpu.build.attention import declare_cache, settling, tree_attention
from edgedec.backends.gpu.build.builder import FLOAT, Builder, BuildLimits
from edgedec.backends.gpu.build.embedding import quant_embedding
from edgedec.backends.gpu.build.experts import experts
from edgedec.backends.gpu.build.head import head_topk
from edgedec.backends.gpu.build.linear import gated_mlp, quant_linear
from edgedec.backends.gpu.build.memory import share_memory
from edgedec.backends.gpu.build.recurrent import declare_states, gated_delta, moving_trails, short_conv
from edgedec.backends.gpu.build.rows import gated_product, gather, rms_norm, scale
from edgedec.backends.gpu.build.views import Views
from edgedec.backends.gpu.program import HeadEnding, LayerEnd, Program, is_cache, kept_tap
from edgedec.backends.onnx.graph import OpGraph, OpNode
from edgedec.bundle.exits import out
from edgedec.core.cache_config import KvType
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.model_spec import ModelSpec

KV_KINDS: tuple[KvType, ...] = ("fp16", "int8")
"""Formats of a KV cache that kernels read and write, the default first."""

_OPS: dict[str, Callable[[Builder, OpNode], None]] = {
    "QuantEmbedding": quant_embedding,
    "RMSNorm": rms_norm,
    "QuantLinear": quant_linear,
    "GatedMLP": gated_mlp,
    "Experts": experts,
    "GatedProduct": gated_product,
    "TreeAttention": tree_attention,
    "GatedDelta": gated_delta,
    "ShortConv": short_conv,
    "Gather": gather,
    "Mul": scale,
}
_HOST = ("RotaryTable", "Concat")
"""Ops without steps: the host computes tables, and nothing reads all rows of the cache at once."""
_HEAD = "HeadTopK"


def check_bundle(graph: OpGraph, spec: ModelSpec, limits: BuildLimits) -> None:
    """Check that GPUs have kernels for all that a bundle needs: its ops, and the kinds of its caches.

    Raises UnsupportedError.
    """
    why = ""
    views = Views.of(graph.nodes)
    missing = next((node.op for node in views.nodes if not _runs(node, views.columns)), None)
    if missing is not None:
        why = f"the op {missing:.40} has"
    elif limits.kv not in KV_KINDS:
        why = f"a KV cache in {limits.kv} has"
    if why:
        raise UnsupportedError(f"{why} no kernel for GPUs", hint="run the model on the CPU")


def _runs(node: OpNode, columns: Collection[str]) -> bool:
    """Whether there is a kernel for an op and its inputs: one alone reads parts of rows."""
    known = node.op in (*_OPS, *_HOST, _HEAD)
    return known and (node.op == "GatedProduct" or not any(name in columns for name in node.inputs))


def build_program(graph: OpGraph, spec: ModelSpec, limits: BuildLimits) -> Program:
    """Build the program of ``graph``.

    Raises UnsupportedError for an op without kernels and sizes beyond ``limits``, BadFileError for a graph
    that is none of a bundle's.
    """
    check_bundle(graph, spec, limits)
    views = Views.of(graph.nodes)
    build = Builder(graph, spec, limits, columns=views.columns)
    declare_cache(build)
    declare_states(build)
    head = _steps(build, views.nodes)
    if head is None:
        raise BadFileError("the graph of the bundle has no head")
    moves = (*settling(build), *moving_trails(build))
    _declare_drafting(build)
    program = replace(_program(build, head), layers=tuple(build.layers))
    kept = frozenset((*head.results.values(), head.logits))
    buffers = share_memory(build.buffers, build.steps, program.buffer_bytes, kept)
    return replace(program, buffers=buffers, settling=moves)


def build_lower(graph: OpGraph, spec: ModelSpec, limits: BuildLimits, layers: int) -> Program:
    """Build the program of the first ``layers`` layers, which ends with their output.

    Raises as ``build_program``, and BadFileError where there are fewer.
    """
    last = out(layers - 1)
    ends = [at for at, node in enumerate(graph.nodes) if last in node.outputs]
    if not ends:
        raise BadFileError(f"the graph of the bundle has no layer {layers}")
    check_bundle(graph, spec, limits)
    build = Builder(graph, spec, limits)
    declare_cache(build)
    _steps(build, graph.nodes[: ends[0] + 1])
    bound = {name for step in build.steps for name in step.bind}
    for name in [name for name in build.buffers if is_cache(name) and name not in bound]:
        del build.buffers[name]
    moves = settling(build)
    program = _program(build, None)
    buffers = share_memory(build.buffers, build.steps, program.buffer_bytes, frozenset((last,)))
    return replace(program, buffers=buffers, settling=moves, hidden=last)


def _steps(build: Builder, nodes: Iterable[OpNode]) -> HeadEnding | None:
    head: HeadEnding | None = None
    ends = {out(layer): layer for layer in build.limits.drafting.taps}
    for node in nodes:
        if node.op == _HEAD:
            head = head_topk(build, node)
        elif node.op in _OPS:
            _OPS[node.op](build, node)
        for name in node.outputs:
            if name in ends:
                build.layers.append(LayerEnd(ends[name], len(build.steps), name))
    return head


def _declare_drafting(build: Builder) -> None:
    """Declare the buffers for rows of drafts.

    Raises BadFileError for a graph whose layers hand on more than one value at an exit, or have other names.
    """
    if tuple(one.layer for one in build.layers) != build.limits.drafting.taps or _leaks(build):
        raise BadFileError("the graph of the bundle is not made of layers that a draft can end after")
    for one in build.layers:
        build.scratch(kept_tap(one.layer), "token", build.spec.hidden_size * FLOAT)


def _leaks(build: Builder) -> bool:
    """Whether a value from below an exit is read above it, beside the rows of the layer before it."""
    for end in (one for one in build.layers if one.layer + 1 in build.limits.drafting.exits):
        made = {name for step in build.steps[: end.steps] for name in step.bind if name in build.levels}
        if any(made.intersection(step.bind) - {end.out} for step in build.steps[end.steps :]):
            return True
    return False


def _program(build: Builder, head: HeadEnding | None) -> Program:
    limits = build.limits
    spec = {name: list(one) if isinstance(one, tuple) else one for name, one in asdict(build.spec).items()}
    return Program(
        spec,
        limits.capacity,
        limits.max_pass,
        limits.max_rows,
        head,
        build.tensors,
        build.inline,
        build.buffers,
        tuple(build.steps),
        rotary_scale=build.rotary_scale,
        kv=limits.kv,
        convolution=max((kind.tail + 1 for kind in build.spec.states), default=0),
    )
