"""Derives the graph for drafting from the finished graph of a model: the same ops, weights and results.

It adds three things, so that a drafter of the target itself can work in the target's own session:

- **Exits.** After the layers of an exit, the rows of ``rows.E`` skip the layers above and go to the model's
  norm and head. The rows of ``passing.E`` enter the layers above: none in a run that ends at this exit.
- **Warm rows.** At each exit, rows that an earlier run computed up to there (``warm.E``) come before those of
  this run. ``parents`` and ``positions`` are those of all tokens of a pass; the layers below compute only the
  tokens in ``tokens``, the last ones of them.
- **Hidden states**: the outputs of some layers are outputs of the graph, and the head takes the ids to
  ``keep``; none: all.

A run has different tokens in the layers between two exits, so there is an output ``kv_new.E`` for those up to
each exit. In all else the bodies in standard ops are those of the model's graph.
"""

from __future__ import annotations

from dataclasses import replace

import onnx
from onnx import TensorProto, helper

from edgedec.bundle import exits as names
from edgedec.export.blocks.head_rows import FIRST
from edgedec.export.model import CACHE, DOMAIN, ExportModel
from edgedec.export.passes.infra import PassError, check_well_formed
from edgedec.export.passes.return_new_kv import OUTPUT as NEW_KV
from edgedec.export.portable import attach_bodies

_BLOCK = "blk."
_KEPT_INPUT = 3
_ENDING = ["Gather", "RMSNorm", "HeadTopK"]


def drafting_graph(
    model: ExportModel,
    layers: int,
    hidden: int,
    *,
    exits: tuple[int, ...] | None = None,
    taps: tuple[int, ...] | None = None,
) -> tuple[ExportModel, dict[str, str]]:
    """Return the graph for drafting, which shares weights and placements with ``model``, and its metadata.

    ``layers`` and ``hidden`` are sizes of the model. ``exits``: by default each eighth of the layers; empty:
    none, and drafters have hidden states alone. ``taps``: by default the layers that a trained head reads.
    Raises PassError.
    """
    exits = names.exits_of(layers) if exits is None else exits
    taps = names.taps_of(layers) if taps is None else taps
    stated = {names.EXITS: ",".join(map(str, exits)), names.TAPS: ",".join(map(str, taps))}
    return _with_taps(model, taps, hidden) if not exits else _whole(
        model, layers, hidden, exits, taps
    ), stated


def _with_taps(model: ExportModel, taps: tuple[int, ...], hidden: int) -> ExportModel:
    """Return the graph with hidden states of all tokens and ids to keep, and no exits."""
    every = helper.make_node("Constant", [], [FIRST], FIRST, value_ints=[0])
    nodes = [every if node.name == FIRST else _copied(node) for node in model.nodes]
    head = next((node for node in nodes if node.op_type == _ENDING[-1]), None)
    if head is None:
        raise PassError("the graph has no head")
    head.input[_KEPT_INPUT] = names.KEEP
    drafting = replace(
        model,
        inputs=[*model.inputs, *_inputs((), hidden)],
        outputs=[*model.outputs, *_states((), taps, hidden)],
        nodes=nodes,
        functions=attach_bodies(nodes, warm=True),
    )
    check_well_formed(drafting)
    return drafting


def _whole(
    model: ExportModel, layers: int, hidden: int, exits: tuple[int, ...], taps: tuple[int, ...]
) -> ExportModel:
    nodes = [_copied(node) for node in model.nodes if NEW_KV not in node.output]
    selected, norm, head = ending = nodes[-len(_ENDING) :]
    if [node.op_type for node in ending] != _ENDING:
        raise PassError("the graph does not end with the rows, the norm and the head")
    rows = [*(names.shown(exit) for exit in exits[:-1]), selected.output[0]]
    asked = helper.make_node("Concat", rows, ["asked"], "asked", axis=0)
    selected.input[0], norm.input[0], head.input[_KEPT_INPUT] = names.joined(layers), "asked", names.KEEP
    made = [*_with_exits(nodes[: -len(ending)], layers, exits), selected, asked, norm, head]
    new_kv = next(value for value in model.outputs if value.name == NEW_KV)
    kept = [value for value in model.outputs if value is not new_kv]
    drafting = replace(
        model,
        inputs=[*model.inputs, *_inputs(exits, hidden)],
        outputs=[*kept, *_states(exits, taps, hidden), *_new_kv(new_kv, exits)],
        nodes=made,
        functions=attach_bodies(made, warm=True),
    )
    check_well_formed(drafting)
    return drafting


