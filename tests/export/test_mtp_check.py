"""MTP layers have to agree with their target before they are left to draft."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from edgedec.bundle.drafter_manifest import DrafterManifest
from edgedec.bundle.manifest import WEIGHTS, Manifest
from edgedec.cli.app import app
from edgedec.core.cache_config import CacheConfig
from edgedec.export.draft_head.target import head_rows
from edgedec.export.drafters.check import checked_drafters
from edgedec.export.own_texts import CONTEXT, own_texts
from edgedec.loaded_model import load_model
from tests.fixtures.carried import MtpPlace, damage
from tests.fixtures.mtp_layers import Arrays, add_mtp, mtp_sizes, random_mtp
from tests.fixtures.replies import always, check_replies
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import DeltaShape
from tests.fixtures.tiny_models import tiny_bundle


def normed(values: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    return values / np.sqrt((values**2).mean(-1, keepdims=True) + 1e-6)


def agreeing(bundle: Path) -> Arrays:
    """A layer that knows what the model writes by its states: one matrix, no attention, no feed-forward."""
    spec = Manifest.load(bundle).spec
    model = load_model(bundle, threads=1, drafting=(spec.n_layers - 1,))
    texts = own_texts(model, model.backend.forward(CacheConfig(CONTEXT)), (spec.n_layers - 1,))
    table = head_rows(bundle, np.arange(spec.vocab_size))  # the head is tied
    hyper = mtp_sizes(spec.hidden_size)
    layer = {name: np.zeros_like(array) if array.ndim == 2 else np.ones_like(array)
             for name, array in random_mtp(hyper).items()}  # fmt: skip
    read = [
        np.hstack([normed(table[list(text.tokens[1:-1])]), normed(normed(text.hidden[:-1]))])
        for text in texts
    ]
    follows = np.concatenate([text.tokens[2:] for text in texts])
    weights = np.linalg.lstsq(np.vstack(read), normed(table[follows]), rcond=1e-6)[0]
    (name,) = (name for name in layer if name.endswith("eh_proj.weight"))
    return {**layer, name: weights.T.astype(np.float32)}


def test_a_layer_that_agrees_stays_and_states_it(tmp_path: Path) -> None:
    bundle = tiny_bundle(tmp_path)
    add_mtp(bundle, mtp_sizes(Manifest.load(bundle).spec.hidden_size), agreeing(bundle))
    place = MtpPlace(tmp_path, bundle=bundle)
    before = DrafterManifest.load(place.folder).facts
    assert checked_drafters(bundle) == []
    facts = DrafterManifest.load(place.folder).facts
    assert facts.keys() - before.keys() == {"agreement", "tokens it was measured on"}
    assert facts["agreement"] > 0.3  # type: ignore[operator]
    assert checked_drafters(bundle) == []
    assert DrafterManifest.load(place.folder).facts == facts
    plain, drafted = place.runner("off").engine, place.runner().engine
    with always(drafted):
        check_replies(plain, drafted)
    assert drafted.speculation
    assert drafted.speculation.tally.accepted > 20


def test_a_layer_that_knows_nothing_is_removed_with_a_line(tmp_path: Path) -> None:
    place = MtpPlace(tmp_path)
    (line,) = checked_drafters(place.bundle)
    assert line.startswith("Tiny llama goes without its MTP layer: it agrees with ")
    assert " tokens that Tiny llama wrote" in line
    assert not place.folder.exists()
    assert checked_drafters(place.bundle) == []


@pytest.mark.parametrize("part", [WEIGHTS, "mtp.onnx"])
def test_a_damaged_layer_is_removed_with_a_line(tmp_path: Path, part: str) -> None:
    place = MtpPlace(tmp_path)
    damage(place.folder, part)
    (line,) = checked_drafters(place.bundle)
    assert line.startswith("Tiny llama goes without its MTP layer: ")
    assert "\n" not in line
    assert not place.folder.exists()


def test_the_command_says_it(tmp_path: Path) -> None:
    shape = TinyShape(layers=4, context=512, delta=DeltaShape(nextn=1))
    source, out = write_tiny(tmp_path / "q.gguf", "qwen35", shape=shape), tmp_path / "bundle"
    done = CliRunner().invoke(app, ["export", str(source), "-o", str(out), "--json"])
    assert done.exit_code == 0, done.output
    assert "Tiny qwen35 goes without its MTP layer: it agrees with" in done.stderr
    assert json.loads(done.stdout)["name"] == "Tiny qwen35"
    assert not (out / "drafters" / "mtp").exists()
