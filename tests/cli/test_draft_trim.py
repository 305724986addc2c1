"""``edgedec draft trim``: from a model's replies to its trimmed head."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.bundle.drafter_manifest import Target
from edgedec.bundle.manifest import Manifest
from edgedec.disk.listed_files import sealed
from edgedec.drafters.trim import ends_of, kept_ids
from edgedec.training.rollouts import Rollout, RolloutStore, held_out, key_of, rollouts_folder
from tests.cli.support import Home, assert_one_line, ran, run

ASKED = next(f"question {n}" for n in range(1000) if held_out(f"question {n}"))
COUNTED = "question 0"


@pytest.fixture(autouse=True)
def timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedec.cli.draft.trim._REPEAT", 1)
    monkeypatch.setattr("edgedec.cli.draft.trim.LEAST_TOKENS", 800)


@pytest.fixture(autouse=True)
def ends_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only end tokens are always kept: 256 bytes would be all that this vocabulary has."""
    monkeypatch.setattr(
        "edgedec.draft.subset.always_kept", lambda tokenizer, ends: np.array(list(ends), dtype=np.int64)
    )


@pytest.fixture
def told(home: Home, bundle: Path) -> Manifest:
    """The model has replied: mostly with the tokens 40 to 55, and to the held-out prompt with 40 and 250."""
    manifest = Manifest.load(bundle)
    target = Target.of(manifest)
    with RolloutStore(rollouts_folder(home.path, target)).writing(target) as writer:
        writer.add(Rollout([5], list(range(40, 56)) * 50, key_of(COUNTED), greedy=True))
        writer.add(Rollout([6], [40] * 9 + [manifest.spec.vocab_size - 1], key_of(ASKED), greedy=True))
    return manifest


def trim(home: Home, bundle: Path, *options: str) -> dict[str, Any]:
    args = ("-m", str(bundle), "--threads", "1", *options)
    result = ran(home.real(), "draft", "trim", *args, "--json")
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def test_a_head_of_the_size_asked_for_is_kept_beside_the_model(
    home: Home, bundle: Path, told: Manifest
) -> None:
    found = trim(home, bundle, "--ids", "256")
    ids = kept_ids(told, home.path)
    assert ids is not None
    assert found["chosen"]["ids"] == ids.size < told.spec.vocab_size
    assert {*ends_of(told), *range(40, 56)} <= set(ids.tolist())
    assert found["counted_tokens"] == 800
    assert found["held_out_tokens"] == 10
    assert found["chosen"]["coverage"] == pytest.approx(0.9)
    assert found["heads"][-1]["coverage"] == 1.0
    assert "as asked" in found["reason"]


def test_where_no_trim_is_worth_it_an_older_one_goes(home: Home, bundle: Path, told: Manifest) -> None:
    """The sizes that are compared are all larger than this vocabulary."""
    trim(home, bundle, "--ids", "256")
    assert kept_ids(told, home.path) is not None
    found = trim(home, bundle)
    assert [head["ids"] for head in found["heads"]] == [told.spec.vocab_size]
    assert kept_ids(told, home.path) is None


def test_the_table_has_the_coverage_of_each_category(
    home: Home, bundle: Path, told: Manifest, tmp_path: Path
) -> None:
    prompts = tmp_path / "prompts.jsonl"
    lines = [{"prompt": ASKED, "category": "odd"}, {"prompt": COUNTED, "category": "even"}]
    prompts.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    options = ("--ids", "256", "--prompts", str(prompts))
    assert set(trim(home, bundle, *options)["chosen"]["coverage_by_category"]) == {"odd"}
    shown = ran(home.real(), "draft", "trim", "-m", str(bundle), *options)
    assert re.search(r"\d+ +tiles +\d+ +90\.0%", shown.stdout)
    assert "chosen: " in shown.stdout


