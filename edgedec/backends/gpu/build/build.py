"""Builds the program of a model: each op of ``model.onnx`` becomes steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, replace

from edgedec.backends.gpu.build.attention import declare_cache, settling, tree_attention
from edgedec.backends.gpu.build.builder import Builder, BuildLimits
from edgedec.backends.gpu.build.embedding import quant_embedding
from edgedec.backends.gpu.build.head import head_topk
from edgedec.backends.gpu.build.linear import gated_mlp, quant_linear
from edgedec.backends.gpu.build.memory import share_memory
from edgedec.backends.gpu.build.rows import gather, rms_norm
from edgedec.backends.gpu.program import HeadEnding, Program, is_cache
from edgedec.backends.onnx.graph import OpGraph, OpNode
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.exits import out
from edgedec.core.model_spec import ModelSpec

_OPS: dict[str, Callable[[Builder, OpNode], None]] = {
    "QuantEmbedding": quant_embedding,
    "RMSNorm": rms_norm,
    "QuantLinear": quant_linear,
    "GatedMLP": gated_mlp,
    "TreeAttention": tree_attention,
    "Gather": gather,
}
_HOST = ("RotaryTable", "Mul", "Concat")
"""Ops without steps: the host computes and scales tables, and nothing reads all rows of the cache at once."""
_HEAD = "HeadTopK"


def build_program(graph: OpGraph, spec: ModelSpec, limits: BuildLimits) -> Program:
    """Build the program of ``graph``.

    Raises UnsupportedError for an op without kernels and sizes beyond ``limits``, BadFileError for a graph
    that is none of a bundle's.
    """
    build = Builder(graph, spec, limits)
    declare_cache(build)
    head = _steps(build, graph.nodes)
    if head is None:
        raise BadFileError("the graph of the bundle has no head")
    moves = settling(build)
    program = _program(build, head)
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
    for node in nodes:
        if node.op == _HEAD:
            head = head_topk(build, node)
        elif node.op in _OPS:
            _OPS[node.op](build, node)
        elif node.op not in _HOST:
            raise UnsupportedError(
                f"the op {node.op:.40} has no kernel for GPUs", hint="run the model on the CPU"
            )
    return head


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
    )
