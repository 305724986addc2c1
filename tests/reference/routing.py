"""A pass of the kernels over a model with experts, and which experts each token took there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.backends.onnx.session import open_session
from edgedec.bundle.manifest import MODEL, Manifest
from tests.reference.graph import Routed, choices, load_initialiser


def kernels_routed(bundle: Path, tokens: Sequence[int]) -> Routed:
    """A pass over ``tokens`` from an empty cache, with scores of all mixtures of more than one expert."""
    graph = onnx.load(str(bundle / MODEL), load_external_data=False).graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    mixtures = [
        node for node in graph.node if node.op_type == "Experts" and stored[node.input[2]].dims[0] > 1
    ]
    routers = [node.input[1] for node in mixtures]
    session = open_session(bundle, 1, spin=False, changes=[partial(_with_outputs, names=routers)])
    memory = KvMemory(Manifest.load(bundle).spec, len(tokens), ring=len(tokens))
    memory.use()
    order = np.arange(len(tokens))
    feeds = {
        "tokens": np.array(tokens),
        "positions": order,
        "parents": order - 1,
        "length": np.zeros(1, np.int64),
        "rows": order,
        "want_logits": np.ones(1, np.int64),
        **memory.arrays,
    }
    logits, *found = session.run(["logits", *routers], feeds)
    scores = {node.name: one for node, one in zip(mixtures, found, strict=True)}
    biases = {node.input[3] for node in mixtures if len(node.input) > 3 and node.input[3]}
    values = {name: load_initialiser(bundle, stored[name]) for name in biases}
    return Routed(logits, scores, {node.name: choices(node, scores[node.name], values) for node in mixtures})


def _with_outputs(model: bytes, names: Iterable[str]) -> bytes:
    """The graph with these values as outputs."""
    proto = onnx.ModelProto.FromString(model)
    for name in names:
        proto.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    return bytes(proto.SerializeToString())
