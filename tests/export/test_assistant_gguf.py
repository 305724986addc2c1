"""Assistants as GGUF files of llama.cpp's architecture gemma4-assistant: written, and read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgedec.bundle.drafter_manifest import ASSISTANT, DrafterManifest, Target
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.export import export_gguf
from edgedec.export.drafters.gguf import write_drafter_gguf
from edgedec.export.drafters.install import convert_drafter
from edgedec.export.drafters.kinds import drafter_in
from edgedec.export.gguf_source import open_gguf
from tests.export.test_mtp_gguf import contents
from tests.fixtures.assistants import (
    CLUSTERS,
    Arrays,
    AssistantShape,
    random_assistant,
    shape_for,
    target_with_rings,
    write_directory,
)
from tests.fixtures.tiny_gguf import write_tiny

TARGETS = ("gemma3", "gemma4")
Made = tuple[Path, AssistantShape, Arrays]


@pytest.fixture(scope="module", params=TARGETS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A target, and an assistant with clusters of its vocabulary."""
    bundle = target_with_rings(tmp_path_factory.mktemp("assistants"), request.param)
    shape = shape_for(Manifest.load(bundle).spec, centroids=CLUSTERS, chosen=32, hidden=32)
    return bundle, shape, random_assistant(shape)


def written(bundle: Path, folder: Path, out: Path) -> Path:
    write_drafter_gguf(out, folder, Manifest.load(bundle), source_of(bundle), name="an assistant")
    return out


def source_of(bundle: Path) -> Path:
    return bundle.parent / f"{bundle.name}.gguf"


def installed(made: Made, folder: Path, *, clusters: bool = True, quant: str = "q8_0") -> Path:
    bundle, shape, arrays = made
    if not clusters:
        shape = replace(shape, centroids=0)
        arrays = {name: one for name, one in arrays.items() if not name.startswith("masked")}
    write_directory(folder / "source", shape, arrays)
    convert_drafter(folder / "source", bundle, folder / "drafter", quant=quant)
    return folder / "drafter"


@pytest.mark.parametrize("quant", ["q8_0", "q4_0", "f16"])
def test_the_file_makes_the_bits_that_safetensors_make(made: Made, tmp_path: Path, quant: str) -> None:
    bundle, folder = made[0], installed(made, tmp_path, clusters=False, quant=quant)
    out = written(bundle, folder, tmp_path / "assistant.gguf")
    assert drafter_in(out) == ASSISTANT
    again = convert_drafter(out, bundle, tmp_path / "again")
    assert again == DrafterManifest.load(folder)
    assert contents(written(bundle, tmp_path / "again", tmp_path / "again.gguf")) == contents(out)


def test_clusters_are_left_out(made: Made, tmp_path: Path) -> None:
    """llama.cpp scores the whole vocabulary, and refuses a file that has clusters."""
    (tmp_path / "plain").mkdir()
    folder, plain = installed(made, tmp_path), installed(made, tmp_path / "plain", clusters=False)
    found = [written(made[0], one, tmp_path / f"{one.parent.name}.gguf") for one in (folder, plain)]
    assert contents(found[0]) == contents(found[1])
    with open_gguf(found[0]) as gguf:
        table = gguf.tensors["token_embd.weight"]
        rows = gguf.rows(table, 0, table.shape[0])
        assert gguf.metadata["gemma4-assistant.rope.freq_base"] == 1e6
        assert gguf.metadata["gemma4-assistant.rope.freq_base_swa"] == 1e4
        assert gguf.metadata["gemma4-assistant.nextn_predict_layers"] == 4
    scales = rows.reshape(len(rows), -1, 34)[..., :2].copy().view(np.float16).astype(np.float32)
    values = rows.reshape(len(rows), -1, 34)[..., 2:].view(np.int8) * scales
    assert np.array_equal(values.reshape(len(rows), -1), made[2]["model.embed_tokens.weight"])


def test_another_file_than_the_models_is_refused(made: Made, tmp_path: Path) -> None:
    bundle, folder = made[0], installed(made, tmp_path)
    other, out = write_tiny(tmp_path / "other.gguf"), tmp_path / "out.gguf"
    with pytest.raises(BadFileError, match="is not the model that the assistant drafts for"):
        write_drafter_gguf(out, folder, Manifest.load(bundle), other, name="an assistant")
    export_gguf(other, tmp_path / "other")
    with pytest.raises(BadFileError, match="belongs to"):
        write_drafter_gguf(out, folder, Manifest.load(tmp_path / "other"), other, name="an assistant")
    graph = folder / "assistant.onnx"
    manifest = DrafterManifest.load(folder)
    graph.write_bytes(graph.read_bytes()[:-50])
    with pytest.raises(BadFileError):
        written(bundle, folder, out)
    assert Target.of(Manifest.load(bundle)) == manifest.target
    assert not out.exists()


def test_one_as_wide_as_its_model_is_refused(made: Made, tmp_path: Path) -> None:
    bundle = made[0]
    shape = shape_for(Manifest.load(bundle).spec)
    write_directory(tmp_path / "source", shape, random_assistant(shape))
    convert_drafter(tmp_path / "source", bundle, tmp_path / "drafter")
    with pytest.raises(UnsupportedError, match="no assistants as wide as their model"):
        written(bundle, tmp_path / "drafter", tmp_path / "out.gguf")


def test_the_file_is_no_model(made: Made, tmp_path: Path) -> None:
    out = written(made[0], installed(made, tmp_path), tmp_path / "assistant.gguf")
    for backend in (None, "edgedec", "llama.cpp"):
        with pytest.raises(UnsupportedError, match=r"assistant\.gguf holds an assistant, which is no model"):
            export_gguf(out, tmp_path / "out", backend=backend)
