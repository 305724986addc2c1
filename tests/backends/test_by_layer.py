"""Gemma 4's layers of two kinds and shared keys: the bits of a plain run, whatever passes and rewinds came
before; drafts; and the per-layer table, of which no pass keeps a page.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import load as load_graph

from edgedec.backends.onnx import model as onnx
from edgedec.backends.onnx.forward import OnnxForward
from edgedec.bundle.exits import taps_of
from edgedec.bundle.manifest import DRAFTING, Manifest
from edgedec.core.cache_kinds import Keys
from edgedec.core.rows import Rows
from edgedec.export import export_gguf
from edgedec.memory import KvType, sizes
from edgedec.sampling import DrawParams
from tests.backends.ring_models import (
    FULL,
    LONGEST,
    SLACK,
    WINDOW,
    bits,
    compare_histories,
    feed,
    opened,
    replies,
    text,
)
from tests.fixtures.tiny_gguf import TinyShape, write_tiny

SHAPE = TinyShape(layers=8, hidden=96, ffn=160, heads=6, kv_heads=2, head_dim=48, window=WINDOW, context=1024)
"""Sizes that fill no vector; four layers have keys of their own."""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gemma4")
    formats = {"*": "q4_0", "per_layer_token_embd": "q5_0", "token_embd": "q8_0"}
    export_gguf(write_tiny(folder / "tiny.gguf", "gemma4", formats=formats, shape=SHAPE), folder / "bundle")
    return folder / "bundle"


@pytest.fixture(autouse=True)
def short_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx, "MAX_PASS_TOKENS", LONGEST)


def both(bundle: Path, kv: KvType, monkeypatch: pytest.MonkeyPatch) -> tuple[OnnxForward, OnnxForward]:
    """With rings that go round often, and with rings that hold all tokens."""
    whole = opened(bundle, kv)
    monkeypatch.setattr(sizes, "ring_sizes", lambda: (SLACK, 2))  # rings need not fill pages
    ring = opened(bundle, kv)
    assert ring._kv.arrays["kv_window"].shape[3] < 30 < whole._kv.arrays["kv_window"].shape[3]
    return ring, whole


def test_the_manifest_says_who_has_keys(bundle: Path) -> None:
    spec = Manifest.load(bundle).spec
    assert spec.kinds == (Keys("kv_cache", 1, 1, 96), Keys("kv_window", 3, 2, 48, WINDOW))
    assert (spec.n_layers, spec.ffn_size) == (8, 320)
    forward = opened(bundle)
    assert forward._kv.arrays["kv_cache"].shape == (1, 2, 1, 400, 96)
    assert forward._kv.arrays["kv_window"].shape[:3] == (3, 2, 2)


@pytest.mark.parametrize("kv", ["fp16", "int8"])
def test_random_histories_of_every_verb(kv: KvType, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains, trees, rewinds; the rings go round many times."""
    compare_histories(*both(bundle, kv, monkeypatch), np.random.default_rng(5), 120)


def test_prompts_have_the_bits_of_single_tokens(bundle: Path) -> None:
    """Rows of the per-layer table are read for a whole pass at once."""
    tokens = text(60)
    one, many = opened(bundle), opened(bundle)
    feed(many, tokens[:54])
    for token in tokens[:54]:
        one.extend([token])
    assert bits(one.extend(tokens[54:], rows=FULL)) == bits(many.extend(tokens[54:], rows=FULL))


@pytest.mark.parametrize("kv", ["fp16", "int8"])
def test_rows_that_are_asked_for_have_the_bits_of_all(kv: KvType, bundle: Path) -> None:
    """Layers without keys of their own compute the others only where they lie behind the first of these."""
    rng = np.random.default_rng(3)
    some, every = opened(bundle, kv), opened(bundle, kv)
    for number in range(40):
        size = int(rng.integers(1, LONGEST + 1))
        tokens = text(size, number)
        parents = [int(rng.integers(-1, i)) for i in range(size)] if number % 3 == 0 else None
        wanted = tuple(sorted(rng.choice(size, int(rng.integers(0, size + 1)), replace=False).tolist()))
        got = some.extend(tokens, parents=parents, rows=Rows(wanted, full=True))
        whole = every.extend(tokens, parents=parents, rows=FULL)
        for at, row in enumerate(wanted):
            assert got.values[at].tobytes() == whole.values[row].tobytes()
            assert got.logits is not None
            assert whole.logits is not None
            assert got.logits[at].tobytes() == whole.logits[row].tobytes()
        if parents is not None:
            for forward in (some, every):
                forward.keep_path([0])


@pytest.mark.parametrize("params", [DrawParams(), DrawParams(temperature=0.8, top_k=20, seed=3)])
@pytest.mark.parametrize("kv", ["fp16", "int8"])
def test_replies_with_drafts_are_those_without(
    kv: KvType, params: DrawParams, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring, whole = both(bundle, kv, monkeypatch)
    found, _, drafted = replies([whole, ring, opened(bundle, kv)], params)
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 150
    assert sum(record.drafted > record.committed for record in drafted) > 2  # some are taken back


def test_the_drafting_graph_has_hidden_states_and_no_exits(bundle: Path) -> None:
    graph = load_graph(str(bundle / DRAFTING), load_external_data=False)
    stated = {entry.key: entry.value for entry in graph.metadata_props}
    assert stated["exits"] == ""
    assert stated["taps"] == ",".join(map(str, sorted({*taps_of(8), 7})))


def test_the_plan_counts_the_per_layer_table_apart(bundle: Path) -> None:
    """No pass keeps it: its rows are read from the file."""
    spec = Manifest.load(bundle).spec
    vocab, cols = spec.vocab_size, 8 * 32
    assert spec.table_bytes >= vocab * cols * 22 // 32  # q5_0
    assert spec.table_bytes < 1.2 * vocab * cols * 22 // 32
