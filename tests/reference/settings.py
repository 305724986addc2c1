"""The parts of a draw that settings turn on."""

from __future__ import annotations

from edgedec.sampling import DrawParams


def counts(params: DrawParams) -> bool:
    """Whether it matters how often the reply has said a token."""
    return params.frequency_penalty != 0.0 or params.presence_penalty != 0.0


def filters(params: DrawParams) -> bool:
    """Whether a cut is on that looks at one token after the other, before those of ``narrows``."""
    return bool(params.top_k or params.top_p < 1.0 or params.min_p or params.top_n_sigma)


def narrows(params: DrawParams) -> bool:
    """Whether a cut is on that looks at the whole distribution."""
    return params.typical < 1.0 or params.top_h < 1.0 or bool(params.eta or params.mirostat)


def uncut(params: DrawParams) -> bool:
    """Whether every token can be drawn that is not banned."""
    return not (params.greedy or filters(params) or narrows(params))


def adjusts(params: DrawParams) -> bool:
    """Whether logits are changed before temperature and cuts, so that their order may change."""
    return params.repetition_penalty != 1.0 or counts(params) or bool(params.logit_bias)
