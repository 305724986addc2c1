"""Whole generations are the same under every kernel row, and trees equal chains, on bundles as exported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.onnx.forward import OnnxForward
from edgedec.bundle.manifest import Manifest
from edgedec.core.rows import ALL_ROWS, LAST_ROW, HeadRows, Rows
from edgedec.decode.engine import Engine
from edgedec.export import export_gguf
from edgedec.kernels import library
from edgedec.models import CATALOGUE, Store
from edgedec.sampling import DrawParams
from tests.fixtures.opened import onnx_forward
from tests.fixtures.tiny_gguf import CODED, CODED_SHAPE, TinyShape, write_tiny

FLOATS = {"*": "bf16", "token_embd": "f16", "attn_k": "q4_1", "ffn_up": "f16", "ffn_down": "f32"}
K_FORMATS = {"*": "q5_0", "ffn_gate": "q4_k", "ffn_up": "q5_k", "attn_v": "q6_k", "attn_k": "q4_1"}
MODELS = {
    "llama": ("llama", "q4_1", TinyShape()),
    "qwen2": ("qwen2", K_FORMATS, TinyShape(hidden=256, ffn=256, head_dim=64)),
    "few-bits": (
        "llama",
        {"*": "q3_k", "attn_q": "q2_k", "ffn_up": "q2_k"},
        TinyShape(hidden=256, ffn=256, head_dim=64),
    ),
    "tables": ("llama", {"*": "iq4_nl", "attn_q": "mxfp4", "ffn_up": "mxfp4"}, TinyShape()),
    "codebooks": ("llama", CODED, CODED_SHAPE),
    "floats": ("qwen2", FLOATS, TinyShape(ffn=80)),
    "gemma3": ("gemma3", "q8_0", TinyShape(layers=3, hidden=96, heads=4, kv_heads=1, head_dim=32)),
    "gemma4": ("gemma4", "q4_0", TinyShape(layers=7, hidden=96, heads=4, kv_heads=2, head_dim=48)),
}


@pytest.fixture(scope="module", params=MODELS)
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    architecture, formats, shape = MODELS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    export_gguf(
        write_tiny(folder / "tiny.gguf", architecture, formats=formats, shape=shape), folder / "bundle"
    )
    return folder / "bundle"


def load(bundle: Path, capacity: int = 250) -> OnnxForward:
    return onnx_forward(bundle, Manifest.load(bundle), threads=2, capacity=capacity)


def generate(bundle: Path, prompt: list[int], params: DrawParams, tokens: int) -> list[int]:
    engine = Engine(load(bundle))
    return [step.token for step in engine.generate(prompt, params, max_tokens=tokens, stop_ids=())]


def same_bits(a: HeadRows, row_a: int, b: HeadRows, row_b: int) -> bool:
    pairs = ((a.values, b.values), (a.ids, b.ids), (a.logsumexp, b.logsumexp), (a.entropy, b.entropy))
    return all(x[row_a].tobytes() == y[row_b].tobytes() for x, y in pairs)


def check_every_row(bundle: Path, monkeypatch: pytest.MonkeyPatch, prompt: list[int], tokens: int) -> None:
    greedy, sampled = DrawParams(), DrawParams(temperature=0.9, top_k=40, seed=11)
    seen = {}
    for isa in library.available():
        monkeypatch.setenv("EDGEDEC_ISA", isa)
        seen[isa] = [generate(bundle, prompt, params, tokens) for params in (greedy, sampled)]
    assert len(seen) >= 1
    assert all(tokens_of == seen["scalar"] for tokens_of in seen.values()), seen
    assert [len(part) for part in seen["scalar"]] == [tokens, tokens]


def check_tree(bundle: Path, prompt: list[int], capacity: int) -> None:
    """Eight nodes; every node's row equals that of a plain pass, one token at a time, along its path."""
    parents = [-1, -1, 0, 0, 1, 2, 2, 5]
    tokens = [7, 9, 11, 13, 15, 17, 19, 21]
    tree = load(bundle, capacity)
    tree.extend(prompt)
    together = tree.extend(tokens, parents=parents, rows=ALL_ROWS)
    plain = load(bundle, capacity)
    plain.extend(prompt)
    for node in range(len(tokens)):
        path = [node]
        while parents[path[0]] >= 0:
            path.insert(0, parents[path[0]])
        for token in (tokens[i] for i in path):
            alone = plain.extend([token])
        assert same_bits(together, node, alone, 0), node
        plain.rewind(len(prompt))
    tree.keep_path([0, 2, 5, 7])
    for token in (tokens[i] for i in (0, 2, 5, 7)):
        plain.extend([token])
    assert same_bits(tree.extend([3]), 0, plain.extend([3]), 0)


def test_generations_are_the_same_under_every_row(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_every_row(bundle, monkeypatch, list(range(5, 60)), 128)


@pytest.mark.parametrize("isa", ["avx512_vnni", "amx"])
def test_generations_under_modelled_rows(bundle: Path, isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """AVX-512 and AMX in software, where SIMDe was installed when the library was built."""
    emulated = library.emulated_path()
    if emulated is None:
        pytest.skip("the modelled rows were not built: install SIMDe's headers and install again")
    prompt, params = list(range(5, 60)), DrawParams(temperature=0.9, top_k=40, seed=3)
    native = generate(bundle, prompt, params, 64)
    monkeypatch.setenv("EDGEDEC_ISA", isa)
    monkeypatch.setattr(library, "library_path", lambda: emulated)
    monkeypatch.setattr(library, "isa", lambda: isa)
    assert generate(bundle, prompt, params, 64) == native


def test_tree_rows_equal_plain_rows(bundle: Path) -> None:
    check_tree(bundle, list(range(5, 40)), 250)


def test_a_pass_over_k_tokens_equals_k_passes(bundle: Path) -> None:
    tokens = list(np.random.default_rng(0).integers(0, 250, 16))
    one = load(bundle)
    alone = [one.extend([int(t)]) for t in tokens]
    for k in range(2, 17):
        many = load(bundle)
        rows = many.extend([int(t) for t in tokens[:k]], rows=Rows())
        assert all(same_bits(rows, i, alone[i], 0) for i in range(k)), k


def test_an_unknown_row_is_refused(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEDEC_ISA", "avx9000")
    with pytest.raises(Exception, match="EDGEDEC_ISA=avx9000 is not a kernel row"):
        load(bundle)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, entry in CATALOGUE.items() if entry.tested == "real"])
def test_real_models_under_every_row(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pulls the model when it is missing. The scalar row makes this a matter of minutes."""
    bundle = Store().ensure(name, progress=lambda stage, done, total: None)
    prompt = [11, 50, 1000, 42, 7, 2000, 31]
    check_tree(bundle, prompt, 512)
    check_every_row(bundle, monkeypatch, prompt, 128)


def test_last_row_is_the_default(bundle: Path) -> None:
    forward = load(bundle)
    assert len(forward.extend([1, 2, 3])) == len(load(bundle).extend([1, 2, 3], rows=LAST_ROW)) == 1
