"""Random draws, and the core's answers beside those of the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import EdgeDecError
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import HeadRows
from edgedec.core.tree import EMPTY
from edgedec.core_lib.engine import ReplyStart
from edgedec.core_lib.library import function
from edgedec.core_lib.needs import head_temperature
from edgedec.sampling import DrawParams
from tests.reference import noise
from tests.reference.sampling import Allowed, DrawHistory, bound_after
from tests.reference.sampling import draw as drawn_by_definition
from tests.sampling.reply_handle import ReplyHandle

ENDLESS = 1 << 40


@dataclass(frozen=True)
class Drawing:
    """One draw: a head row, settings, the tokens before, and what is allowed."""

    rows: HeadRows
    params: DrawParams
    position: int = 0
    vocabulary: int = 0
    tokens: tuple[int, ...] = ()
    said: int = 0
    bound: float | None = None
    allowed: Allowed | None = None


@dataclass(frozen=True)
class Drawn:
    """An error's code, message and hint; or the token, and mirostat's bound after it."""

    error: tuple[int, str, str] | None = None
    token: int = -1
    bound: float | None = None


class Mask:
    """Allows some ids, and counts how often it was made."""

    def __init__(self, ids: Sequence[int], size: int) -> None:
        self.ids, self.size, self.made = set(ids), size, 0

    def permits(self, token: int) -> bool:
        return token in self.ids

    def bits(self) -> NDArray[np.uint8]:
        self.made += 1
        bools = np.zeros(self.size, np.bool_)
        bools[list(self.ids)] = True
        return np.packbits(bools, bitorder="little")


@dataclass
class Always:
    """A grammar that allows the same everywhere."""

    allowed: Allowed
    followed: list[list[int]] = field(default_factory=list)

    def follow(self, tokens: Sequence[int]) -> bool:
        self.followed.append(list(tokens))
        return False

    def forced(self) -> Sequence[int]:
        return ()

    def permits(self, token: int) -> bool:
        return self.allowed.permits(token)

    def bits(self) -> NDArray[np.uint8]:
        return self.allowed.bits()


def spec_of(vocabulary: int, head_k: int = 64) -> ModelSpec:
    """The sizes that a reply reads."""
    return cast(ModelSpec, SimpleNamespace(vocab_size=vocabulary, head_k=head_k))


def handle_of(case: Drawing) -> ReplyHandle:
    """A reply that goes on with this draw."""
    start = ReplyStart(ENDLESS, case.tokens, case.said, case.bound)
    grammar = Always(case.allowed) if case.allowed else None
    return ReplyHandle(case.params, spec_of(case.vocabulary), start, grammar)


def core(case: Drawing) -> Drawn:
    """The core's answer."""
    try:
        found = handle_of(case).verdict_on(EMPTY, case.rows, case.position)
    except EdgeDecError as error:
        return Drawn((error.exit_code, error.message, error.hint or ""))
    return Drawn(None, found.tokens[0], found.bounds[0] if found.bounds else None)


def oracle(case: Drawing) -> Drawn:
    """The oracle's answer; the row is whole."""
    params = case.params
    history = DrawHistory(params, case.tokens, said=case.said, bound=case.bound)
    try:
        token = drawn_by_definition(case.rows, 0, params, case.position, history, case.allowed)
        bounded = history.bound is not None
        after = bound_after(case.rows, 0, params, token, history, case.allowed) if bounded else None
    except EdgeDecError as error:
        return Drawn((error.exit_code, error.message, error.hint or ""))
    return Drawn(None, token, after)


def draw(
    rows: HeadRows,
    row: int,
    params: DrawParams,
    position: int,
    history: Sequence[int],
    allowed: Allowed | None = None,
) -> int:
    """The token that the core draws behind row ``row``, after tokens that the reply has said.

    Raises the errors of ``CoreEngine.verify``.
    """
    size = rows.logits.shape[1] if rows.logits is not None else int(rows.ids.max()) + 1
    size = max(size, getattr(allowed, "size", 0))
    case = Drawing(row_of(rows, row), params, position, size, tuple(history), len(history), None, allowed)
    return handle_of(case).verdict_on(EMPTY, case.rows, position).tokens[0]


def row_of(rows: HeadRows, row: int) -> HeadRows:
    """One row of several."""
    at = slice(row, row + 1)
    logits = None if rows.logits is None else rows.logits[at]
    return HeadRows(
        rows.values[at], rows.ids[at], rows.logsumexp[at], rows.entropy[at], logits, rows.temperature
    )


def without_row(case: Drawing) -> Drawing:
    """The same draw from the head's list alone."""
    return replace(case, rows=replace(case.rows, logits=None))


def numbers(which: int, x: Any, seed: int = 0, position: int = 0, where: Any = None) -> NDArray[np.float64]:
    """The core's exp (0), log (1), uniform (2) or exponential (3) noise, or exp of all at once (4)."""
    given = np.ascontiguousarray(x, np.float64)
    found = np.zeros(given.size)
    if where is None:
        function("numbers")(which, given.ctypes.data, given.size, seed, position, found.ctypes.data)
    else:
        where.numbers(which, given, seed, position, found)
    return found


