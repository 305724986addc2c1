"""A mixture of experts in the place of an MLP: a router, and the experts that it chooses for each token."""

from __future__ import annotations

from typing import Any

from edgedec.export.blocks.base import BlockBuilder
from edgedec.export.model import ExpertsWeight

_ROUTER_TERMS = 2
"""Int8 terms of the router's input, where its matrix is quantised: an error there chooses other experts."""


def experts(builder: BlockBuilder, block: str, x: str) -> str:
    """Add router and experts of the layer whose tensors begin with ``block``."""
    hyper, sizes = builder.hyper, builder.hyper.experts
    assert sizes is not None
    router = (sizes.count, hyper.hidden)
    scores = builder.linear(block + "ffn_gate_inp", x, router, terms=_ROUTER_TERMS)
    choice = builder.vector(block + "exp_probs_b.bias", sizes.count) if sizes.biased else ""
    weight = builder.tensors.experts(block, sizes.count, sizes.width, hyper.hidden)
    return _mixture(
        builder,
        block + "ffn_exps",
        [x, scores, choice],
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


def _mixture(
    builder: BlockBuilder, name: str, inputs: list[str], weight: ExpertsWeight, **router: Any
) -> str:
    """Add the op; ``inputs`` are those of the tokens, the router's scores, and a bias for choosing."""
    builder.model.weights[f"{name}.weight"] = weight
    x, scores, *choice = inputs
    gate, _, _ = weight.first
    return builder.op(
        "Experts",
        name,
        [x, scores, f"{name}.weight", *filter(None, choice)],
        formats=weight.formats,
        experts=weight.count,
        rows=gate.rows,
        cols=gate.cols,
        activation=builder.arch.activation,
        **router,
    )
