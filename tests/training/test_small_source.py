"""A small model as training reads it: its layers in torch compute its logits, other models are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.rows import Rows
from edgedec.export import export_gguf
from edgedec.training.small_source import SmallSource
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import CONTEXT, run_tiny

torch = pytest.importorskip("torch")

SHAPE = TinyShape(layers=3, context=CONTEXT)


def written(folder: Path, architecture: str = "llama", **changes: object) -> Path:
    return write_tiny(folder / f"{architecture}.gguf", architecture, shape=SHAPE, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_our_kernels_compute_the_logits_of_the_model_in_training(tmp_path: Path, architecture: str) -> None:
    from edgedec.training.small_model import SmallModel

    path = written(tmp_path, architecture, formats="f32")
    source = SmallSource(path)
    model = SmallModel(source.hyper, source.arrays, source.frequencies)
    tokens = np.random.default_rng(1).integers(0, source.vocabulary, 24)
    with torch.no_grad():
        outputs = model(torch.from_numpy(source.embedding.gather(tokens)[None]))[0].numpy()
    expected = outputs @ source.head.gather(np.arange(source.vocabulary)).T
    export_gguf(path, tmp_path / "bundle")
    ready = run_tiny(tmp_path / "bundle")
    head = ready.forward.extend(tokens.tolist(), rows=Rows(indices=tuple(range(24))))
    found = np.take_along_axis(expected, head.ids.astype(np.int64), axis=1)
    assert np.allclose(head.values, found, atol=0.02)
    assert np.array_equal(head.ids[:, 0], expected.argmax(axis=1))


def test_other_architectures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="architecture 'gemma3'") as refused:
        SmallSource(written(tmp_path, "gemma3"))
    assert "llama" in str(refused.value.hint)


def test_a_damaged_source_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(BadFileError):
        SmallSource(path)