def compare_numbers(where: Any = None) -> None:
    """Check exp, log and noise of the core against the oracle's bits; ``where``: on another machine."""
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [rng.uniform(-760, 700, 5000), rng.normal(size=5000), [0.0, -0.0, -np.inf, 700.0, np.nan]]
    )
    some = np.abs(x[:5000]) + 1e-300
    ids = np.concatenate([np.arange(1000), rng.integers(0, 2**31, 1000)])
    seed, position = 2**63 + 5, 123_456
    for which, given, expected in (
        (0, x, noise.exp(x)),
        (4, x, noise.exp(x)),
        (1, some, noise.log(some)),
        (2, ids, noise.uniform(seed, position, ids)),
        (3, ids, noise.exponential(seed, position, ids)),
    ):
        found = numbers(which, given, seed, position, where)
        assert np.array_equal(found, expected, equal_nan=True), which


def head_of(logits: NDArray[np.float32], k: int, temperature: float, *, full: bool) -> HeadRows:
    """Head results of one row."""
    ids = np.lexsort((np.arange(logits.size), -logits))[:k].astype(np.int32)
    exact = logits.astype(np.float64) / temperature
    top = exact.max()
    weights = np.exp(exact - top)
    total = weights.sum()
    entropy = np.log(total) - (weights * np.maximum(exact - top, -1e9)).sum() / total
    sums = np.array([top + np.log(total)], np.float32), np.array([entropy], np.float32)
    return HeadRows(logits[ids][None], ids[None], *sums, logits[None] if full else None, temperature)


def random_drawing(rng: np.random.Generator, most: int = 3000) -> Drawing:
    """A draw of any kind: ties, sharp and flat rows, settings alone and together, masks."""
    size = int(rng.integers(1, 40) if rng.random() < 0.2 else rng.integers(65, most))
    spread, middle = rng.choice([0.3, 2.0, 6.0]), rng.choice([-4.0, 0.0, 4.0])
    logits = (rng.standard_normal(size) * spread + middle).astype(np.float32)
    if rng.random() < 0.3:  # many ties
        logits = np.round(logits * 2) / 2
    if rng.random() < 0.1:
        logits[rng.random(size) < 0.2] = -np.inf
        logits[rng.integers(size)] = 1.0
    params = random_params(rng, size)
    tokens = tuple(rng.integers(0, size, int(rng.integers(0, 60))).tolist())
    said = int(rng.integers(0, len(tokens) + 1))
    temperature = head_temperature(params) if rng.random() < 0.8 else 1.0
    bound = float(rng.uniform(0.5, 9.0)) if params.mirostat and rng.random() < 0.7 else None
    rows = head_of(logits, min(int(rng.choice([4, 64])), size), temperature, full=True)
    allowed = random_mask(rng, size) if rng.random() < 0.4 else None
    return Drawing(rows, params, int(rng.integers(0, 1 << 20)), size, tokens, said, bound, allowed)


def random_mask(rng: np.random.Generator, size: int) -> Mask:
    """Allow one token, a few, half, all but one, or all."""
    count = int(rng.choice([1, min(2, size), size // 4, size // 2, size - 1, size]))
    return Mask(rng.choice(size, max(count, 1), replace=False).tolist(), size)


def random_params(rng: np.random.Generator, size: int) -> DrawParams:
    """Settings of which some are on."""
    ranges = {
        "top_p": lambda: rng.choice([0.1, 0.5, 0.9, 0.95, 0.999]),
        "min_p": lambda: rng.choice([0.001, 0.02, 0.05, 0.5, 1.0]),
        "top_n_sigma": lambda: rng.uniform(0.1, 3.0),
        "typical": lambda: rng.uniform(0.05, 1.0),
        "eta": lambda: rng.choice([3e-4, 2e-3, 0.1]),
        "top_h": lambda: rng.uniform(0.05, 1.0),
        "edt": lambda: rng.uniform(0.1, 3.0),
        "mirostat": lambda: rng.uniform(0.5, 6.0),
        "repetition_penalty": lambda: rng.choice([0.7, 1.05, 1.3]),
        "frequency_penalty": lambda: rng.uniform(-2.0, 2.0),
        "presence_penalty": lambda: rng.uniform(-2.0, 2.0),
    }
    share = rng.choice([0.0, 0.1, 0.3])
    values: dict[str, Any] = {name: float(value()) for name, value in ranges.items() if rng.random() < share}
    values["temperature"] = float(
        rng.choice([0.0, 0.05, 0.3, 0.7, 1.0, 1.5, 20.0], p=[0.1, 0.1, 0.2, 0.2, 0.2, 0.1, 0.1])
    )
    if rng.random() < 0.3:
        values["top_k"] = int(rng.choice([1, 3, 40, 64, 100, 5000]))
    if rng.random() < 0.25:
        ids = rng.choice(size, min(size, int(rng.integers(1, 9))), replace=False).tolist()
        values["logit_bias"] = {token: float(rng.choice([-100.0, -5.0, 2.5, 30.0])) for token in ids}
    return DrawParams(seed=int(rng.integers(0, 1 << 63)) * 2 + int(rng.integers(2)), **values)
