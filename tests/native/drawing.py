"""Random draws, and the native sampler's answers beside Python's."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import EdgeDecError
from edgedec.core.rows import HeadRows
from edgedec.kernels.library import library_path
from edgedec.sampling import DrawHistory, DrawParams, bound_after, draw, head_temperature, noise, portable
from edgedec.sampling.draw import row_of, survivors
from edgedec.sampling.warpers import total_of
from tests.kernels.float_rows import Pointer, pointer

SETTINGS = (
    "temperature", "top_p", "min_p", "top_n_sigma", "typical", "eta", "top_h", "edt", "mirostat",
    "mirostat_eta", "repetition_penalty", "frequency_penalty", "presence_penalty",
)  # fmt: skip


@cache
def library() -> ctypes.CDLL:
    return ctypes.CDLL(str(library_path()))


def array(values: Any, kind: type) -> Pointer:
    """An argument for a function of the library, here or in the emulator; never empty."""
    found = np.ascontiguousarray(values, kind)
    return pointer(found if found.size else np.zeros(1, kind))


@dataclass(frozen=True)
class Drawing:
    """One draw: a head row, settings, and the tokens before, of which the last may be taken back."""

    rows: HeadRows
    params: DrawParams
    position: int = 0
    vocabulary: int = 0
    row: int = 0
    tokens: tuple[int, ...] = ()
    said: int = 0
    behind: tuple[int, ...] = ()
    bound: float | None = None


@dataclass(frozen=True)
class Drawn:
    """An error's code, message and hint; or the token, its distribution, and the bound after it."""

    error: tuple[int, str, str] | None = None
    token: int = -1
    kept: tuple[int, ...] = ()
    shares: bytes = b""
    bound: float | None = None


@dataclass
class Settings:
    """Settings as the probes take them."""

    params: DrawParams
    sizes: list[int] = field(default_factory=list)

    def numbers(self, *more: float) -> Pointer:
        return array([*(getattr(self.params, name) for name in SETTINGS), *more], np.float64)

    def bias(self) -> tuple[Pointer, Pointer]:
        ids = [token for token, _ in self.params.logit_bias]
        values = [value for _, value in self.params.logit_bias]
        return array(ids, np.int32), array(values, np.float64)


def native(case: Drawing, where: Any = None) -> Drawn:
    """The native sampler's answer; ``where``: another library than this machine's."""
    rows, params = case.rows, case.params
    full = rows.logits is not None
    sizes = [len(rows), rows.ids.shape[1], case.vocabulary, full, case.row, case.position]
    sizes += [len(case.tokens), case.said, len(case.behind), len(params.logit_bias), params.top_k]
    sizes += [params.seed - (1 << 64 if params.seed >> 63 else 0), case.bound is not None]
    settings = Settings(params)
    token, kept = np.zeros(1, np.int32), np.zeros(case.vocabulary, np.int32)
    shares, count, bound = np.zeros(case.vocabulary), np.zeros(1, np.int64), np.zeros(1)
    message = np.zeros(512, np.uint8)
    code = call(
        where, "draw", array(sizes, np.int64), settings.numbers(rows.temperature, case.bound or 0.0),
        array(rows.values, np.float32), array(rows.ids, np.int32),
        array([rows.logsumexp, rows.entropy], np.float32), array(rows.logits if full else [], np.float32),
        array([*case.tokens, *case.behind], np.int32), *settings.bias(),
        *(pointer(one) for one in (token, kept, shares, count, bound, message)),
    )  # fmt: skip
    if code:
        text, hint = message.tobytes().split(b"\0")[0].decode().split("\n")
        return Drawn((code, text, hint))
    told = max(count.item(), 0)
    after = bound.item() if params.mirostat and told else None
    return Drawn(None, token.item(), tuple(kept[:told].tolist()), shares[:told].tobytes(), after)


def call(where: Any, name: str, *arguments: Any) -> int:
    """The result of a probe; arrays are written in place."""
    found: int = getattr(where or library(), f"edgedec_probe_{name}")(*arguments)
    return found


def needs(params: DrawParams, *, logprobs: bool = False) -> list[float]:
    """Whole rows needed or not with lists of 64, the temperature of the sums, bytes per entry of a row."""
    settings, out = Settings(params), np.zeros(3)
    sizes = array([0, 64, *[0] * 7, len(params.logit_bias), params.top_k], np.int64)
    call(None, "draw_needs", sizes, settings.numbers(), *settings.bias(), int(logprobs), pointer(out))
    found: list[float] = out.tolist()
    return found


def python(case: Drawing) -> Drawn:
    """The Python sampler's answer."""
    params = case.params
    committed = DrawHistory(params, case.tokens, said=case.said, bound=case.bound)
    history = committed.after(case.behind, committed.bound)
    try:
        token = draw(case.rows, case.row, params, case.position, history)
        if params.uncut or params.greedy:
            return Drawn(None, token)
        seen = row_of(case.rows, case.row, params, history, None)
        left = survivors(seen, params)
        if left is None:  # the token is sure without them
            return Drawn(None, token)
        weights = portable.exp((left.values - left.values[0]) / seen.temperature)
        bound = bound_after(case.rows, case.row, params, token, history) if params.mirostat else None
    except EdgeDecError as error:
        return Drawn((error.exit_code, error.message, error.hint or ""))
    return Drawn(None, token, tuple(left.ids.tolist()), (weights / total_of(weights)).tobytes(), bound)


def compare_numbers(where: Any) -> None:
    """Check exp, log and noise of a library against Python's, bit for bit."""
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [rng.uniform(-760, 700, 5000), rng.normal(size=5000), [0.0, -0.0, -np.inf, 700.0, np.nan]]
    )
    some = np.abs(x[:5000]) + 1e-300
    ids = np.concatenate([np.arange(1000), rng.integers(0, 2**31, 1000)])
    seed, position = 2**63 + 5, 123_456
    for which, given, expected in (
        (0, x, portable.exp(x)),
        (4, x, portable.exp(x)),
        (1, some, portable.log(some)),
        (2, ids, noise.uniform(seed, position, ids)),
        (3, ids, noise.exponential(seed, position, ids)),
    ):
        found, key = pointer(np.zeros(given.size)), array([seed, position], np.uint64)
        call(where, "numbers", which, array(given, np.float64), ctypes.c_size_t(given.size), key, found)
        assert np.array_equal(found.array, expected, equal_nan=True), which


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
    """A draw of any kind: ties, sharp and flat rows, settings alone and together, with and without logits."""
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
    behind = tuple(rng.integers(0, size, int(rng.integers(0, 5))).tolist())
    temperature = head_temperature(params) if rng.random() < 0.8 else 1.0
    bound = float(rng.uniform(0.5, 9.0)) if params.mirostat and rng.random() < 0.7 else None
    rows = head_of(logits, min(int(rng.choice([4, 64])), size), temperature, full=rng.random() < 0.85)
    return Drawing(rows, params, int(rng.integers(0, 1 << 20)), size, 0, tokens, said, behind, bound)


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
