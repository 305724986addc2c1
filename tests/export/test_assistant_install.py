"""Installing an assistant: it has to agree with its target, which then drafts with it unnamed."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.bundle.drafter_manifest import ASSISTANT, DrafterManifest, Target
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.export.drafters.install import install_drafter
from edgedec.export.drafters.kinds import drafter_in
from tests.fixtures.assistants import (
    CLUSTERS,
    random_assistant,
    shape_for,
    target_with_rings,
    write_directory,
    write_gguf,
)
from tests.fixtures.tiny_models import tiny_bundle


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target, and an assistant for it in both kinds of file."""
    made = tmp_path_factory.mktemp("assistants")
    spec = Manifest.load(target_with_rings(made)).spec
    shape = shape_for(spec, centroids=CLUSTERS, chosen=32)
    arrays = random_assistant(shape)
    write_directory(made / "source", shape, arrays)
    write_gguf(made / "assistant.gguf", shape, arrays)
    return made


def place(home: Path, bundle: Path) -> Path:
    return home / "drafters" / Target.of(Manifest.load(bundle)).short_hash / ASSISTANT


@pytest.mark.parametrize("name", ["source", "assistant.gguf"])
def test_one_that_agrees_is_installed(folder: Path, tmp_path: Path, name: str) -> None:
    bundle = target_with_rings(folder)
    made = install_drafter(folder / name, bundle, tmp_path, facts={"licence": "MIT"}, least=0.0)
    assert made.facts["licence"] == "MIT"
    assert made.facts["tokens it was measured on"] > 50  # type: ignore[operator]
    assert DrafterManifest.load(place(tmp_path, bundle)).facts == made.facts


@pytest.mark.parametrize("name", ["source", "assistant.gguf"])
def test_one_that_agrees_too_seldom_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    bundle = target_with_rings(folder)
    with pytest.raises(BadFileError, match=r"agrees with \d+% of \d+ tokens that Tiny gemma3 wrote"):
        install_drafter(folder / name, bundle, tmp_path)
    assert not place(tmp_path, bundle).exists()


def test_other_files_are_no_assistants(folder: Path, tmp_path: Path) -> None:
    assert drafter_in(folder / "source") == ASSISTANT
    assert drafter_in(folder) is None
    assert drafter_in(folder / "gemma3.gguf") is None
    with pytest.raises(UnsupportedError, match="no layers of a kind"):
        install_drafter(folder / "source", tiny_bundle(tmp_path, "llama"), tmp_path / "home")
