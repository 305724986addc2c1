"""A small model: layers of another one, trained on a target's replies, and written as a GGUF file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader

from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import BadFileError, EdgeDecError, UnsupportedError, UsageError
from edgedec.core.rows import Rows
from edgedec.export import export_gguf
from edgedec.export.gguf_source import open_gguf
from edgedec.training.batch import KeptIds
from edgedec.training.data import TrainingData
from edgedec.training.features import Teacher
from edgedec.training.recipe import TrainingRecipe
from edgedec.training.rollouts import Rollout
from edgedec.training.small_source import SmallSource, kept_layers
from edgedec.training.small_training import SmallSettings, SmallTraining, write_small
from edgedec.training.target_weights import KnownRows
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import CONTEXT, run_tiny

torch = pytest.importorskip("torch")

LAYERS = 5
SHAPE = TinyShape(layers=LAYERS, context=CONTEXT)


def written(folder: Path, architecture: str = "llama", **changes: object) -> Path:
    return write_tiny(folder / f"{architecture}.gguf", architecture, shape=SHAPE, **changes)  # type: ignore[arg-type]


def test_kept_layers_are_spread_evenly_with_the_first_and_the_last() -> None:
    assert kept_layers(30, 8) == (0, 4, 8, 12, 17, 21, 25, 29)
    assert kept_layers(5, 5) == (0, 1, 2, 3, 4)
    for layers in range(2, 40):
        for count in range(2, layers + 1):
            kept = kept_layers(layers, count)
            assert (kept[0], kept[-1], len(set(kept))) == (0, layers - 1, count)


@pytest.mark.parametrize("count", [0, 1, 6])
def test_more_layers_than_there_are_or_fewer_than_two_are_refused(count: int) -> None:
    with pytest.raises(UsageError, match=f"cannot keep {count}"):
        kept_layers(5, count)


def test_an_untrained_small_model_has_the_sources_own_bits(tmp_path: Path) -> None:
    path = written(tmp_path, tied=False)
    source = SmallSource(path, 3)
    write_small(tmp_path / "small.gguf", source, source.arrays, quant="q8_0", name="small")
    with open_gguf(path) as whole, open_gguf(tmp_path / "small.gguf") as small:
        assert small.metadata["llama.block_count"] == 3
        assert small.metadata["general.name"] == "small"
        same = whole.metadata.keys() - {"llama.block_count", "general.name"}
        assert all(small.metadata[key] == whole.metadata[key] for key in same)
        assert len(small.tensors) == len(whole.tensors) - 2 * 9
        for name, tensor in small.tensors.items():
            number, _, rest = name.removeprefix("blk.").partition(".")
            old = f"blk.{(0, 2, 4)[int(number)]}.{rest}" if name.startswith("blk.") else name
            kept = whole.tensors[old]
            own = small.rows(tensor, 0, tensor.shape[0])
            assert np.array_equal(own, whole.rows(kept, 0, kept.shape[0])), name


def test_metadata_keeps_its_types(tmp_path: Path) -> None:
    path = written(tmp_path)
    source = SmallSource(path, 2)
    write_small(tmp_path / "small.gguf", source, source.arrays, quant="q4_0", name="small")
    types = [
        {name: field.types for name, field in GGUFReader(file).fields.items() if not name.startswith("GGUF.")}
        for file in (path, tmp_path / "small.gguf")
    ]
    assert types[0] == types[1]


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_our_kernels_compute_the_logits_of_the_model_in_training(tmp_path: Path, architecture: str) -> None:
    from edgedec.training.small_model import SmallModel

    path = written(tmp_path, architecture, formats="f32")
    source = SmallSource(path, 3)
    model = SmallModel(source.hyper, source.arrays, source.frequencies)
    tokens = np.random.default_rng(1).integers(0, source.vocabulary, 24)
    with torch.no_grad():
        outputs = model(torch.from_numpy(source.embedding.gather(tokens)[None]))[0].numpy()
    expected = outputs @ source.head.gather(np.arange(source.vocabulary)).T
    write_small(tmp_path / "small.gguf", source, model.arrays(), quant="f32", name="small")
    export_gguf(tmp_path / "small.gguf", tmp_path / "bundle")
    ready = run_tiny(tmp_path / "bundle")
    head = ready.forward.extend(tokens.tolist(), rows=Rows(indices=tuple(range(24))))
    found = np.take_along_axis(expected, head.ids.astype(np.int64), axis=1)
    assert np.allclose(head.values, found, atol=0.02)
    assert np.array_equal(head.ids[:, 0], expected.argmax(axis=1))


def test_other_architectures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="architecture 'gemma3'") as refused:
        SmallSource(written(tmp_path, "gemma3"), 2)
    assert "llama" in str(refused.value.hint)


def test_a_damaged_source_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(BadFileError):
        SmallSource(path, 2)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A GGUF file and its bundle."""
    folder = tmp_path_factory.mktemp("target")
    path = written(folder)
    export_gguf(path, folder / "bundle")
    return path, folder / "bundle"


