"""llama.cpp itself behind our seam: a real model in both backends, and architectures that only it runs.

Slow, and only where llama-cpp-python is. The real model is smollm2.gguf in the folder EDGEDEC_TEST_GGUF.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.open import open_backend
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import EdgeDecError
from edgedec.core.forward import Forward
from edgedec.core.rows import ALL_ROWS, LAST_ROW, Rows
from edgedec.decode.engine import Engine
from edgedec.export import export_gguf
from edgedec.sampling import DrawParams
from edgedec.text.tokenizer import Tokenizer
from tests.cli.support import run
from tests.fixtures.foreign_gguf import FOREIGN, write_foreign

pytestmark = pytest.mark.slow
FULL = Rows(full=True)
TOLERANCE = 0.1
"""Of SmolLM2's logits, which lie between -10 and 25."""
PROMPTS = (
    "The capital of France is", "def fibonacci(n):", "Once upon a time there was a", "Water boils at",
    "The three primary colours are", "In 1969, the first",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``home(backend)``: the bundle of the real model for a backend; the probe's findings go elsewhere."""
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed (extra gguf)")
    folder = tmp_path_factory.mktemp("home")

    def bundle(backend: str) -> Path:
        models = os.environ.get("EDGEDEC_TEST_GGUF")
        if not models:
            pytest.skip("EDGEDEC_TEST_GGUF names no folder with smollm2.gguf")
        if not (folder / backend).exists():
            export_gguf(Path(models) / "smollm2.gguf", folder / backend, backend=backend)
        return folder / backend

    return bundle


@pytest.fixture(autouse=True)
def findings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEDEC_HOME", str(tmp_path_factory.getbasetemp() / "findings"))


def opened(bundle: Path, capacity: int = 512) -> Forward:
    return open_backend(bundle, Manifest.load(bundle), threads=2).forward(CacheConfig(capacity))


def encoded(bundle: Path, text: str) -> list[int]:
    return Tokenizer.load(bundle, Manifest.load(bundle).tokenizer).encode(text)


def greedy(forward: Forward, prompt: list[int], tokens: int) -> list[int]:
    engine = Engine(forward)
    steps = engine.generate(prompt, DrawParams(), max_tokens=tokens, stop_ids=())
    return [step.token for step in steps]


def test_predictions_are_mostly_those_of_our_kernels(home: Callable[[str], Path]) -> None:
    """Along 64 greedy tokens of ours; llama.cpp left alone would leave that path at the first near tie."""
    ours, theirs = opened(home("edgedec")), opened(home("llama.cpp"))
    agreed, total = 0, 0
    for text in PROMPTS:
        prompt = encoded(home("edgedec"), text)
        continued = greedy(ours, prompt, 64)
        theirs.rewind(0)
        rows = theirs.extend(prompt + continued[:-1], rows=ALL_ROWS).ids[len(prompt) - 1 :]
        assert len(rows) == len(continued) == 64
        agreed += sum(int(best[0]) == token for best, token in zip(rows, continued, strict=True))
        total += 64
        assert all(token in best[:5] for best, token in zip(rows, continued, strict=True))
    print(f"\n{agreed} of {total} greedy tokens are llama.cpp's best too")
    assert agreed >= 0.9 * total


def test_tree_rows_are_nearly_plain_rows(home: Callable[[str], Path]) -> None:
    forward = opened(home("llama.cpp"))
    prompt = encoded(home("llama.cpp"), "The quick brown fox jumps over the lazy dog. " * 6)
    rng = np.random.default_rng(1)
    tokens = rng.integers(100, 20000, 16).tolist()
    parents = [-1, *(int(rng.integers(-1, node)) for node in range(1, 16))]
    forward.extend(prompt)
    tree = forward.extend(tokens, parents=parents, rows=FULL)
    forward.rewind(len(prompt))
    worst = 0.0
    assert tree.logits is not None
    for node in range(16):
        path = [node]
        while parents[path[0]] >= 0:
            path.insert(0, parents[path[0]])
        plain = forward.extend([tokens[i] for i in path], rows=Rows(last=True, full=True))
        assert plain.logits is not None
        worst = max(worst, float(np.abs(plain.logits[0] - tree.logits[node]).max()))
        forward.rewind(len(prompt))
    apart = float(np.abs(tree.logits[0] - tree.logits[1]).max())
    print(f"\nrows of a tree: {worst:.3f} at most from plain ones; two different rows: {apart:.1f}")
    assert worst < TOLERANCE < apart


def test_a_rewind_is_exact(home: Callable[[str], Path]) -> None:
    forward = opened(home("llama.cpp"))
    prompt = encoded(home("llama.cpp"), "A rewind forgets what came after it, and nothing else.")
    forward.extend(prompt)
    first = [forward.extend([token], rows=FULL).logits for token in (5, 900, 17)]
    forward.rewind(len(prompt))
    forward.extend([33] * 20)
    forward.rewind(len(prompt))
    again = [forward.extend([token], rows=FULL).logits for token in (5, 900, 17)]
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


def test_what_it_holds(home: Callable[[str], Path]) -> None:
    held = opened(home("llama.cpp"), capacity=1000).nbytes()
    spec = Manifest.load(home("llama.cpp")).spec
    a_token = spec.n_layers * spec.n_kv_heads * spec.head_dim * 4
    assert held["weights"] == pytest.approx(96.6e6, rel=0.1)
    assert 1000 * a_token <= held["kv_cache"] <= 1.05 * 1024 * a_token
    assert held["scratch"] > 0


@pytest.mark.parametrize("architecture", FOREIGN)
def test_generate_runs_an_architecture_that_edgedec_does_not_build(architecture: str, tmp_path: Path) -> None:
    gguf = write_foreign(tmp_path / "tiny.gguf", architecture)
    args = ["generate", "-m", str(gguf), "-p", "hello", "--max-tokens", "12", "--json"]
    result = run(None, *args)
    assert result.exit_code == 0, result.stderr
    assert "is run by llama.cpp, not by EdgeDec's kernels" in result.stderr
    report = json.loads(result.stdout)
    assert 1 <= len(report["tokens"]) <= 12
    assert report["stats"]["isa"] == "llama.cpp"
    again = run(None, *args, "--draft", "lookup")
    assert json.loads(again.stdout)["tokens"] == report["tokens"]
    assert "without drafts" in again.stderr


def test_damaged_files_are_one_line_and_kill_nobody(tmp_path: Path) -> None:
    """Truncated, or with some bytes of the header changed: our reader or the probe says no, or it runs."""
    whole = write_foreign(tmp_path / "tiny.gguf", "gpt2").read_bytes()
    gguf, rng = tmp_path / "damaged.gguf", np.random.default_rng(2)
    messages: list[str] = []
    for index in range(30):
        content = bytearray(whole)
        if index < 10:
            del content[int(rng.integers(0, len(whole))) :]
        for position in rng.integers(0, 12000, 4).tolist() if index >= 10 else ():
            content[position] = int(rng.integers(0, 256))
        gguf.write_bytes(content)
        out = tmp_path / f"out{index}"
        try:
            manifest = export_gguf(gguf, out)
            open_backend(out, manifest).forward(CacheConfig(16)).extend([1, 2, 3], rows=LAST_ROW)
        except EdgeDecError as error:
            messages.append(str(error))
    assert len(messages) >= 10
    assert not [message for message in messages if "\n" in message]
