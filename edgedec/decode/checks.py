"""Checks of a request before anything changes."""

from __future__ import annotations

from collections.abc import Sequence

from edgedec.core.errors import ContextFullError, UsageError
from edgedec.core.model_spec import ModelSpec
from edgedec.sampling import DrawParams


def check_request(
    prompt: Sequence[int], spec: ModelSpec, *, max_tokens: int, capacity: int, logprobs: int
) -> None:
    """Check a prompt and the limits of its reply.

    Raises UsageError for an empty prompt, an id outside the vocabulary, ``max_tokens`` below 1 or more
    log-probabilities than the head lists; ContextFullError when the prompt leaves no room for a token.
    """
    if not prompt:
        raise UsageError("the prompt is empty", hint="there must be at least one token to continue")
    if max_tokens < 1:
        raise UsageError(f"cannot generate {max_tokens} tokens", hint="ask for at least 1")
    if not 0 <= logprobs <= spec.head_k:
        raise UsageError(
            f"{logprobs} log-probabilities per token are not possible",
            hint=f"use 1 to {spec.head_k}, or 0 for none",
        )
    if min(prompt) < 0 or max(prompt) >= spec.vocab_size:
        raise UsageError(f"the prompt has a token outside the vocabulary of {spec.vocab_size}")
    if len(prompt) >= capacity:
        raise ContextFullError(
            f"the prompt has {len(prompt)} tokens, and the context holds {capacity}",
            hint=f"shorten it to at most {capacity - 1} or use a larger context",
        )


def check_bias(params: DrawParams, spec: ModelSpec) -> None:
    """Raises UsageError for a logit bias of a token that the model does not have."""
    if params.logit_bias and (token := params.logit_bias[-1][0]) >= spec.vocab_size:
        raise UsageError(
            f"the logit bias names token {token}, and the vocabulary has {spec.vocab_size}",
            hint="leave out ids that the model does not have",
        )


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Count the tokens that two sequences begin with alike."""
    most = min(len(first), len(second))
    return next((at for at in range(most) if first[at] != second[at]), most)


def check_newest(reply: int, newest: int) -> None:
    """Raises UsageError when a newer reply has taken over the cache."""
    if reply != newest:
        raise UsageError("a newer reply took over", hint="iterate only the newest one")
