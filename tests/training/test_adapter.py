"""An adapter: trained on replies of a target, merged with its base to the same bits, and refused if wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgedec.core.drafter_manifest import Target
from edgedec.core.errors import BadFileError, NotFoundError, UnsupportedError
from edgedec.core.files import sha256_of
from edgedec.core.manifest import Manifest
from edgedec.core.progress import silent
from edgedec.core.rows import Rows
from edgedec.drafters.artifacts import artifacts
from edgedec.drafters.trim import is_trimmed, kept_ids
from edgedec.export import export_gguf
from edgedec.export.adapter import WeightAdapter, is_adapter, merge, merged_matrix
from edgedec.export.gguf_source import open_gguf
from edgedec.models.adapters import adapter_file, install_adapter
from edgedec.models.layout import Layout
from edgedec.training import adapter_training
from edgedec.training.adapter_training import AdapterSettings, AdapterTraining, has_other_tokens
from edgedec.training.head_training import Replies
from edgedec.training.recipe import TrainingRecipe
from edgedec.training.retold import CODE, PROSE, Retelling
from edgedec.training.rollouts import Rollout
from edgedec.training.small_source import SmallSource
from tests.fixtures.tiny_adapter import changed
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import CONTEXT, run_tiny

torch = pytest.importorskip("torch")

SHAPE = TinyShape(layers=2, context=CONTEXT)
RECIPE = TrainingRecipe(batch_tokens=120, depths=1, peak_rate=1e-2)


def written(folder: Path, name: str = "base", **changes: object) -> Path:
    return write_tiny(folder / f"{name}.gguf", "llama", shape=SHAPE, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("base"))


def test_a_merge_changes_the_matrices_that_it_names_and_nothing_else(tmp_path: Path, base: Path) -> None:
    adapter = changed(base)
    adapter.save(tmp_path / "a.safetensors")
    assert is_adapter(tmp_path / "a.safetensors")
    merge(WeightAdapter.load(tmp_path / "a.safetensors"), base, tmp_path / "merged.gguf")
    with open_gguf(base) as before, open_gguf(tmp_path / "merged.gguf") as after:
        assert after.metadata["general.name"] == "adapted"
        assert list(before.tensors) == list(after.tensors)
        for name, tensor in before.tensors.items():
            own, other = (one.rows(one.tensors[name], 0, tensor.shape[0]) if len(tensor.shape) == 2
                          else one.vector(one.tensors[name]) for one in (before, after))  # fmt: skip
            assert np.array_equal(own, other) == (name not in adapter.low), name


def test_each_merge_has_the_same_bits(tmp_path: Path, base: Path) -> None:
    adapter = changed(base)
    for name in ("one", "other"):
        adapter.save(tmp_path / f"{name}.safetensors")
        merge(adapter, base, tmp_path / f"{name}.gguf")
    assert len({sha256_of(path) for path in tmp_path.glob("*.safetensors")}) == 1
    assert len({sha256_of(path) for path in tmp_path.glob("*.gguf")}) == 1


def test_products_are_summed_rank_by_rank_without_fused_operations() -> None:
    draw = np.random.default_rng(1)
    down, up = (draw.standard_normal(shape).astype(np.float16) for shape in ((3, 8), (5, 3)))
    values = draw.standard_normal((5, 8)).astype(np.float32)
    expected = np.empty_like(values)
    for row, col in np.ndindex(values.shape):
        total = np.float32(0)
        for rank in range(3):
            total = np.float32(total + np.float32(np.float32(up[row, rank]) * np.float32(down[rank, col])))
        expected[row, col] = values[row, col] + total
    assert np.array_equal(merged_matrix(values, (down, up)), expected)


def test_damaged_and_wrong_adapters_are_refused_and_nothing_is_written(tmp_path: Path, base: Path) -> None:
    path, out = tmp_path / "a.safetensors", tmp_path / "out.gguf"
    changed(base).save(path)
    whole = path.read_bytes()
    for damaged in (whole[:-3], whole[:40], b"", whole.replace(b"edgedec-adapter", b"edgedec-adaptex")):
        path.write_bytes(damaged)
        with pytest.raises(BadFileError, match="damaged, or no adapter"):
            WeightAdapter.load(path)
    adapter = changed(base)
    with pytest.raises(BadFileError, match="is not the file that adapted was made for"):
        merge(adapter, written(tmp_path, "other", vocab="spm"), out)
    wrong = replace(adapter, about=replace(adapter.about, merged="1" * 64))
    with pytest.raises(BadFileError, match="other weights than it states"):
        merge(wrong, base, out)
    down, up = adapter.low["blk.0.attn_q.weight"]
    with pytest.raises(BadFileError, match=r"changes blk\.9\.attn_q"):
        merge(replace(adapter, low={"blk.9.attn_q.weight": (down, up)}), base, out)
    with pytest.raises(BadFileError, match="other sizes"):
        merge(replace(adapter, low={"blk.0.attn_q.weight": (down[:, :32], up)}), base, out)
    infinite = np.full_like(up, np.inf)
    replace(adapter, low={"blk.0.attn_q.weight": (down, infinite)}).save(path)
    with pytest.raises(BadFileError, match="damaged"):
        WeightAdapter.load(path)
    assert not out.exists()


def test_an_adapter_that_is_too_large_to_ship_is_not_written(tmp_path: Path, base: Path) -> None:
    large = np.zeros((16, 500_000), np.float16)
    adapter = replace(changed(base), low={"blk.0.attn_q.weight": (large, np.zeros((4, 16), np.float16))})
    with pytest.raises(UnsupportedError, match="at most 12 MB"):
        adapter.save(tmp_path / "large.safetensors")


def test_an_adapter_is_installed_with_the_file_that_a_pull_kept(tmp_path: Path, base: Path) -> None:
    home = tmp_path / "home"
    file = adapter_file(home, "adapted")
    file.parent.mkdir(parents=True)
    changed(base).save(file)
    with pytest.raises(NotFoundError, match="not kept here"):
        install_adapter(file, home)
    kept = Layout(home).kept("tiny") / "m.gguf"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(base.read_bytes())
    bundle = install_adapter(file, home)
    weights = sha256_of(bundle / "weights.bin")
    ready = run_tiny(bundle)
    assert ready.loaded.manifest.source["trained for"] == "target"
    assert ready.loaded.manifest.source["rank"] == "2"
    assert sha256_of(install_adapter(file, home) / "weights.bin") == weights


def rollouts(job_tokens: int, count: int = 24) -> list[Rollout]:
    """Replies in which a token decides the next one."""
    draw = np.random.default_rng(4)
    found = []
    for number in range(count):
        start = int(draw.integers(40, 60))
        reply = [40 + (start + 7 * step) % 20 for step in range(24)]
        prompt = [int(token) for token in draw.integers(40, job_tokens, 6)]
        found.append(Rollout(prompt, reply, f"{number:x}", True))
    return found


def job_of(base: Path, home: Path) -> tuple[AdapterTraining, Replies]:
    bundle = home.parent / "bundle"
    if not bundle.exists():
        export_gguf(base, bundle)
    job = AdapterTraining(bundle, base, home, AdapterSettings(ids=300, rank=4))
    replies = rollouts(100)
    return job, Replies(replies[6:], replies[:6])


def test_agreement_rises_and_a_resumed_run_ends_with_the_same_bits(tmp_path: Path, base: Path) -> None:
    from edgedec.training.trainer import Watch

    torch.set_num_threads(1)
    files = []
    for stops in (None, 7):
        home = tmp_path / f"home-{stops}"
        job, replies = job_of(base, home)
        data = job.data(replies, silent)
        trainer, before = job.trainer(data, RECIPE)
        if stops:
            assert not trainer.run(steps=40, watch=Watch(stop=lambda run=trainer: run.step >= 7))
            job, replies = job_of(base, home)
            data = job.data(replies, silent)
            trainer, again = job.trainer(data, RECIPE)
            assert (trainer.step, again) == (7, before)
        assert trainer.run(steps=40)
        after = job.by_kind(trainer.learner, data)
        assert after[PROSE].rates[0] > before[PROSE].rates[0] + 0.2
        facts = job.facts(trainer, replies, before, after)
        file, _ = job.export(trainer, {"rank": facts["rank"]}, silent)
        files.append(file.read_bytes())
        assert facts["agreement at depth 1 after"] > facts["agreement at depth 1 before"]  # type: ignore[operator]
        assert f"agreement on {PROSE} after" in facts
    assert files[0] == files[1]


def test_the_head_of_the_result_is_trimmed_to_what_the_replies_are_made_of(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    job, replies = job_of(base, home)
    data = job.data(replies, silent)
    trainer, _ = job.trainer(data, RECIPE)
    _, bundle = job.export(trainer, {}, silent)
    assert not is_trimmed(Manifest.load(bundle), home)  # so few tokens are all computed
    monkeypatch.setattr(adapter_training, "TRIMMED_IDS", 128)
    _, bundle = job.export(trainer, {}, silent)
    keep = kept_ids(Manifest.load(bundle), home)
    assert keep is not None
    said = {token for one in data.train for token in one.ids[:, 0].tolist()}
    assert said <= set(keep.tolist())
    (found,) = artifacts(Target.of(Manifest.load(bundle)), home)
    facts = found.checked(Target.of(Manifest.load(bundle))).facts
    assert (facts["coverage"], facts["counted_tokens"]) == (1.0, sum(len(one.ids) for one in data.train))


def test_agreement_before_is_that_on_the_same_replies_and_kinds(tmp_path: Path, base: Path) -> None:
    home = tmp_path / "home"
    job, replies = job_of(base, home)
    kinds = {one.key: "maths" for one in replies.held_out[:2]}
    _, before = job.trainer(job.data(replies, silent, kinds), RECIPE)
    assert before.keys() == {"maths", PROSE}
    again = job_of(base, home)[0]
    _, kept = again.trainer(again.data(replies, silent, kinds), RECIPE)
    assert kept == before
    fewer = Replies(replies.train, replies.held_out[:3])
    _, other = again.trainer(again.data(fewer, silent), RECIPE)
    assert other.keys() == {PROSE}
    assert other[PROSE].rounds < sum(one.rounds for one in before.values())


@pytest.mark.parametrize("halves", [False, True])
def test_only_the_changes_have_gradients_and_these_are_those_of_the_products(halves: bool) -> None:
    from edgedec.training.adapter_learner import Changed

    torch.manual_seed(0)
    kind = torch.bfloat16 if halves else torch.float32
    x, weight, down, up = (torch.randn(size) for size in ((2, 5, 8), (6, 8), (3, 8), (6, 3)))
    asked = torch.randn(2, 5, 6)
    found = []
    for product in (Changed.apply, lambda x, weight, down, up: x @ weight.T + x @ down.T @ up.T):
        inputs = [one.to(kind).requires_grad_(at != 1) for at, one in enumerate((x, weight, down, up))]
        result = product(*inputs)
        result.backward(asked.to(kind))
        assert inputs[1].grad is None
        found.append([result, *(inputs[at].grad for at in (0, 2, 3))])
    for own, expected in zip(*found, strict=True):
        assert torch.allclose(own, expected, atol=0.5 if halves else 1e-4)


def test_rows_attend_to_themselves_and_those_before(tmp_path: Path, base: Path) -> None:
    from edgedec.training.small_model import SmallModel

    source = SmallSource(base)
    model = SmallModel(source.hyper, source.arrays, source.frequencies)
    q, k, v = (torch.randn(2, heads, 9, 16) for heads in (4, 2, 2))
    expected = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=True, scale=source.hyper.attention_scale, enable_gqa=True
    )
    assert torch.allclose(model._attended(q, k, v), expected, atol=1e-5)


def test_the_merged_model_has_the_logits_of_the_one_in_training(tmp_path: Path) -> None:
    from edgedec.training.adapter_learner import AdapterModel

    base = written(tmp_path, formats="f32")
    source = SmallSource(base)
    adapter = changed(base)
    model = AdapterModel(source.hyper, source.arrays, source.frequencies, 2, 0)
    for name, (down, up) in adapter.low.items():
        for part, values in (("down", down), ("up", up)):
            model.low[f"{name.replace('.', '/')}|{part}"].data = torch.from_numpy(values.astype(np.float32))
    assert all(np.array_equal(one, adapter.low[name][0]) for name, (one, _) in model.pairs().items())
    tokens = np.random.default_rng(1).integers(0, source.vocabulary, 24)
    with torch.no_grad():
        outputs = model(torch.from_numpy(source.embedding.gather(tokens)[None]))[0].numpy()
    expected = outputs @ source.head.gather(np.arange(source.vocabulary)).T
    merge(adapter, base, tmp_path / "merged.gguf")
    export_gguf(tmp_path / "merged.gguf", tmp_path / "bundle")
    head = run_tiny(tmp_path / "bundle").forward.extend(tokens.tolist(), rows=Rows(indices=tuple(range(24))))
    found = np.take_along_axis(expected, head.ids.astype(np.int64), axis=1)
    assert np.allclose(head.values, found, atol=0.02)


def test_replies_are_retold_in_the_other_models_tokens(tmp_path: Path, base: Path) -> None:
    other = written(tmp_path, "other", vocab="spm")
    export_gguf(base, tmp_path / "target")
    export_gguf(other, tmp_path / "draft")
    target, draft = (run_tiny(tmp_path / name).loaded.tokenizer for name in ("target", "draft"))
    assert has_other_tokens(tmp_path / "target", other)
    assert not has_other_tokens(tmp_path / "target", base)
    retelling = Retelling(target, draft, 400)
    rollout = Rollout(target.encode("Say it: "), target.encode("the cat sat on the mat"), "1", True)
    text = retelling.retold(rollout)
    assert text is not None
    following = draft.decode([*text.tokens[text.first + 1 :].tolist(), int(text.ids[-1, 0])])
    assert following.strip().endswith("the cat sat on the mat".strip()) or "cat sat" in following
    assert text.tokens[text.first + 1 :].tolist() == text.ids[:-1, 0].tolist()
    assert retelling.kind(rollout) == PROSE
    code = replace(rollout, reply=target.encode("```x```"))
    assert retelling.kind(code) == CODE
