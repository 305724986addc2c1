"""Drawing one token from one whole row, in NumPy: the oracle of kernels/core/sampling.

The definitions, each once, over all of the vocabulary in canonical order: value descending, id ascending
among equal values. All arithmetic is float64 in a fixed order, so that the core has to find the same bits,
whatever part of the row it looked at.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import BackendError, UsageError
from edgedec.core.rows import HeadRows
from edgedec.sampling import DrawParams
from tests.reference import noise
from tests.reference.settings import adjusts, counts, filters, narrows, uncut

F64 = NDArray[np.float64]
Ids = NDArray[np.int64]
Kept = tuple[F64, Ids]
"""Logits and ids, best first."""


class Allowed(Protocol):
    """The tokens that may come next."""

    def permits(self, token: int) -> bool: ...

    def bits(self) -> NDArray[np.uint8]: ...


class DrawHistory:
    """The tokens before a draw: ids that occurred, how often the reply said each, and mirostat's bound.

    The last ``said`` of ``tokens`` are of the reply. ``bound``: behind its first part; None: as it begins.
    """

    def __init__(
        self, params: DrawParams, tokens: Sequence[int] = (), *, said: int = 0, bound: float | None = None
    ) -> None:
        self.occurred = list(dict.fromkeys(tokens))
        self.said = Counter(tokens[len(tokens) - said :])
        self.bound: float | None = None
        if params.mirostat and not params.greedy:
            self.bound = 2.0 * params.mirostat if bound is None else bound


History = DrawHistory | Sequence[int]
"""Of plain tokens all count as said by the reply."""


@dataclass(frozen=True)
class Row:
    """A whole row: what may be drawn, in the order of ids and in canonical order, and its sums."""

    every: F64
    values: F64
    ids: Ids
    temperature: float
    bound: float | None
    own_sums: tuple[float, float] | None
    """The head's logsumexp and entropy, where they are of this temperature and of unchanged logits."""

    def total(self) -> float:
        """Sum of exp((logit - highest) / T) over all that may be drawn."""
        if self.own_sums:
            return noise.exp_one(self.own_sums[0] - float(self.values[0]) / self.temperature)
        return total_of(noise.exp((self.every - self.values[0]) / self.temperature))

    def entropy(self) -> float:
        """Entropy of the same distribution in nats."""
        if self.own_sums:
            return self.own_sums[1]
        scaled = (self.every - self.values[0]) / self.temperature
        weights = noise.exp(scaled)
        return entropy_of(total_of(weights), weights, np.maximum(scaled, -700.0))


def draw(
    rows: HeadRows,
    row: int,
    params: DrawParams,
    position: int,
    history: History,
    allowed: Allowed | None = None,
) -> int:
    """Return the token for absolute position ``position``. ``rows`` have whole rows of logits.

    Raises BackendError for logits that are not numbers, UsageError where bias and ``allowed`` leave no token.
    """
    if allowed is not None and (params.greedy or uncut(params)):
        token = draw(rows, row, params, position, history)  # the best of all, or the winner of their race
        if allowed.permits(token):
            return token
    best = rows.values.item(row, 0)
    if not math.isfinite(best):
        raise BackendError(f"the model returned {best} as its best logit", hint="verify the bundle")
    seen = row_of(rows, row, params, history, allowed)
    values, ids = survivors(seen, params)
    if params.greedy:
        return int(ids[0])
    weights = noise.exp((values - values.max()) / seen.temperature)
    times = noise.exponential(params.seed, position, ids) / weights
    return int(ids[times == times.min()].min())


def distribution(
    rows: HeadRows,
    row: int,
    params: DrawParams,
    history: History,
    vocabulary: int,
    allowed: Allowed | None = None,
) -> F64:
    """Return the distribution f64[vocabulary] that ``draw`` draws from."""
    seen = row_of(rows, row, params, history, allowed)
    values, ids = survivors(seen, params)
    out = np.zeros(vocabulary)
    weights = noise.exp((values - values.max()) / (seen.temperature or 1.0))
    out[ids] = weights / weights.sum()
    return out