def test_too_few_replies_are_made_up_for_or_named(
    home: Home, bundle: Path, told: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgedec.cli.draft.trim.LEAST_TOKENS", 820)
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("one two\nthree", encoding="utf-8")
    trim(home, bundle, "--ids", "256", "--prompts", str(prompts))
    store = RolloutStore(rollouts_folder(home.path, Target.of(told)))
    assert sum(len(one.reply) for one in store) > 820


def test_without_held_out_replies_nothing_can_be_chosen(home: Home, bundle: Path, tmp_path: Path) -> None:
    manifest = Manifest.load(bundle)
    with RolloutStore(rollouts_folder(home.path, Target.of(manifest))).writing(Target.of(manifest)) as writer:
        writer.add(Rollout([5], [7] * 50, key_of(COUNTED), greedy=True))
    result = run(home.real(), "draft", "trim", "-m", str(bundle))
    assert_one_line(result, 3, "too few replies", "take less time", "first run `edgedec draft rollouts -m")


def test_a_bundle_without_a_graph_for_drafting_is_refused_before_anything_is_gathered(
    home: Home, bundle: Path, tmp_path: Path
) -> None:
    older = tmp_path / "older"
    shutil.copytree(bundle, older)
    (older / "drafting.onnx").unlink()
    manifest = json.loads((older / "manifest.json").read_text(encoding="utf-8"))
    del manifest["files"]["drafting.onnx"]
    (older / "manifest.json").write_text(sealed(manifest), encoding="utf-8")
    result = run(home.real(), "draft", "trim", "-m", str(older))
    assert_one_line(result, 5, "cannot be trimmed", "export or pull the model again")
    assert not (home.path / "rollouts").exists()


def test_a_trimmed_head_computes_the_logits_of_the_full_one(home: Home, bundle: Path, told: Manifest) -> None:
    """Bit for bit, but for the precision of the best: each head refines its own ``head_k``."""
    from edgedec.backends.open import open_backend
    from edgedec.core.rows import Rows

    trim(home, bundle, "--ids", "256")
    ids = kept_ids(told, home.path)
    assert ids is not None
    forward = open_backend(bundle, told, threads=1, drafting=True).forward()
    full = forward.extend([40, 41, 42], rows=Rows(full=True))
    forward.rewind(0)
    trimmed = forward.extend([40, 41, 42], rows=Rows(full=True, keep=ids))
    assert full.logits is not None
    assert trimmed.logits is not None
    others = np.setdiff1d(np.arange(told.spec.vocab_size), ids)
    assert np.all(np.isneginf(trimmed.logits[:, others]))
    for row in range(3):
        refined = [set(found.ids[row].tolist()) for found in (full, trimmed)]
        assert refined[1] <= set(ids.tolist())
        alike = [token for token in ids.tolist() if token not in refined[0] | refined[1]]
        alike += [token for token in trimmed.ids[row, :32].tolist() if token in full.ids[row, :32]]
        assert len(alike) > 0.7 * ids.size
        assert trimmed.logits[row, alike].tobytes() == full.logits[row, alike].tobytes()
        np.testing.assert_allclose(trimmed.logits[row, ids], full.logits[row, ids], atol=0.1)


def test_with_all_ids_kept_a_trimmed_head_is_the_full_one_bit_for_bit(bundle: Path) -> None:
    from edgedec.backends.open import open_backend
    from edgedec.core.rows import Rows

    manifest = Manifest.load(bundle)
    every = np.arange(manifest.spec.vocab_size, dtype=np.int64)
    forward = open_backend(bundle, manifest, threads=1, drafting=True).forward()
    found = []
    for keep in (None, every):
        forward.rewind(0)
        found.append(forward.extend([40, 41, 42], rows=Rows(full=True, keep=keep)))
    for name in ("values", "ids", "logsumexp", "entropy", "logits"):
        assert getattr(found[0], name).tobytes() == getattr(found[1], name).tobytes()
