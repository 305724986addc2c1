"""Damage to a bundle's graph and weights: sizes, places, names, types and the shape of the graph."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper

from edgedec.bundle.manifest import MODEL, WEIGHTS
from tests.fuzz.mutate import integer, mutate_bytes

_Change = Callable[[onnx.ModelProto, random.Random], None]
_PLACES = (
    WEIGHTS,
    "",
    "../x",
    "../../etc/passwd",
    "/etc/passwd",
    "/dev/zero",
    ".",
    MODEL,
    "no-such-file",
    "a\x00b",
    f"./{WEIGHTS}",
    f"x/../{WEIGHTS}",
    "link",
    "../outside/weights.bin",
    "*/_ORT_MEM_ADDR_/*",
    "x" * 5000,
)
_OVERFLOWS = (
    (2**63 - 1, 2),
    (2**64 - 64, 128),
    (2**63, 2**63),
    (-64, 128),
    (0, -1),
    (1, 2**64 - 1),
    (4096, 2**62),
    (0, 0),
    (3, 1024),
)
_OPS = (
    ("Identity", ""),
    ("Gather", ""),
    ("QuantLinear", "ai.edgedec"),
    ("HeadTopK", "ai.edgedec"),
    ("NoSuchOp", "ai.edgedec"),
    ("RMSNorm", "ai.edgedec"),
    ("RotaryTable", "ai.edgedec"),
    ("Add", ""),
    ("Reshape", ""),
    ("Expand", ""),
    ("Loop", ""),
)
_TEXTS = (
    "",
    "q8_0",
    "q4_k",
    "q8_0,q8_0,q8_0",
    "q6_k,q6_k,q6_k",
    "silu",
    "x" * 5000,
    "q8_0," * 300,
    "\n",
    "\ufffd",
)


def mutate_bundle(files: dict[str, bytes], rng: random.Random) -> None:
    """Change the graph (mostly) or the weights of ``files``, in place."""
    if rng.random() < 0.15:
        files[WEIGHTS] = mutate_bytes(files[WEIGHTS], rng)
    elif rng.random() < 0.2:
        files[MODEL] = mutate_bytes(files[MODEL], rng)
    else:
        files[MODEL] = _mutate_graph(files[MODEL], rng)


def mutate_node(data: bytes, rng: random.Random) -> bytes:
    """Change a graph that has no weights of its own."""
    return _changed(
        data, rng, (_attribute, _attribute, _attribute, _wiring, _wiring, _node, _interface, _other)
    )


def mutate_op(data: bytes, rng: random.Random, op: str) -> bytes:
    """Change attributes or weights of nodes of one op; give them attributes that only loading adds."""
    return _changed(data, rng, (lambda model, rng: _of_op(model, rng, op),))


def mutate_places(data: bytes, rng: random.Random) -> bytes:
    """Say of some weights that they lie elsewhere, or are other than they are."""
    return _changed(data, rng, (_weight, _weight, _elsewhere))


def _mutate_graph(data: bytes, rng: random.Random) -> bytes:
    return _changed(data, rng, _CHANGES)


def _changed(data: bytes, rng: random.Random, changes: Sequence[_Change]) -> bytes:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        return mutate_bytes(data, rng)
    if not model.graph.node:
        return mutate_bytes(data, rng)
    change = rng.choice(changes)
    if change in (_weight, _elsewhere) and not model.graph.initializer:
        return mutate_bytes(data, rng)
    with suppress(ValueError):  # an earlier step damaged a name, or left a number that can not grow
        change(model, rng)
    return model.SerializeToString()


def _attribute(model: onnx.ModelProto, rng: random.Random) -> None:
    """One attribute of one node gets another value, another type, or goes."""
    nodes = [node for node in model.graph.node if node.attribute]
    if nodes:
        _change_attribute(rng.choice(nodes), rng)


def _change_attribute(node: onnx.NodeProto, rng: random.Random) -> None:
    attribute = rng.choice(node.attribute)
    if rng.random() < 0.1:
        node.attribute.remove(attribute)
        return
    if rng.random() < 0.1:
        attribute.type = rng.randrange(15)
        return
    drawn: Any = helper.get_attribute_value(attribute) if attribute.type in (1, 2, 3, 6, 7, 8) else 0
    if isinstance(drawn, list) and drawn and isinstance(drawn[0], int):
        drawn[rng.randrange(len(drawn))] = integer(rng, signed=True)
        drawn = rng.choice((drawn, drawn + drawn, drawn[:1], drawn * 500))
    elif isinstance(drawn, float):
        drawn = rng.choice((float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 1e-40, 3e38))
    elif isinstance(drawn, bytes):
        drawn = rng.choice((*_TEXTS, drawn + b",q8_0", drawn[:-1]))
    else:
        drawn = rng.choice((integer(rng, signed=True), drawn + 1 if isinstance(drawn, int) else 1))
    attribute.CopyFrom(helper.make_attribute(attribute.name, drawn))


def _of_op(model: onnx.ModelProto, rng: random.Random, op: str) -> None:
    nodes = [node for node in model.graph.node if node.op_type == op]
    if not nodes:
        return
    node = rng.choice(nodes)
    weights = [tensor for tensor in model.graph.initializer if tensor.name in node.input]
    if weights and rng.random() < 0.35:
        _damage_weight(model, rng.choice(weights), rng)
    elif rng.random() < 0.2:
        name = rng.choice(("store", "place", "checks"))
        numbers = [integer(rng, signed=True) for _ in range(rng.choice((0, 1, 6, 100)))]
        node.attribute.append(
            helper.make_attribute(name, numbers if name == "checks" else rng.choice((1, 2, *numbers)))
        )
    else:
        _change_attribute(node, rng)


def _weight(model: onnx.ModelProto, rng: random.Random) -> None:
    """A weight lies elsewhere, is larger or of another type than its file, or is not there."""
    _damage_weight(model, rng.choice(model.graph.initializer), rng)


def _damage_weight(model: onnx.ModelProto, tensor: TensorProto, rng: random.Random) -> None:
    places = {entry.key: entry for entry in tensor.external_data}
    action = rng.choice(("offset", "length", "location", "dims", "type", "inline", "remove", "key"))
    if action in ("offset", "length") and action in places:
        old = places[action].value
        places[action].value = rng.choice(
            (str(integer(rng, signed=True)), str(integer(rng)), "-1", "", "x", old + "0", "9" * 40)
        )
    elif action == "location" and "location" in places:
        places["location"].value = rng.choice(_PLACES)
    elif action == "dims" and tensor.dims:
        at = rng.randrange(len(tensor.dims))
        tensor.dims[at] = rng.choice((integer(rng, signed=True), tensor.dims[at] + 1, tensor.dims[at] * 2))
        if rng.random() < 0.2:
            tensor.dims.extend([integer(rng, 40)] * rng.choice((1, 5, 50)))
    elif action == "type":
        tensor.data_type = rng.randrange(30)
    elif action == "inline":
        del tensor.external_data[:]
        tensor.data_location = TensorProto.DEFAULT
        tensor.raw_data = rng.randbytes(rng.choice((0, 1, 64, 4096)))
    elif action == "remove":
        model.graph.initializer.remove(tensor)
    else:
        tensor.external_data.add(
            key=rng.choice(("checksum", "location", "offset", "x")), value=rng.choice(_PLACES)
        )


def _elsewhere(model: onnx.ModelProto, rng: random.Random) -> None:
    """A copy of a weight, with any place, where a reader may not look: in attributes, nested, sparse; or all
    weights at once at places whose end does not fit 64 bits.
    """
    weight = onnx.TensorProto()
    weight.CopyFrom(rng.choice(model.graph.initializer))
    offset, length = rng.choice(_OVERFLOWS)
    location = rng.choice(_PLACES)
    tensors = [weight] if rng.random() < 0.7 else list(model.graph.initializer)
    for tensor in tensors:
        for entry in tensor.external_data:
            new = {"offset": str(offset), "length": str(length), "location": location}
            entry.value = new.get(entry.key, entry.value)
    node, where = rng.choice(model.graph.node), rng.randrange(5)
    if where == 0:
        model.graph.node.add(op_type="Constant", output=["nowhere"]).attribute.add(
            name="value", type=onnx.AttributeProto.TENSOR
        ).t.CopyFrom(weight)
    elif where == 1:
        more = node.attribute.add(name="more", type=onnx.AttributeProto.TENSORS)
        more.tensors.add().CopyFrom(weight)
    elif where == 2:
        body = node.attribute.add(name="body", type=onnx.AttributeProto.GRAPH).g
        body.initializer.add().CopyFrom(weight)
    elif where == 3:
        model.graph.sparse_initializer.add(dims=[8]).values.CopyFrom(weight)
    else:
        model.graph.initializer.add().CopyFrom(weight)


def _wiring(model: onnx.ModelProto, rng: random.Random) -> None:
    """Names of inputs and outputs are exchanged, dropped, doubled or made up; cycles come of it."""
    node = rng.choice(model.graph.node)
    names = [name for other in model.graph.node for name in (*other.input, *other.output)] + ["", "nowhere"]
    side = node.input if rng.random() < 0.75 and node.input else node.output
    if not side:
        return
    at = rng.randrange(len(side))
    action = rng.choice(("name", "name", "name", "drop", "add", "many"))
    if action == "name":
        side[at] = rng.choice(names)
    elif action == "drop":
        del side[at]
    else:
        side.extend([rng.choice(names)] * (1 if action == "add" else 300))


def _node(model: onnx.ModelProto, rng: random.Random) -> None:
    """A node becomes another op, is removed, repeated or moved."""
    nodes = model.graph.node
    at = rng.randrange(len(nodes))
    action = rng.choice(("op", "op", "remove", "repeat", "move"))
    if action == "op":
        nodes[at].op_type, nodes[at].domain = rng.choice(_OPS)
    elif action == "remove":
        del nodes[at]
    else:
        copy = onnx.NodeProto()
        copy.CopyFrom(nodes[at])
        if action == "move":
            del nodes[at]
        nodes.insert(rng.randrange(len(nodes) + 1), copy)


def _interface(model: onnx.ModelProto, rng: random.Random) -> None:
    """An input or output of the graph changes its name, type or shape."""
    side = rng.choice((model.graph.input, model.graph.output))
    if not side:
        return
    info = rng.choice(side)
    tensor = info.type.tensor_type
    action = rng.choice(("name", "type", "dim", "dim", "rank", "remove"))
    if action == "name":
        info.name = rng.choice(("", "tokens", "values", "x" * 3000))
    elif action == "type":
        tensor.elem_type = rng.randrange(30)
    elif action == "dim" and tensor.shape.dim:
        rng.choice(tensor.shape.dim).dim_value = integer(rng, signed=True)
    elif action == "rank":
        tensor.shape.dim.add(dim_value=integer(rng, signed=True))
    elif action == "remove":
        side.remove(info)


def _other(model: onnx.ModelProto, rng: random.Random) -> None:
    """Versions, repeated names, nested graphs, functions, sparse weights."""
    weights = ("again", "sparse") if model.graph.initializer else ()
    action = rng.choice(("ir", "opset", "domain", "nested", "metadata", "value_info", *weights))
    if action == "ir":
        model.ir_version = integer(rng, signed=True)
    elif action in ("opset", "domain") and model.opset_import:
        entry = rng.choice(model.opset_import)
        entry.version = integer(rng, signed=True) if action == "opset" else entry.version
        entry.domain = "x" if action == "domain" else entry.domain
    elif action == "again":
        model.graph.initializer.add().CopyFrom(rng.choice(model.graph.initializer))
    elif action == "nested":
        inner = rng.choice(model.graph.node).attribute.add(name="body", type=onnx.AttributeProto.GRAPH).g
        for _ in range(rng.choice((1, 10, 60))):
            inner = (
                inner.node.add(op_type="If")
                .attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH)
                .g
            )
    elif action == "sparse":
        sparse = model.graph.sparse_initializer.add(dims=[integer(rng, signed=True)])
        sparse.values.CopyFrom(rng.choice(model.graph.initializer))
        sparse.indices.CopyFrom(rng.choice(model.graph.initializer))
    elif action == "metadata":
        model.metadata_props.add(key="x" * 100, value="y" * 100_000)
    else:
        shape = [integer(rng, 40)] * rng.randrange(4)
        name = rng.choice(rng.choice(model.graph.node).output or [""])
        model.graph.value_info.append(helper.make_tensor_value_info(name, rng.randrange(1, 17), shape))


_CHANGES: tuple[_Change, ...] = (*[_attribute] * 3, *[_weight] * 3, *[_wiring] * 2, _node, _interface, _other)
