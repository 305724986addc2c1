"""Independent, slow and obvious versions of what the sampler does, and a chi-square test."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from edgedec.core.rows import HeadRows
from edgedec.sampling import DrawParams

K = TypeVar("K", bound=Hashable)


def head(logits: np.ndarray, k: int, *, full: bool, temperature: float = 1.0) -> HeadRows:
    """Head results of one row, by sorting (value descending, id ascending)."""
    logits = np.asarray(logits, dtype=np.float32)
    order = sorted(range(logits.size), key=lambda v: (-float(logits[v]), v))[:k]
    exact = [float(x) / temperature for x in logits]
    top = max(exact)
    lse = top + math.log(math.fsum(math.exp(x - top) for x in exact))
    ids = np.array([order], dtype=np.int32)
    one = np.array([lse], dtype=np.float32)
    whole = logits[None] if full else None
    entropy = math.fsum(math.exp(x - lse) * (lse - x) for x in exact if math.isfinite(x))
    return HeadRows(logits[ids], ids, one, np.array([entropy], np.float32), whole, temperature)


def distribution(
    logits: Sequence[float], params: DrawParams, history: Iterable[int] = ()
) -> dict[int, float]:
    """The distribution a draw should have: {id: probability}, by dictionaries and loops."""
    history = list(history)
    values = adjusted({v: float(x) for v, x in enumerate(logits)}, params, history)
    order = sorted(values, key=lambda v: (-values[v], v))
    if params.temperature == 0:
        return {order[0]: 1.0}
    temperature = temperature_of(logits, params)
    if params.top_n_sigma:
        numbers = list(values.values())
        mean = math.fsum(numbers) / len(numbers)
        deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in numbers) / len(numbers))
        order = [v for v in order if values[v] >= max(numbers) - params.top_n_sigma * deviation]
    if params.top_k:
        order = order[: params.top_k]
    order = _top_p(order, _normalised(order, values, temperature), params.top_p)
    probabilities = _normalised(order, values, temperature)
    order = [v for v in order if probabilities[v] >= params.min_p * probabilities[order[0]]]
    for step in (typical, eta, top_h, mirostat):
        order = step(order, _normalised(order, values, temperature), params) or order[:1]
    return _normalised(order, values, temperature)


def temperature_of(logits: Sequence[float], params: DrawParams) -> float:
    """The temperature of a draw, which depends on the entropy with EDT."""
    if not params.edt:
        return params.temperature
    everything = dict(enumerate(map(float, logits)))
    at_one = _normalised(sorted(everything, key=lambda v: -everything[v]), everything, 1.0)
    return max(params.temperature * 0.8 ** (params.edt / max(entropy_of(at_one), 1e-9)), 1e-3)


def entropy_of(p: dict[int, float]) -> float:
    return -math.fsum(x * math.log(x) for x in p.values() if x > 0.0)


def typical(order: list[int], p: dict[int, float], params: DrawParams) -> list[int]:
    if params.typical == 1.0:
        return order
    entropy, kept, mass = entropy_of(p), set[int](), 0.0
    for v in sorted(order, key=lambda v: abs(-math.log(max(p[v], 1e-300)) - entropy)):
        kept.add(v)
        mass += p[v]
        if mass >= params.typical:
            break
    return [v for v in order if v in kept]


def eta(order: list[int], p: dict[int, float], params: DrawParams) -> list[int]:
    least = min(params.eta, math.sqrt(params.eta) * math.exp(-entropy_of(p)))
    return [v for v in order if p[v] >= least]


def top_h(order: list[int], p: dict[int, float], params: DrawParams) -> list[int]:
    if params.top_h == 1.0:
        return order
    most, kept = params.top_h * entropy_of(p), order[:1]
    for count in range(2, len(order) + 1):
        mass = math.fsum(p[v] for v in order[:count])
        if entropy_of({v: p[v] / mass for v in order[:count]}) > most:
            break
        kept = order[:count]
    return kept


def mirostat(order: list[int], p: dict[int, float], params: DrawParams) -> list[int]:
    """As at the beginning of a reply: the bound is twice the target."""
    return [v for v in order if not params.mirostat or -math.log2(max(p[v], 1e-300)) <= 2 * params.mirostat]


def adjusted(values: dict[int, float], params: DrawParams, said: Sequence[int]) -> dict[int, float]:
    """Logits by id after bias and penalties, without what is banned; the reply has said all of ``said``."""
    found = {}
    for v, value in values.items():
        bias = dict(params.logit_bias).get(v, 0.0)
        if bias == -100:
            continue
        value += bias
        if v in said:
            penalty = params.repetition_penalty
            value = value / penalty if value > 0 else value * penalty
            value -= said.count(v) * params.frequency_penalty + params.presence_penalty
        found[v] = value
    return found


def _normalised(order: list[int], values: dict[int, float], temperature: float) -> dict[int, float]:
    weights = {v: math.exp((values[v] - values[order[0]]) / temperature) for v in order}
    total = math.fsum(weights.values())
    return {v: w / total for v, w in weights.items()}


def _top_p(order: list[int], probabilities: dict[int, float], p: float) -> list[int]:
    if p == 1.0:  # off: a tail too improbable to change the sum stays too
        return order
    kept, mass = [], 0.0
    for v in order:
        if kept and mass >= p:
            break
        kept.append(v)
        mass += probabilities[v]
    return kept


def chi_square_p(counts: Mapping[K, int], expected: Mapping[K, float]) -> float:
    """P-value of Pearson's test of ``counts`` against ``expected``; cells merged to >= 5 expected.

    A count outside the distribution's support has probability zero, hence p = 0.
    """
    if set(counts) - set(expected):
        return 0.0
    total = sum(counts.values())
    cells: list[list[float]] = [[0.0, 0.0]]
    for v in sorted(expected, key=lambda v: expected[v]):
        cells[-1][0] += counts.get(v, 0)
        cells[-1][1] += expected[v] * total
        if cells[-1][1] >= 5:
            cells.append([0.0, 0.0])
    rest = cells.pop()
    if not cells:
        return 1.0
    cells[-1] = [cells[-1][0] + rest[0], cells[-1][1] + rest[1]]
    if len(cells) == 1:
        return 1.0
    statistic = sum((seen - due) ** 2 / due for seen, due in cells)
    return upper_gamma((len(cells) - 1) / 2, statistic / 2)


def upper_gamma(a: float, x: float) -> float:
    """Regularised upper incomplete gamma function Q(a, x): series below a + 1, continued fraction above."""
    if x <= 0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1.0 / a
        n = a
        while term > total * 1e-15:
            n += 1
            term *= x / n
            total += term
        return 1.0 - scale * total
    b = x + 1 - a
    c, d = 1e300, 1 / b
    h = d
    for i in range(1, 1000):
        b += 2
        factor = -i * (i - a)
        d = 1 / (factor * d + b)
        c = b + factor / c
        h *= d * c
        if abs(d * c - 1) < 1e-14:
            break
    return scale * h
