"""Installing an EAGLE-3 head: it has to agree with its target, which then drafts with it unnamed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.bundle.drafter_manifest import HEAD, DrafterManifest, Target
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.export import export_gguf
from edgedec.export.drafters.install import install_drafter
from edgedec.export.eagle3.agreement import HeadAgreement
from tests.fixtures.eagle3_heads import Eagle3, agreeing_head, write_head
from tests.fixtures.replies import GREEDY, PROMPT, SAMPLED, always, reply
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import prepared_run

torch = pytest.importorskip("torch")

TAPS, READ = (1, 5, 8), [2, 6, 9]
"""The usual layers of a model of twelve, by what they write and by what they read."""


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deep")
    export_gguf(write_tiny(folder / "deep.gguf", shape=TinyShape(layers=12, context=512)), folder / "bundle")
    return folder / "bundle"


@pytest.fixture(scope="module")
def head(deep: Path) -> Eagle3:
    return agreeing_head(deep, TAPS)


def place(home: Path, bundle: Path) -> Path:
    return home / "drafters" / Target.of(Manifest.load(bundle)).short_hash / HEAD


@pytest.mark.parametrize("layout", ["specforge", "angelslim", "speculators"])
def test_a_head_that_agrees_drafts_unnamed(deep: Path, head: Eagle3, tmp_path: Path, layout: str) -> None:
    folder, home = write_head(tmp_path / "head", layout, head), tmp_path / "home"
    made = install_drafter(folder, deep, home, facts={"licence": "MIT"})
    assert made.facts["agreement"] > 0.8  # type: ignore[operator]
    assert made.facts["taps"] == "1,5,8"
    assert made.facts["licence"] == "MIT"
    assert DrafterManifest.load(place(home, deep)).facts == made.facts
    said: list[str] = []

    def runner(draft: str) -> Runner:
        config = RunConfig(draft=draft, threads=1, context=256)
        return Runner(prepared_run(deep, config, RunContext(home, said.append)))

    plain, drafted = runner("off").engine, runner("auto").engine
    assert drafted.speculation
    assert HEAD in drafted.speculation.drafters
    for params in (GREEDY, SAMPLED):
        expected = reply(plain, PROMPT, params)
        assert reply(drafted, PROMPT, params) == expected
        with always(drafted):
            assert reply(drafted, PROMPT, params) == expected


def test_a_head_read_with_other_layers_is_refused(deep: Path, head: Eagle3, tmp_path: Path) -> None:
    other = {"eagle_aux_hidden_state_layer_ids": [4, 7, 11]}
    wrong = write_head(tmp_path / "wrong", "specforge", head, changes=other)
    with pytest.raises(BadFileError, match=r"agrees with \d+% of \d+ tokens that .* layers 3, 6, 10"):
        install_drafter(wrong, deep, tmp_path / "home")
    assert not place(tmp_path / "home", deep).exists()


def test_layers_that_are_one_off_are_named(deep: Path, head: Eagle3, tmp_path: Path) -> None:
    inner = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": READ}}
    wrong = write_head(tmp_path / "wrong", "specforge", head, changes=inner)
    with pytest.raises(BadFileError, match=r"layers 2, 6, 9, and with \d+% reading layers 1, 5, 8") as caught:
        install_drafter(wrong, deep, tmp_path / "home")
    assert "eagle_aux_hidden_state_layer_ids" in str(caught.value.hint)


def test_a_head_that_knows_nothing_leaves_the_one_before(deep: Path, head: Eagle3, tmp_path: Path) -> None:
    home, good = tmp_path / "home", write_head(tmp_path / "good", "angelslim", head)
    install_drafter(good, deep, home)
    before = sorted((file.name, file.read_bytes()) for file in place(home, deep).iterdir())
    bad = write_head(tmp_path / "bad", "angelslim", Eagle3(64, head.embed_tokens.num_embeddings, 80, {}))
    with pytest.raises(BadFileError, match="the head agrees with"):
        install_drafter(bad, deep, home)
    assert sorted((file.name, file.read_bytes()) for file in place(home, deep).iterdir()) == before


def test_a_copy_of_the_targets_embedding_is_left_out(deep: Path, head: Eagle3, tmp_path: Path) -> None:
    from edgedec.training.target_weights import TargetWeights

    table = TargetWeights(deep, Manifest.load(deep)).embedding
    before = head.embed_tokens.weight.data
    head.embed_tokens.weight.data = torch.from_numpy(table.read(0, len(before)))
    try:
        copied = write_head(tmp_path / "copied", "specforge", head, embedding=True)
    finally:
        head.embed_tokens.weight.data = before
    own = write_head(tmp_path / "own", "specforge", head, embedding=True)
    assert install_drafter(copied, deep, tmp_path / "one").facts["own_table"] == 0
    assert install_drafter(own, deep, tmp_path / "two").facts["own_table"] == 1


def test_what_cannot_be_is_refused(deep: Path, head: Eagle3, tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="holds no EAGLE-3 head"):
        install_drafter(deep, deep, tmp_path / "home")
    wide = write_head(tmp_path / "wide", "specforge", Eagle3(96, 280, 80, {}))
    with pytest.raises(UnsupportedError, match="for hidden states of 96 numbers"):
        install_drafter(wide, deep, tmp_path / "home")
    folder = write_head(tmp_path / "head", "specforge", head)
    layers = {"eagle_aux_hidden_state_layer_ids": [2, 6, 40]}
    config = json.loads((folder / "config.json").read_text()) | layers
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedError, match="the model has 12"):
        install_drafter(folder, deep, tmp_path / "home")


def test_agreement_is_judged_beside_other_layers() -> None:
    HeadAgreement(30, 100, (1, 2, 3), (((0, 1, 2), 0.34), ((2, 3, 4), 0.1))).check("the head", "m")
    for found in (
        HeadAgreement(19, 100, (1, 2, 3)),
        HeadAgreement(50, 100, (1, 2, 3), (((0, 1, 2), 0.6),)),
    ):
        with pytest.raises(BadFileError, match="agrees with"):
            found.check("the head", "m")
