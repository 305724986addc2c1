"""Divergence from a reference: the arithmetic, the windows, and whole runs on models of random weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgedec.bench.harness import runtimes
from edgedec.bench.harness.runtimes import OwnRun, PeerRun
from edgedec.bench.harness.worker import Worker
from edgedec.bench.peers.numpy_peer import Weights
from edgedec.bench.studies.faithful import Divergence, TextWindow, compare_logits, windows_of
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BackendError, BadFileError, NotFoundError, UsageError
from edgedec.export import export_gguf, export_huggingface
from tests.bench.support import Fakes
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_huggingface import write_huggingface
from tests.reference.model import reference_logits

TOKENS = [3, 9, 270, 41, 5, 5, 100, 17, 260, 33, 8, 64, 12, 250, 7, 90, 11, 2, 4, 6]


def quiet(stage: str, done: int, total: int) -> None:
    assert done <= total


def test_divergence_of_two_coins() -> None:
    p, q = np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]])
    found = Divergence()
    found.add(np.log(p).astype(np.float32) + 7, np.log(q).astype(np.float32), [0])
    assert found.kl_mean == pytest.approx(0.5 * np.log(2) + 0.5 * np.log(2 / 3), abs=1e-6)
    assert found.top1_agreement == 0.0  # 0 on a tie, against 1
    assert found.as_json()["perplexity"] == pytest.approx(4)
    assert found.as_json()["reference_perplexity"] == pytest.approx(2)


def test_divergence_does_not_depend_on_how_rows_are_cut() -> None:
    rng = np.random.default_rng(0)
    reference = rng.normal(0, 3, (9, 50)).astype(np.float32)
    side = reference + rng.normal(0, 0.3, reference.shape).astype(np.float32)
    following = rng.integers(0, 50, 8).tolist()
    whole, parts = Divergence(), Divergence()
    whole.add(reference, side, following)
    for start in range(0, 9, 2):
        parts.add(reference[start : start + 2], side[start : start + 2], following[start : start + 2])
    assert parts.as_json() == whole.as_json()
    assert whole.kl_mean > 0
    assert len(whole.loss) == 8
    same = Divergence()
    same.add(reference, reference, following)
    assert (same.top1_agreement, same.kl_mean) == (1.0, 0.0)


def test_windows_cover_the_text_once() -> None:
    windows = windows_of(range(10, 20), 4, bos=1)
    assert [window.tokens for window in windows] == [
        (1, 10, 11, 12),
        (1, 13, 14, 15),
        (1, 16, 17, 18),
        (1, 19),
    ]
    assert windows[0].following == [10, 11, 12, 13]
    assert windows[-1].following == [19]
    assert [window.tokens for window in windows_of([1, 2, 3], 2, bos=None)] == [(1, 2), (3,)]


def test_all_sides_see_the_same_windows(fakes: Fakes) -> None:
    windows = [TextWindow((1, 2, 3), 4), TextWindow((5, 6))]
    both = [fakes.side("same", seconds=3), fakes.side("flat", seconds=1)]
    report = compare_logits(fakes.side("exact", seconds=3), both, windows, quiet)
    asked = [(line["name"], line["tokens"]) for line in fakes.asked("logits")]
    assert asked == [(name, list(w.tokens)) for w in windows for name in ("exact", "same", "flat")]
    assert report.sides["same"].kl_mean == 0.0
    assert report.sides["flat"].kl_mean > 0.1
    assert report.sides["flat"].top1_agreement == 1.0
    facts = report.as_json()
    assert facts["window"] == 3
    assert set(facts) == {"reference", "window", "sides", "versions"}


def test_logits_that_are_not_numbers_are_an_error(fakes: Fakes) -> None:
    bad = fakes.side("bad", seconds=float("nan"))
    with pytest.raises(BackendError, match="bad gave logits that are not numbers"):
        compare_logits(fakes.side("exact"), [bad], [TextWindow((1, 2))], quiet)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3"])
def test_real_sides_on_random_weights(tmp_path: Path, architecture: str) -> None:
    gguf = write_tiny(tmp_path / "tiny.gguf", architecture, shape=TinyShape(layers=6), formats="q5_0")
    export_gguf(gguf, tmp_path / "bundle")
    exact = runtimes.reference_side("numpy", PeerRun(gguf, 1, 32, tmp_path))
    ours = OwnRun(1, context=32).side(tmp_path / "bundle")
    windows = windows_of(TOKENS, 12, bos=None)
    report = compare_logits(exact, [ours], windows, quiet)
    divergence = report.sides["edgedec"]
    assert len(divergence.kl) == len(TOKENS)
    assert divergence.top1_agreement >= 0.75
    assert 0 < divergence.kl_mean < 0.02
    with Worker(exact) as worker:
        worker.open()
        worker.request("logits", tokens=TOKENS, path=str(tmp_path / "rows.npy"))
    rows = np.load(tmp_path / "rows.npy")
    np.testing.assert_allclose(rows, reference_logits(gguf, TOKENS), rtol=0, atol=2e-4)


def test_the_numpy_reference_says_what_it_does_not_know(tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "tiny.gguf", "llama", extra={"general.architecture": "rwkv"})
    with pytest.raises(RuntimeError, match="does not know 'rwkv'; try transformers"):
        Weights(str(gguf))


def test_another_file_than_the_bundles_is_refused(tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "tiny.gguf")
    export_gguf(gguf, tmp_path / "bundle")
    manifest = Manifest.load(tmp_path / "bundle")
    runtimes.check_source(manifest, gguf)
    other = write_tiny(tmp_path / "other.gguf", seed=1)
    assert other.stat().st_size == gguf.stat().st_size
    with pytest.raises(UsageError, match=r"other\.gguf is not the file"):
        runtimes.check_source(manifest, other)


def test_a_bundle_of_parts_knows_them_again(tmp_path: Path) -> None:
    first = write_tiny(tmp_path / "big.gguf", tensors_a_part=8)
    export_gguf(first, tmp_path / "bundle")
    manifest = Manifest.load(tmp_path / "bundle")
    parts = sorted(tmp_path.glob("big-*.gguf"))
    assert len(parts) == len(manifest.source_hashes) > 1
    counted: list[int] = []
    for part in parts:
        runtimes.check_source(manifest, part, counted.append)
    assert sum(counted) == len(parts) * sum(part.stat().st_size for part in parts)
    damaged = bytearray(parts[-1].read_bytes())
    damaged[-1] ^= 1
    parts[-1].write_bytes(damaged)
    with pytest.raises(UsageError, match=r"is not the file that .* was made of"):
        runtimes.check_source(manifest, first)
    parts[-1].unlink()
    with pytest.raises(NotFoundError, match=f"no such file: .*{parts[-1].name}"):
        runtimes.check_source(manifest, first)


def test_a_bundle_of_a_directory_has_no_such_file(tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "tiny.gguf", "qwen2")
    export_huggingface(write_huggingface(tmp_path / "source", gguf), tmp_path / "bundle")
    with pytest.raises(BadFileError, match="does not say which GGUF file"):
        runtimes.check_source(Manifest.load(tmp_path / "bundle"), gguf)
