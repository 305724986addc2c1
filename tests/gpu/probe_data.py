"""Makes ``kernels/wgsl/probe.json``: operands and what each function of the prelude must return for them.

python -m tests.gpu.probe_data
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgedec.backends.gpu.arithmetic import DATA
from tests.gpu.exact_numbers import INFINITY, MINUS, NAN, Exact, bits

COUNT = 512
Words = npt.NDArray[np.uint32]
HARD = (0, MINUS, INFINITY, MINUS | INFINITY, NAN, 1, MINUS | 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF)
HARD += tuple(bits(value) for value in (1.0, -1.0, 1 - 2**-24, 1 + 2**-23, 0.5, 1.5, 2.5, -3.5, 89.0, -104.0))

Function = Callable[[Exact, int, int, int], int]
RESULTS: tuple[tuple[str, str, Function], ...] = (
    ("fma", "fma", lambda at, a, b, c: at.fma(a, b, c)),
    ("product", "basic", lambda at, a, b, c: at.mul(a, b)),
    ("sum", "basic", lambda at, a, b, c: at.add(b, c)),
    ("difference", "basic", lambda at, a, b, c: at.sub(b, c)),
    ("product and sum", "basic", lambda at, a, b, c: at.add(at.mul(a, b), c)),
    ("sum and difference", "basic", lambda at, a, b, c: at.sub(at.add(a, c), a)),
    ("quotient", "divide", lambda at, a, b, c: at.div(a, b)),
    ("root", "root", lambda at, a, b, c: at.sqrt(c)),
    ("dot", "dot", lambda at, a, b, c: _dot(a, b)),
    ("maximum", "", lambda at, a, b, c: at.maximum(a, b)),
    ("minimum", "", lambda at, a, b, c: at.minimum(a, b)),
    ("rounding", "", lambda at, a, b, c: at.round_even(b)),
    ("conversion", "", lambda at, a, b, c: bits(float((c - ((c & MINUS) << 1)) >> 8))),
    ("half to float", "", lambda at, a, b, c: _from_half(a & 0xFFFF)),
    ("float to half", "", lambda at, a, b, c: _to_half(b)),
    ("exp", "", lambda at, a, b, c: at.exp(b)),
    ("silu", "", lambda at, a, b, c: at.silu(c)),
    ("softcap", "", lambda at, a, b, c: at.softcap(b, bits(30.0))),
)


def _dot(a: int, b: int) -> int:
    signed = [np.array([one], np.uint32).view(np.int8).astype(np.int32) for one in (a, b)]
    return int(np.dot(*signed)) & 0xFFFFFFFF


def _from_half(half: int) -> int:
    return int(np.array([half], np.uint16).view(np.float16).astype(np.float32).view(np.uint32)[0])


def _to_half(word: int) -> int:
    if word & ~MINUS > INFINITY:
        return (word >> 16 & 0x8000) | 0x7E00 | (word >> 13 & 0x3FF)
    with np.errstate(over="ignore"):
        return int(np.array([word], np.uint32).view(np.float32).astype(np.float16).view(np.uint16)[0])


def operands(count: int, seed: int) -> tuple[Words, Words, Words]:
    """Random and hard triples: a quarter of any bits, others of moderate size; often a * b and c cancel."""
    rng = np.random.default_rng(seed)
    made = [rng.integers(0, 1 << 32, count, dtype=np.uint64).astype(np.uint32) for _ in range(3)]
    moderate = np.arange(count) % 4 != 0
    for words in made:
        near = rng.integers(117, 133, count).astype(np.uint32) << np.uint32(23)
        words[moderate] = (words & np.uint32(0x807FFFFF) | near)[moderate]
        hard = rng.random(count) < 0.04
        words[hard] = rng.choice(np.array(HARD, np.uint32), int(hard.sum()))
    a, b, c = made
    cancel = np.arange(count) % 4 == 1
    with np.errstate(all="ignore"):
        off = 1 + rng.standard_normal(count) * np.exp2(-rng.integers(18, 50, count))
        c[cancel] = (-_floats(a) * _floats(b) * off).astype(np.float32).view(np.uint32)[cancel]
        # Squares, where roots are hardest.
        c[2::16] = (_floats(a)[2::16] ** 2).astype(np.float32).view(np.uint32)
    return a, b, c


def _floats(words: Words) -> npt.NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        return words.view(np.float32).astype(np.float64)


def expected(triples: tuple[Words, Words, Words], function: Function) -> tuple[Words, str]:
    """The results of ``function``, and the kind of each as a digit."""
    words, kinds = [], []
    for a, b, c in zip(*(one.tolist() for one in triples), strict=True):
        at = Exact()
        words.append(function(at, a, b, c))
        kinds.append(str(at.kind))
    return np.array(words, np.uint32), "".join(kinds)


def data() -> dict[str, Any]:
    """Content of the file."""
    triples = operands(COUNT, seed=0)
    results = []
    for name, primitive, function in RESULTS:
        words, kinds = expected(triples, function)
        results.append({"name": name, "primitive": primitive, "words": _text(words), "kinds": kinds})
    return {"operands": [_text(one) for one in triples], "results": results}


def _text(words: Words) -> str:
    return base64.b64encode(words.tobytes()).decode()


if __name__ == "__main__":
    Path(DATA).write_text(json.dumps(data(), indent=1) + "\n", encoding="utf-8")
