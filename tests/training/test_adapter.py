"""An adapter: trained on replies of a target, merged with its base to the same bits, and refused if wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import quants
from gguf.constants import GGMLQuantizationType

from edgedec.bundle.drafter_manifest import Target
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError, NotFoundError, UnsupportedError
from edgedec.core.progress import silent
from edgedec.disk.files import sha256_of
from edgedec.drafters.artifacts import artifacts
from edgedec.drafters.trim import is_trimmed, kept_ids
from edgedec.export import export_gguf
from edgedec.export.adapter import WeightAdapter, is_adapter, merge
from edgedec.export.gguf_source import open_gguf
from edgedec.export.scales import GROUPED, Change, changed, scales_of
from edgedec.models.adapters import adapter_file, install_adapter
from edgedec.models.layout import Layout
from edgedec.training import adapter_training
from edgedec.training.adapter_training import AdapterSettings, AdapterTraining
from edgedec.training.head_training import Replies
from edgedec.training.recipe import TrainingRecipe
from edgedec.training.retokenised import CODE, PROSE, Retokeniser
from edgedec.training.rollouts import Rollout
from edgedec.training.small_source import SmallSource
from tests.fixtures.tiny_adapter import changed_by
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import CONTEXT, run_tiny

torch = pytest.importorskip("torch")

SHAPE = TinyShape(layers=2, context=CONTEXT)
RECIPE = TrainingRecipe(batch_tokens=120, depths=1, peak_rate=8e-2)


def written(folder: Path, name: str = "base", **changes: object) -> Path:
    return write_tiny(folder / f"{name}.gguf", "llama", shape=SHAPE, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("base"))


def test_a_merge_changes_the_matrices_that_it_names_and_nothing_else(tmp_path: Path, base: Path) -> None:
    adapter = changed_by(base)
    adapter.save(tmp_path / "a.safetensors")
    assert is_adapter(tmp_path / "a.safetensors")
    merge(WeightAdapter.load(tmp_path / "a.safetensors"), base, tmp_path / "merged.gguf")
    with open_gguf(base) as before, open_gguf(tmp_path / "merged.gguf") as after:
        assert after.metadata["general.name"] == "adapted"
        assert list(before.tensors) == list(after.tensors)
        for name, tensor in before.tensors.items():
            own, other = (one.rows(one.tensors[name], 0, tensor.shape[0]) if len(tensor.shape) == 2
                          else one.vector(one.tensors[name]) for one in (before, after))  # fmt: skip
            named = adapter.changes.keys() | adapter.vectors.keys()
            assert np.array_equal(own, other) == (name not in named), name


def test_each_merge_has_the_same_bits(tmp_path: Path, base: Path) -> None:
    adapter = changed_by(base)
    for name in ("one", "other"):
        adapter.save(tmp_path / f"{name}.safetensors")
        merge(adapter, base, tmp_path / f"{name}.gguf")
    assert len({sha256_of(path) for path in tmp_path.glob("*.safetensors")}) == 1
    assert len({sha256_of(path) for path in tmp_path.glob("*.gguf")}) == 1


@pytest.mark.parametrize("format", GROUPED)
def test_a_change_stretches_groups_about_their_middle_and_moves_them(format: str) -> None:
    draw = np.random.default_rng(1)
    kind = GGMLQuantizationType[format.upper()]
    packed = quants.quantize(draw.standard_normal((6, 96)).astype(np.float32), kind).view(np.uint8)
    before, scales = quants.dequantize(packed, kind), scales_of(format, packed)
    stretch, move = draw.integers(-127, 128, (2, 6, 3)).astype(np.int8)
    change = Change(stretch, move if scales.has_min else None)
    after = quants.dequantize(changed(format, packed, change), kind).reshape(6, 3, 32)
    by, middle = (one[..., None] for one in (1 + stretch / 512, scales.middle))
    expected = middle + (before.reshape(6, 3, 32) - middle) * by
    if scales.has_min:
        expected = expected + (scales.scale * move / 64)[..., None]
    assert np.allclose(after, expected, rtol=2e-3, atol=2e-3)  # fp16 scales
    with pytest.raises(ValueError, match="other sizes"):
        changed(format, packed, Change(stretch[:, :2], change.move))
    still = Change(np.zeros_like(stretch), None if change.move is None else np.zeros_like(move))
    assert np.array_equal(changed(format, packed, still)[..., 4:], packed[..., 4:])


def test_a_scale_that_a_half_cannot_hold_is_cut() -> None:
    packed = quants.quantize(np.full((1, 32), 6e4 * 127, np.float32), GGMLQuantizationType.Q8_0).view(
        np.uint8
    )
    most = changed("q8_0", packed, Change(np.full((1, 1), 127, np.int8), None))
    assert np.isfinite(quants.dequantize(most, GGMLQuantizationType.Q8_0)).all()


def test_damaged_and_wrong_adapters_are_refused_and_nothing_is_written(tmp_path: Path, base: Path) -> None:
    path, out = tmp_path / "a.safetensors", tmp_path / "out.gguf"
    changed_by(base).save(path)
    whole = path.read_bytes()
    for damaged in (whole[:-3], whole[:40], b"", whole.replace(b"edgedec-adapter", b"edgedec-adaptex")):
        path.write_bytes(damaged)
        with pytest.raises(BadFileError, match="damaged, or no adapter"):
            WeightAdapter.load(path)
    adapter = changed_by(base)
    with pytest.raises(BadFileError, match="is not the file that adapted was made for"):
        merge(adapter, written(tmp_path, "other", vocab="spm"), out)
    wrong = replace(adapter, about=replace(adapter.about, merged="1" * 64))
    with pytest.raises(BadFileError, match="other weights than it states"):
        merge(wrong, base, out)
    name = "blk.0.attn_q.weight"
    one, vector = adapter.changes[name], np.ones(3, np.float32)
    with pytest.raises(BadFileError, match=r"changes blk\.9\.attn_q"):
        merge(replace(adapter, changes={"blk.9.attn_q.weight": one}), base, out)
    for wrong in (
        replace(adapter, changes={name: Change(one.stretch[:, :1], one.move)}),
        replace(adapter, changes={name: Change(one.stretch, one.stretch)}),
        replace(adapter, changes={"blk.0.attn_norm.weight": one}, vectors={}),
        replace(adapter, vectors={"blk.0.attn_norm.weight": vector}),
        replace(adapter, vectors={name: vector}),
    ):
        with pytest.raises(BadFileError, match="other sizes"):
            merge(wrong, base, out)
    for damaged in (
        replace(adapter, changes={}),
        replace(adapter, changes={name: Change(one.stretch, one.stretch[:, :1])}),
        replace(adapter, changes={name: Change(one.stretch.astype(np.float32), None)}),  # type: ignore[arg-type]
        replace(adapter, vectors={"blk.0.attn_norm.weight": np.full(64, np.inf, np.float32)}),
    ):
        damaged.save(path)
        with pytest.raises(BadFileError, match="damaged"):
            WeightAdapter.load(path)
    assert not out.exists()


def test_an_adapter_that_is_too_large_to_ship_is_not_written(tmp_path: Path, base: Path) -> None:
    large = Change(np.zeros((13, 1_000_000), np.int8), None)
    with pytest.raises(UnsupportedError, match="at most 12 MB"):
        replace(changed_by(base), changes={"blk.0.attn_q.weight": large}).save(tmp_path / "large.safetensors")


def test_an_adapter_is_installed_with_the_file_that_a_pull_kept(tmp_path: Path, base: Path) -> None:
    home = tmp_path / "home"
    file = adapter_file(home, "adapted")
    file.parent.mkdir(parents=True)
    changed_by(base).save(file)
    with pytest.raises(NotFoundError, match="not kept here"):
        install_adapter(file, home)
    kept = Layout(home).kept("tiny") / "m.gguf"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(base.read_bytes())
    bundle = install_adapter(file, home)
    weights = sha256_of(bundle / "weights.bin")
    ready = run_tiny(bundle)
    assert ready.loaded.manifest.source["trained for"] == "target"
    assert ready.loaded.manifest.source["steps"] == "2"
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
    job = AdapterTraining(bundle, base, home, AdapterSettings(ids=300))
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
            assert not trainer.run(steps=60, watch=Watch(stop=lambda run=trainer: run.step >= 7))
            job, replies = job_of(base, home)
            data = job.data(replies, silent)
            trainer, again = job.trainer(data, RECIPE)
            assert (trainer.step, again) == (7, before)
        assert trainer.run(steps=60)
        after = job.by_kind(trainer.learner, data)
        assert after[PROSE].rates[0] > before[PROSE].rates[0] + 0.2
        facts = job.facts(trainer, replies, before, after)
        file, _ = job.export(trainer, {"steps": facts["steps"]}, silent)
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


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("halves", [False, True])
def test_only_the_changes_have_gradients_and_these_are_those_of_the_products(
    halves: bool, moves: bool
) -> None:
    from edgedec.training.adapter_model import Regrouped

    torch.manual_seed(0)
    kind = torch.bfloat16 if halves else torch.float32
    x, weight = torch.randn(2, 5, 64), torch.randn(6, 64)
    stretch, move = torch.randint(-9, 10, (2, 6, 2)) / 128
    move = 2 * move
    scales = torch.stack([torch.rand(6, 2), torch.randn(6, 2)])
    asked = torch.randn(2, 5, 6)

    def plainly(x: Any, weight: Any, stretch: Any, move: Any, scales: Any) -> Any:
        scale, middle = scales
        by = (stretch / 4)[..., None]
        groups = weight.float().unflatten(-1, (-1, 32))
        groups = groups + by * (groups - middle[..., None])
        if move is not None:
            groups = groups + (scale * move)[..., None]
        return x @ groups.flatten(-2).to(weight.dtype).T

    found = []
    for product in (Regrouped.apply, plainly):
        inputs = [x.to(kind).requires_grad_(), weight.to(kind), stretch.clone().requires_grad_(),
                  move.clone().requires_grad_() if moves else None]  # fmt: skip
        result = product(*inputs, scales)
        result.backward(asked.to(kind))
        assert inputs[1].grad is None  # type: ignore[union-attr]
        found.append([result, *(one.grad for at in (0, 2, 3) if (one := inputs[at]) is not None)])
    for own, expected in zip(*found, strict=True):
        assert torch.allclose(
            own.float(), expected.float(), rtol=0.1 if halves else 1e-4, atol=1 if halves else 1e-3
        )


def test_rows_attend_to_themselves_and_those_before(tmp_path: Path, base: Path) -> None:
    from edgedec.training.small_model import SmallModel

    source = SmallSource(base)
    model = SmallModel(source.hyper, source.arrays, source.frequencies)
    q, k, v = (torch.randn(2, heads, 9, 16) for heads in (4, 2, 2))
    expected = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=True, scale=source.hyper.attention_scale, enable_gqa=True
    )
    assert torch.allclose(model._attended(q, k, v), expected, atol=1e-5)


@pytest.mark.parametrize("format", ["f32", "q4_1", "q8_0"])
def test_the_merged_model_is_the_one_in_training(tmp_path: Path, format: str) -> None:
    from edgedec.training.adapter_learner import AdapterLearner
    from edgedec.training.small_model import SmallModel

    base = written(tmp_path, formats={"*": format, "token_embd": "f32"})
    adapter, (job, replies) = changed_by(base), job_of(base, tmp_path / "home")
    data = job.data(replies, silent)
    learner = AdapterLearner(job.source, data, RECIPE, halves=False)
    model, counts = learner._model, {"stretch": 128, "move": 64}
    for name, change in adapter.changes.items():
        for part, whole in (("stretch", change.stretch), ("move", change.move)):
            if whole is not None:
                values = torch.from_numpy(whole.astype(np.float32) / counts[part])
                model.changes[f"{name.replace('.', '/')}|{part}"].data = values
    with open_gguf(base) as gguf:
        for name, vector in adapter.vectors.items():
            by = vector / gguf.vector(gguf.tensors[name]) - 1
            model.changes[f"{name.replace('.', '/')}|by"].data = torch.from_numpy(by.astype(np.float32))
    found = learner.changed()
    for name, change in adapter.changes.items():
        assert np.array_equal(found[name].stretch, change.stretch)
        assert change.move is None or np.array_equal(found[name].move, change.move)  # type: ignore[arg-type]
    vectors = learner.vectors()
    assert all(np.allclose(vectors[name], one) for name, one in adapter.vectors.items())
    merge(adapter, base, tmp_path / "merged.gguf")
    merged = SmallSource(tmp_path / "merged.gguf")
    other = SmallModel(merged.hyper, merged.arrays, merged.frequencies)
    embedded = torch.from_numpy(merged.embedding.gather(np.arange(40, 64))[None])
    with torch.no_grad():
        expected, outputs = other(embedded), model(embedded)
    assert torch.allclose(outputs, expected, atol=0.05)  # scales are halves in the file
    untrained = SmallModel(job.source.hyper, job.source.arrays, job.source.frequencies)
    with torch.no_grad():
        assert not torch.allclose(untrained(embedded), expected, atol=0.2)


def test_replies_are_retold_in_the_other_models_tokens(tmp_path: Path, base: Path) -> None:
    other = written(tmp_path, "other", vocab="spm")
    export_gguf(base, tmp_path / "target")
    export_gguf(other, tmp_path / "draft")
    target, draft = (run_tiny(tmp_path / name).loaded.tokenizer for name in ("target", "draft"))
    retokeniser = Retokeniser(target, draft, 400)
    rollout = Rollout(target.encode("Say it: "), target.encode("the cat sat on the mat"), "1", True)
    text = retokeniser.features(rollout)
    assert text is not None
    following = draft.decode([*text.tokens[text.first + 1 :].tolist(), int(text.ids[-1, 0])])
    assert following.strip().endswith("the cat sat on the mat".strip()) or "cat sat" in following
    assert text.tokens[text.first + 1 :].tolist() == text.ids[:-1, 0].tolist()
    assert retokeniser.kind(rollout) == PROSE
    code = replace(rollout, reply=target.encode("```x```"))
    assert retokeniser.kind(code) == CODE