def test_a_source_with_other_tokens_is_refused(tmp_path: Path, target: tuple[Path, Path]) -> None:
    other = written(tmp_path, vocab="spm")
    with pytest.raises(UnsupportedError, match="other tokens than"):
        SmallTraining(target[1], other, tmp_path, SmallSettings(layers=2))


def job_of(target: tuple[Path, Path], home: Path) -> tuple[SmallTraining, TrainingData]:
    job = SmallTraining(target[1], target[0], home, SmallSettings(layers=2, ids=300))
    draw = np.random.default_rng(3)
    ready = run_tiny(target[1])
    teacher = Teacher(ready.loaded.backend.forward(CacheConfig(256)), hidden=False)
    size = job.source.vocabulary
    texts = []
    for number in range(12):
        tokens = [int(token) for token in draw.integers(0, size, 20)]
        texts.append(teacher.features(Rollout(tokens[:5], tokens[5:], f"{number:x}", True)))
    keep = np.arange(0, size, dtype=np.int64)
    table = KnownRows(job.source.embedding)
    lengths = [len(text.tokens) for text in texts[2:]]
    rows = job.source.head.gather(keep)
    return job, TrainingData(texts[2:], lengths, texts[:2], KeptIds(keep, size), table, rows)


def test_training_learns_and_a_resumed_run_ends_with_the_same_bits(
    tmp_path: Path, target: tuple[Path, Path]
) -> None:
    from edgedec.training.trainer import Watch

    torch.set_num_threads(1)
    recipe = TrainingRecipe(batch_tokens=60, depths=1, peak_rate=3e-3)
    job, data = job_of(target, tmp_path / "whole")
    whole = job.trainer(data, recipe)
    first = whole.learner.losses(data.batch([0, 1, 2])).loss[0]
    whole.run(steps=12)
    assert whole.learner.losses(data.batch([0, 1, 2])).loss[0] < 0.95 * first
    job, data = job_of(target, tmp_path / "stopped")
    run = job.trainer(data, recipe)
    assert not run.run(steps=12, watch=Watch(stop=lambda: run.step >= 4))
    again = job.trainer(data, recipe)
    assert (again.step, again.run(steps=12)) == (4, True)
    one, other = whole.learner.arrays(), again.learner.arrays()
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_a_checkpoint_of_other_layers_is_refused(tmp_path: Path, target: tuple[Path, Path]) -> None:
    job, data = job_of(target, tmp_path)
    job.trainer(data).save()
    job.source = SmallSource(target[0], 3)
    with pytest.raises(EdgeDecError, match="another recipe"):
        job.trainer(data)


def test_the_sources_own_layers_agree_with_the_target_completely(
    tmp_path: Path, target: tuple[Path, Path]
) -> None:
    """All layers kept: the small model is the target, so it guesses every greedy token."""
    from edgedec.training.small_learner import SmallLearner

    _, data = job_of(target, tmp_path)
    learner = SmallLearner(SmallSource(target[0], LAYERS), data, TrainingRecipe(depths=1))
    text = data.held_out[0]
    answers = np.concatenate([text.tokens[: text.first + 1], text.ids[:-1, 0]])
    hits = learner.hits(text, 1)[:, 0]
    assert len(hits) == len(text.tokens) - text.first - 2
    assert np.array_equal(hits, text.tokens[text.first + 2 :] == answers[text.first + 2 :])