def bound_after(
    rows: HeadRows,
    row: int,
    params: DrawParams,
    token: int,
    history: DrawHistory,
    allowed: Allowed | None = None,
) -> float:
    """Return mirostat's bound after ``token`` (mirostat 2, Basu et al. 2021)."""
    seen = row_of(rows, row, params, history, allowed)
    values, ids = survivors(seen, params)
    weights = noise.exp((values - values.max()) / seen.temperature)
    surprise = -noise.log_one(float(weights[ids == token][0]) / total_of(weights)) / math.log(2.0)
    assert seen.bound is not None
    return seen.bound - params.mirostat_eta * (surprise - params.mirostat)


def row_of(
    rows: HeadRows, row: int, params: DrawParams, history: History, allowed: Allowed | None = None
) -> Row:
    """Return the adjusted row of which ``survivors`` keep a part."""
    assert rows.logits is not None
    logits = rows.logits[row].astype(np.float64)
    if np.isnan(logits).any():
        raise BackendError("the model returned logits that are not numbers", hint="verify the bundle")
    if not isinstance(history, DrawHistory):
        history = DrawHistory(params, history, said=len(history))
    values, ids = adjusted(logits, params, history), np.arange(logits.size)
    if allowed is not None:
        ids = np.flatnonzero(np.unpackbits(allowed.bits(), count=logits.size, bitorder="little"))
    if allowed is not None or any(bias == -100.0 for _, bias in params.logit_bias):
        ids = ids[values[ids] > -np.inf]
        if not ids.size:
            who = "the logit bias bans every one" if allowed is None else "grammar and logit bias leave none"
            raise UsageError("no token is left to draw", hint=who)
    every = values[ids]
    order = np.argsort(-every, kind="stable")
    temperature = temperature_of(params, rows, row)
    own = temperature == rows.temperature and not adjusts(params) and allowed is None
    sums = (rows.logsumexp.item(row), rows.entropy.item(row)) if own else None
    return Row(every, every[order], ids[order], temperature, history.bound, sums)


def adjusted(logits: F64, params: DrawParams, history: DrawHistory) -> F64:
    """Apply bias, repetition penalty (Keskar et al. 2019), then frequency and presence penalties."""
    values, size = logits.copy(), logits.size
    for token, bias in params.logit_bias:
        if token < size:
            values[token] += -math.inf if bias == -100.0 else bias
    penalty = params.repetition_penalty
    for token in history.occurred if penalty != 1.0 else ():
        if token < size:
            values[token] = values[token] / penalty if values[token] > 0.0 else values[token] * penalty
    for token, count in history.said.items() if counts(params) else ():
        if token < size:
            values[token] -= count * params.frequency_penalty + params.presence_penalty
    return values


def temperature_of(params: DrawParams, rows: HeadRows, row: int) -> float:
    """Return the temperature: with ``edt`` T * 0.8^(edt / H), H the model's entropy (Zhang et al. 2024)."""
    if not params.edt or params.greedy:
        return params.temperature
    if rows.temperature == 1.0:
        entropy = rows.entropy.item(row)
    else:
        assert rows.logits is not None
        logits = rows.logits[row].astype(np.float64)
        scaled = np.maximum(logits - logits.max(), -700.0)
        weights = noise.exp(scaled)
        entropy = entropy_of(total_of(weights), weights, scaled)
    return max(params.temperature * noise.exp_one(params.edt / max(entropy, 1e-9) * math.log(0.8)), 1e-3)


def survivors(row: Row, params: DrawParams) -> Kept:
    """Return the tokens that every warper leaves, best first."""
    values, ids, temperature = row.values, row.ids, row.temperature
    if params.greedy:
        return values[:1], ids[:1]
    if params.top_n_sigma:
        count = first_below(values, sigma_cut(row.every, params.top_n_sigma))
        values, ids = values[:count], ids[:count]
    if params.top_k:
        values, ids = values[: params.top_k], ids[: params.top_k]
    if params.top_p < 1.0 or params.min_p:
        weights = noise.exp((values - values[0]) / temperature)
        if params.top_p < 1.0:
            earlier = params.top_n_sigma or params.top_k
            weights = weights[
                : top_p_count(weights, total_of(weights) if earlier else row.total(), params.top_p)
            ]
        count = first_below(weights, params.min_p)
        values, ids = values[:count], ids[:count]
    return narrowed(values, ids, row, params) if narrows(params) else (values, ids)


