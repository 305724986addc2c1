"""Mixtures of experts: how many there are, and how a router weighs those that it chooses."""

from __future__ import annotations

from typing import Literal

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.architectures.base import Architecture
from edgedec.export.metadata_keys import MetadataKeys

_MOST_EXPERTS = 1 << 12
_GATINGS: dict[int, Literal["softmax", "sigmoid"]] = {1: "softmax", 2: "sigmoid"}


@dataclass(frozen=True, slots=True)
class ExpertSizes:
    """The experts of the layers from ``dense`` on; those before have an MLP for all tokens."""

    count: int
    chosen: int
    """Experts that compute a token."""
    width: int
    """Rows of the gate of an expert."""
    dense: int
    shared: int
    """Width of an expert that computes every token, times the sigmoid of a gate; 0: there is none."""
    gating: Literal["softmax", "sigmoid"]
    """Function from the router's logits to weights."""
    biased: bool
    """Whether a bias is added to the weights for choosing."""
    normalise: bool
    """Whether the weights of the chosen are divided by their sum and ``epsilon``."""
    epsilon: float
    scale: float
    """Factor on all weights."""


def read_experts(keys: MetadataKeys, architecture: Architecture, layers: int) -> ExpertSizes | None:
    """Read the sizes of experts; None for a model without them.

    Raises BadFileError for impossible values, UnsupportedError for a router that has no op.
    """
    facts = architecture.experts
    if facts is None or (facts.beside and not keys.get("expert_count")):
        return None
    count = keys.size("expert_count", most=_MOST_EXPERTS)
    chosen = keys.size("expert_used_count")
    if chosen > count:
        raise BadFileError(f"the model chooses {chosen} of {count} experts")
    dense = keys.count("leading_dense_block_count")
    if dense >= layers:
        raise BadFileError(f"the model has {layers} layers, of which {dense} have no experts")
    return ExpertSizes(
        count=count,
        chosen=chosen,
        width=keys.size("expert_feed_forward_length", keys.get("feed_forward_length")),
        dense=dense,
        shared=_shared(keys, architecture),
        gating=_gating(keys) or facts.gating,
        biased=keys.flag("expert_choice_bias", facts.biased),
        normalise=keys.flag("expert_weights_norm", True),
        epsilon=facts.epsilon,
        scale=keys.number("expert_weights_scale", 0.0) or 1.0,
    )


def _gating(keys: MetadataKeys) -> Literal["softmax", "sigmoid"] | None:
    """Return the function that the file states; None if it states none."""
    stated = keys.count("expert_gating_func")
    if stated and stated not in _GATINGS:
        raise UnsupportedError(
            f"{keys.architecture}.expert_gating_func is {stated}, a router that has no op here",
            hint="1 (softmax) and 2 (sigmoid) are supported",
        )
    return _GATINGS.get(stated)


def _shared(keys: MetadataKeys, architecture: Architecture) -> int:
    """Return the width of the expert that computes every token."""
    width = keys.count("expert_shared_feed_forward_length")
    facts = architecture.experts
    if width and not (facts and facts.shared):
        raise UnsupportedError(f"a shared expert in {architecture.name} models is not supported")
    return width