def _inputs(exits: tuple[int, ...], hidden: int) -> list[onnx.ValueInfoProto]:
    found = [helper.make_tensor_value_info(names.KEEP, TensorProto.INT64, ["kept"])]
    for exit in exits:
        warm = names.warm(exit)
        found.append(helper.make_tensor_value_info(warm, TensorProto.FLOAT, [warm, hidden]))
    for name in (kind(exit) for exit in exits[:-1] for kind in (names.rows, names.passing)):
        found.append(helper.make_tensor_value_info(name, TensorProto.INT64, [name]))
    return found


def _states(exits: tuple[int, ...], taps: tuple[int, ...], hidden: int) -> list[onnx.ValueInfoProto]:
    layers = sorted({*taps, *(exit - 1 for exit in exits)})
    return [
        helper.make_tensor_value_info(names.out(layer), TensorProto.FLOAT, [f"tokens.{layer}", hidden])
        for layer in layers
    ]


def _new_kv(whole: onnx.ValueInfoProto, exits: tuple[int, ...]) -> list[onnx.ValueInfoProto]:
    """Return the outputs with keys and values, of the shape of ``whole`` but for layers and rows."""
    dims = whole.type.tensor_type.shape.dim
    rest = [dim.dim_param or dim.dim_value for dim in dims]
    found = []
    for exit, before in zip(exits, (0, *exits), strict=False):
        shape = [exit - before, *rest[1:3], f"new_rows.{exit}", rest[4]]
        found.append(helper.make_tensor_value_info(names.new_kv(exit), TensorProto.FLOAT16, shape))
    return found


def _copied(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return a copy of ``node`` without a body."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    if copy.domain == DOMAIN:
        copy.ClearField("overload")
    return copy


def _with_exits(nodes: list[onnx.NodeProto], layers: int, exits: tuple[int, ...]) -> list[onnx.NodeProto]:
    """Return ``nodes``, and behind the layers of each exit those that let rows out and in."""
    of_layer: list[list[onnx.NodeProto]] = [[] for _ in range(layers)]
    made = []
    for node in nodes:
        if node.name.startswith(_BLOCK):
            of_layer[int(node.name.split(".")[1])].append(node)
        else:
            made.append(node)
    segment: list[onnx.NodeProto] = []
    for layer, own in enumerate(of_layer):
        segment += own
        if layer in exits:
            for node in own:
                _read(node, names.out(layer - 1), names.joined(layer))
        made += own
        if layer + 1 in exits:
            made += [*_exit(layer + 1, last=layer + 1 == layers), _kv_of(segment, layer + 1)]
            segment = []
    return made


def _kv_of(nodes: list[onnx.NodeProto], exit: int) -> onnx.NodeProto:
    """Return the node that joins the keys and values of these layers, those of ``kv_cache`` first."""
    attentions = [node for node in nodes if node.op_type == "TreeAttention"]
    parts = [node.output[1] for node in sorted(attentions, key=lambda node: node.input[4] != CACHE)]
    name = names.new_kv(exit)
    return helper.make_node("Concat", parts, [name], name, axis=0)


def _exit(exit: int, *, last: bool) -> list[onnx.NodeProto]:
    above, going = names.out(exit - 1), f"going.{exit}"
    joined = [names.warm(exit), above if last else going], [names.joined(exit)]
    join = helper.make_node("Concat", *joined, names.joined(exit), axis=0)
    if last:
        return [join]
    shown = names.shown(exit)
    return [
        helper.make_node("Gather", [above, names.rows(exit)], [shown], shown, axis=0),
        helper.make_node("Gather", [above, names.passing(exit)], [going], going, axis=0),
        join,
    ]


def _read(node: onnx.NodeProto, old: str, new: str) -> None:
    for at, name in enumerate(node.input):
        if name == old:
            node.input[at] = new
