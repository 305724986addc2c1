"""Tiny models with windows, and rings as small as they can be, so that they go round often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.onnx import model as onnx
from edgedec.backends.onnx.forward import OnnxForward
from edgedec.core.rows import HeadRows, Rows
from edgedec.decode.engine import Engine, PassRecord
from edgedec.decode.speculation import Speculation
from edgedec.draft import Lookup, Recycling
from edgedec.export import export_gguf
from edgedec.memory import KvType, sizes
from edgedec.sampling import DrawParams
from tests.backends.without_rings import write_without_rings
from tests.fixtures.opened import onnx_forward
from tests.fixtures.paths import path_to
from tests.fixtures.tiny_gguf import TinyShape, write_tiny

WINDOW, SLACK, LONGEST = 8, 6, 9
RING = WINDOW + SLACK + LONGEST
FULL = Rows(full=True)
MODELS = {"gemma2": 2, "gemma3": 7, "gemma3-windows-alone": 2, "gpt-oss": 2}
"""Name -> layers. Of gemma2 and gpt-oss every second one has a window, of gemma3 five of six."""
KINDS = [(name, kv) for name in MODELS for kv in ("fp16", "int8")]
Bundles = Callable[[str], tuple[Path, Path]]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    """(with rings, without) of a tiny model, made once."""
    made: dict[str, tuple[Path, Path]] = {}

    def make(name: str) -> tuple[Path, Path]:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            shape = TinyShape(layers=MODELS[name], window=WINDOW, context=1024)
            gguf = write_tiny(folder / "tiny.gguf", name.removesuffix("-windows-alone"), shape=shape)
            export_gguf(gguf, folder / "bundle")
            made[name] = folder / "bundle", write_without_rings(folder / "bundle", folder / "whole")
        return made[name]

    return make


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "ring_sizes", lambda: (SLACK, 2))  # rings need not fill pages
    monkeypatch.setattr(onnx, "MAX_PASS_TOKENS", LONGEST)


def opened(
    bundle: Path, kv: KvType = "fp16", capacity: int = 400, max_pass: int | None = None
) -> OnnxForward:
    return onnx_forward(bundle, threads=2, capacity=capacity, kv=kv, max_pass=max_pass)


def both(bundles: Bundles, name: str, kv: KvType = "fp16") -> tuple[OnnxForward, OnnxForward]:
    """With rings, and without."""
    with_rings, without_rings = bundles(name)
    return opened(with_rings, kv), opened(without_rings, kv)


def bits(rows: HeadRows) -> bytes:
    assert rows.logits is not None
    parts = (rows.values, rows.ids, rows.logsumexp, rows.entropy, rows.logits)
    return b"".join(part.tobytes() for part in parts)


def feed(forward: OnnxForward, tokens: list[int]) -> bytes:
    """In passes as long as they may be; the bits of all rows."""
    pieces = [tokens[i : i + LONGEST] for i in range(0, len(tokens), LONGEST)]
    return b"".join(bits(forward.extend(piece, rows=FULL)) for piece in pieces)


def text(count: int, seed: int = 0) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, 250, count)]


def compare_histories(ring: OnnxForward, whole: OnnxForward, rng: np.random.Generator, rounds: int) -> int:
    """Feed both the same chains and trees, and go back; returns how often a rewind left fewer tokens."""
    fell = 0
    for _ in range(rounds):
        if ring.length > 350 or rng.random() < 0.2:
            length = max(ring.length - int(rng.integers(0, 30 if rng.random() < 0.2 else SLACK)), 0)
            expected = ring.reachable(length)
            ring.rewind(length)
            assert ring.length == expected
            fell += expected != length
            whole.rewind(ring.length)
        size = int(rng.integers(1, LONGEST + 1))
        tokens = text(size, int(rng.integers(1 << 30)))
        parents = None if rng.random() < 0.5 else [int(rng.integers(-1, i)) for i in range(size)]
        found = [bits(forward.extend(tokens, parents=parents, rows=FULL)) for forward in (ring, whole)]
        assert found[0] == found[1]
        if parents:
            path = path_to(int(rng.integers(-1, size)), parents)
            for forward in (ring, whole):
                forward.keep_path(path)
    return fell


def replies(
    forwards: Sequence[OnnxForward], params: DrawParams
) -> tuple[list[list[int]], list[PassRecord], list[PassRecord]]:
    """Replies of 150 tokens, the last of them with drafts; the passes of the last two."""
    prompt = [5, 17, 3, 3, 42, 8, 5, 17, 3, 3, 42]
    found: list[list[int]] = []
    passes: list[list[PassRecord]] = []
    for forward in forwards:
        drafters = [Lookup(), Recycling(memory=1 << 16)] if forward is forwards[-1] else []
        speculation = Speculation(list(drafters), limit=LONGEST - 1) if drafters else None
        passes.append([])
        engine = Engine(forward, speculation=speculation, observe=passes[-1].append)
        steps = engine.generate(prompt, params, max_tokens=150, stop_ids=())
        found.append([step.token for step in steps])
    return found, passes[-2], passes[-1]