def narrowed(values: F64, ids: Ids, row: Row, params: DrawParams) -> Kept:
    """Apply the cuts that look at the whole distribution, each at what those before it leave."""
    whole = not filters(params)
    steps = [
        (typical, params.typical, params.typical < 1.0),
        (eta, params.eta, params.eta > 0.0),
        (top_h, params.top_h, params.top_h < 1.0),
        (mirostat, row.bound or 0.0, params.mirostat > 0.0),
    ]
    for step, value, on in steps:
        if on:
            scaled = (values - values[0]) / row.temperature
            weights = noise.exp(scaled)
            total = row.total() if whole else total_of(weights)
            entropy = row.entropy() if whole else entropy_of(total, weights, scaled)
            kept = step(scaled, weights, total, entropy, value)
            values, ids, whole = values[kept], ids[kept], False
    return values, ids


def typical(scaled: F64, weights: F64, total: float, entropy: float, mass: float) -> Ids:
    """Keep tokens of a surprise nearest to the entropy until they reach ``mass`` (Meister et al. 2023)."""
    far = np.abs(noise.log_one(total) - scaled - entropy)
    order = np.argsort(far, kind="stable")
    reached = np.add.accumulate(weights[order]) >= mass * total
    return np.sort(order[: int(reached.argmax()) + 1] if reached.any() else order)


def eta(scaled: F64, weights: F64, total: float, entropy: float, epsilon: float) -> Ids:
    """Keep tokens of at least min(epsilon, sqrt(epsilon) * exp(-entropy)) (Hewitt et al. 2022)."""
    least = min(epsilon, math.sqrt(epsilon) * noise.exp_one(-entropy))
    return np.arange(max(first_below(weights, least * total), 1))


def top_h(scaled: F64, weights: F64, total: float, entropy: float, share: float) -> Ids:
    """Keep as many of the best as have an entropy of at most ``share`` of all (Potraghloo et al. 2025)."""
    sums = np.add.accumulate(weights)
    over = noise.log(sums) - np.add.accumulate(weights * scaled) / sums > share * entropy
    return np.arange(max(int(over.argmax()), 1) if over.any() else over.size)


def mirostat(scaled: F64, weights: F64, total: float, entropy: float, bound: float) -> Ids:
    """Keep tokens with a surprise of at most ``bound`` bits."""
    return np.arange(max(first_below(weights, noise.exp_one(min(-bound * noise.LN2, 0.0)) * total), 1))


def sigma_cut(every: F64, n: float) -> float:
    """Return the lowest logit kept by top-n-sigma (Tang et al. 2024): max - n * std; -inf does not count."""
    finite = every[np.isfinite(every)]
    variance = total_of(np.square(finite - total_of(finite) / finite.size)) / finite.size
    return float(finite.max() - n * np.sqrt(variance))


def top_p_count(weights: F64, total: float, p: float) -> int:
    """Return the length of the shortest prefix with weight >= ``p * total`` (Holtzman et al. 2020)."""
    reached = np.add.accumulate(weights) >= p * total
    return int(reached.argmax()) + 1 if reached.any() else weights.size


def first_below(values: F64, cut: float) -> int:
    """Return the length of the prefix with value >= ``cut``."""
    below = values < cut
    return int(below.argmax()) if below.any() else values.size


def entropy_of(total: float, weights: F64, scaled: F64) -> float:
    """Return the entropy in nats of weights exp(scaled), which add up to ``total``."""
    return noise.log_one(total) - total_of(weights * scaled) / total


def total_of(x: F64) -> float:
    """Sum in the order given, strictly one after the other."""
    return float(np.add.accumulate(x)[-1])
