"""A mixture of experts, in the place of an MLP or beside one: a router, and the experts that it chooses."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgedec.export.blocks.base import BlockBuilder, without_end
from edgedec.export.blocks.mlp import gated_mlp
from edgedec.export.model import ExpertsWeight, VectorWeight

_ROUTER_TERMS = 2
"""Int8 terms of the router's input, where its matrix is quantised: an error there chooses other experts."""


def experts(builder: BlockBuilder, block: str, x: str, routed: str = "") -> str:
    """Add router and experts of the layer whose tensors begin with ``block``.

    ``routed`` is what the router reads, if not ``x``.
    """
    hyper, sizes, facts = builder.hyper, builder.hyper.experts, builder.arch.experts
    assert sizes is not None
    assert facts is not None
    router = (sizes.count, hyper.hidden)
    scores = builder.linear(block + "ffn_gate_inp", routed or x, router, facts.biases, _ROUTER_TERMS)
    choice = builder.vector(block + "exp_probs_b.bias", sizes.count) if sizes.biased else ""
    factor = builder.vector(block + "ffn_down_exps.scale", sizes.count) if facts.factors else ""
    weight = builder.tensors.experts(block, sizes.count, sizes.width, hyper.hidden, facts.biases)
    return _mixture(
        builder,
        block + "ffn_exps",
        [x, scores, choice, factor],
        weight,
        chosen=sizes.chosen,
        gating=sizes.gating,
        normalise=int(sizes.normalise),
        epsilon=sizes.epsilon,
        scale=sizes.scale * hyper.residual_scale,
    )


def with_shared_expert(builder: BlockBuilder, block: str, x: str, residual: str) -> str:
    """Add the expert that computes every token, if there is one: the only one of a mixture of its own.

    Its weight is the sigmoid of its gate. ``residual`` is what its output is added to.
    """
    hyper, sizes = builder.hyper, builder.hyper.experts
    assert sizes is not None
    if not sizes.shared:
        return residual
    gate = builder.row(block + "ffn_gate_inp_shexp", x, hyper.hidden, terms=_ROUTER_TERMS)
    weight = builder.tensors.shared_expert(block, sizes.shared, hyper.hidden)
    shared = _mixture(
        builder,
        block + "ffn_shexp",
        [x, gate],
        weight,
        chosen=1,
        gating="sigmoid",
        normalise=0,
        epsilon=0.0,
        scale=hyper.residual_scale,
    )
    return builder.op("Add", block + "after_shared", [residual, shared], domain="")


def mlp_and_experts(builder: BlockBuilder, block: str, x: str, normed: str, ffn: int) -> str:
    """Add the MLP of width ``ffn`` and the experts, which both compute every token of ``x``, and their sum.

    ``normed`` is what the MLP reads.
    """
    facts = builder.arch.experts
    assert facts is not None
    mlp = builder.norm(block + "post_ffw_norm_1", gated_mlp(builder, block, normed, ffn))
    routed = _router_norm(builder, block, x) if facts.own_norm else ""
    mixed = experts(builder, block, builder.norm(block + "pre_ffw_norm_2", x), routed)
    mixed = builder.norm(block + "post_ffw_norm_2", mixed)
    return builder.op("Add", block + "both", [mlp, mixed], domain="")


def _router_norm(builder: BlockBuilder, block: str, x: str) -> str:
    name, hidden = block + "ffn_gate_inp.scale", builder.hyper.hidden
    weight = builder.tensors.vector(name, hidden).values * np.float32(hidden**-0.5)
    builder.model.weights[name] = VectorWeight(weight)
    return builder.op("RMSNorm", block + "router_norm", [x, name], epsilon=builder.hyper.epsilon)


def _mixture(
    builder: BlockBuilder, name: str, inputs: list[str], weight: ExpertsWeight, **router: Any
) -> str:
    """Add the op.

    ``inputs`` are those of the tokens, the router's scores, a bias for choosing, and factors of experts.
    """
    builder.model.weights[f"{name}.weight"] = weight
    x, scores, *optional = inputs
    gate, _, _ = weight.first
    if weight.biases is not None:
        router["biases"] = 1
    return builder.op(
        "Experts",
        name,
        without_end([x, scores, f"{name}.weight", *optional]),
        formats=weight.formats,
        experts=weight.count,
        rows=gate.rows,
        cols=gate.cols,
        activation=builder.arch.activation,
        **router,
    )
