"""MTP layers in GGUF files of their own: written as llama.cpp's converter does, and read again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.bundle.drafter_manifest import MTP, DrafterManifest, Target
from edgedec.bundle.manifest import WEIGHTS, Manifest
from edgedec.bundle.mtp_facts import GRAPH
from edgedec.core.errors import BadFileError, EdgeDecError, UnsupportedError
from edgedec.export import export_gguf, export_huggingface
from edgedec.export.drafters.gguf import write_drafter_gguf
from edgedec.export.drafters.install import install_drafter
from edgedec.export.gguf_source import open_gguf
from tests.fixtures.mtp_layers import without_layer
from tests.fixtures.replies import GREEDY, PROMPT, SAMPLED, always, reply
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_huggingface import write_huggingface
from tests.fixtures.tiny_hybrid import DeltaShape
from tests.fixtures.tiny_models import prepared_run

SHAPE = TinyShape(layers=4, context=512, delta=DeltaShape(nextn=1))
MODEL = "qwen35"
MIXED = {
    "*": "q8_0",
    "attn_q": "q4_0",
    "attn_k": "q5_1",
    "eh_proj": "f16",
    "ffn_down": "bf16",
    "ffn_down_exps": "q5_0",
}


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with its layer; beside it its bundle, and the layer alone."""
    folder = tmp_path_factory.mktemp("qwen35")
    path = write_tiny(folder / "tiny.gguf", MODEL, shape=SHAPE)
    export_gguf(path, folder / "bundle")
    written(folder / "bundle", path, folder / "mtp-tiny.gguf")
    return path


def written(bundle: Path, source: Path, out: Path) -> Path:
    write_drafter_gguf(out, bundle / "drafters" / MTP, Manifest.load(bundle), source, name="its layer")
    return out


@pytest.mark.parametrize("model", [MODEL, "qwen35moe"])
@pytest.mark.parametrize("formats", ["q8_0", "q4_1", "f32", MIXED], ids=str)
def test_the_file_has_the_bytes_of_the_models_own(
    tmp_path: Path, model: str, formats: str | dict[str, str]
) -> None:
    source = write_tiny(tmp_path / "tiny.gguf", model, shape=SHAPE, formats=formats, tied=False)
    export_gguf(source, tmp_path / "bundle")
    out = written(tmp_path / "bundle", source, tmp_path / "mtp.gguf")
    with open_gguf(source) as whole, open_gguf(out) as alone:
        shared = {"token_embd.weight", "output.weight", "output_norm.weight"}
        assert alone.tensors.keys() == shared | {name for name in whole.tensors if name.startswith("blk.4.")}
        for name, found in alone.tensors.items():
            tensor = whole.tensors[name]
            assert (found.type, found.shape) == (tensor.type, tensor.shape)
            parts = [one.rows(each, 0, each.shape[0]) for one, each in ((whole, tensor), (alone, found))]
            assert np.array_equal(*parts), name
        assert alone.metadata == whole.metadata | {"general.name": "its layer"}


def test_a_model_without_the_layer_gets_it_from_the_file(gguf: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    export_gguf(without_layer(gguf, tmp_path / "plain.gguf"), bundle)
    assert not (bundle / "drafters").exists()
    licence = {"licence": "MIT"}
    made = install_drafter(gguf.parent / "mtp-tiny.gguf", bundle, tmp_path, facts=licence, least=0.0)
    assert made.facts["tokens it was measured on"] > 50  # type: ignore[operator]
    folder = tmp_path / "drafters" / Target.of(Manifest.load(bundle)).short_hash / MTP
    assert DrafterManifest.load(folder).facts == made.facts
    within = DrafterManifest.load(gguf.parent / "bundle" / "drafters" / MTP)
    directory = write_huggingface(tmp_path / "source", gguf)
    export_huggingface(directory, tmp_path / "other", quant="q8_0")
    for other in (within, DrafterManifest.load(tmp_path / "other" / "drafters" / MTP)):
        assert {name: made.files[name] for name in (WEIGHTS, GRAPH)} == other.files
    again = tmp_path / "again.gguf"
    write_drafter_gguf(again, folder, Manifest.load(bundle), tmp_path / "plain.gguf", name="its layer")
    assert contents(again) == contents(gguf.parent / "mtp-tiny.gguf")
    from_safetensors = written(tmp_path / "other", tmp_path / "plain.gguf", tmp_path / "other.gguf")
    assert contents(from_safetensors) == contents(again)


def contents(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Metadata, and the bytes of each tensor."""
    with open_gguf(path) as gguf:
        tensors = {name: gguf.rows(one, 0, one.shape[0]).tobytes() for name, one in gguf.tensors.items()}
        return gguf.metadata, tensors


def test_replies_with_it_are_those_without_drafts(gguf: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    export_gguf(without_layer(gguf, tmp_path / "plain.gguf"), bundle)
    install_drafter(gguf.parent / "mtp-tiny.gguf", bundle, tmp_path / "home", least=0.0)

    def engine(draft: str) -> Runner:
        config = RunConfig(draft=draft, threads=1, context=256)
        return Runner(prepared_run(bundle, config, RunContext(tmp_path / "home")))

    plain, drafted = engine("off").engine, engine("mtp").engine
    with always(drafted):
        for params in (GREEDY, SAMPLED):
            assert reply(drafted, PROMPT, params) == reply(plain, PROMPT, params)
    assert drafted.speculation
    assert drafted.speculation.tally.drafted > 50


def test_one_that_agrees_too_seldom_is_refused(gguf: Path, tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match=r"agrees with \d+% of \d+ tokens that Tiny qwen35 wrote"):
        install_drafter(gguf.parent / "mtp-tiny.gguf", gguf.parent / "bundle", tmp_path)
    assert not (tmp_path / "drafters").exists() or not list((tmp_path / "drafters").rglob("*.json"))


def other_weights(folder: Path, _: Path) -> Path:
    return write_tiny(folder / "other.gguf", MODEL, shape=SHAPE, seed=1)


def other_layers(folder: Path, _: Path) -> Path:
    return write_tiny(folder / "other.gguf", MODEL, shape=replace(SHAPE, layers=5))


def other_width(folder: Path, _: Path) -> Path:
    return write_tiny(folder / "other.gguf", MODEL, shape=replace(SHAPE, hidden=96))


def no_layer(folder: Path, gguf: Path) -> Path:
    return without_layer(gguf, folder / "other.gguf", stated=True)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (other_weights, "other.gguf has another embedding than Tiny qwen35"),
        (other_layers, "for a model of 5 layers of 64 numbers, and Tiny qwen35 has 4 of 64"),
        (other_width, "for a model of 4 layers of 96 numbers"),
        (no_layer, "architecture 'qwen35', not an EAGLE-3 head"),
    ],
)
def test_files_of_other_models_are_refused_in_a_line(
    gguf: Path, tmp_path: Path, make: Callable[[Path, Path], Path], words: str
) -> None:
    with pytest.raises(UnsupportedError, match=words) as caught:
        install_drafter(make(tmp_path, gguf), gguf.parent / "bundle", tmp_path)
    assert caught.value.hint
    assert "\n" not in str(caught.value)


def test_a_layer_for_a_model_of_another_architecture_is_refused(gguf: Path, tmp_path: Path) -> None:
    source = write_tiny(tmp_path / "llama.gguf")
    export_gguf(source, tmp_path / "llama")
    with pytest.raises(UnsupportedError, match="architecture 'qwen35', and Tiny llama is of 'llama'"):
        install_drafter(gguf.parent / "mtp-tiny.gguf", tmp_path / "llama", tmp_path)
    with pytest.raises(BadFileError, match="is not the model that the layer drafts for"):
        written(gguf.parent / "bundle", source, tmp_path / "out.gguf")
    assert not (tmp_path / "out.gguf").exists()


@pytest.mark.parametrize("backend", [None, "edgedec", "llama.cpp"])
def test_the_file_is_no_model(gguf: Path, tmp_path: Path, backend: str | None) -> None:
    with pytest.raises(UnsupportedError, match="holds the MTP layer of a model alone") as caught:
        export_gguf(gguf.parent / "mtp-tiny.gguf", tmp_path / "out", backend=backend)
    assert caught.value.hint == "import it as a drafter of its model"


def test_a_damaged_file_and_a_damaged_layer_are_refused(gguf: Path, tmp_path: Path) -> None:
    whole, bundle = (gguf.parent / "mtp-tiny.gguf").read_bytes(), gguf.parent / "bundle"
    path = tmp_path / "mtp.gguf"
    for end in (0, 20, 400, len(whole) // 2, len(whole) - 2000):
        path.write_bytes(whole[:end])
        with pytest.raises(EdgeDecError):
            install_drafter(path, bundle, tmp_path)
    path.write_bytes(whole.replace(b"blk.4.nextn.enorm.weight", b"blk.4.nextn.xnorm.weight"))
    with pytest.raises(BadFileError, match=r"lacks tensor blk\.4\.nextn\.enorm\.weight|blk\.0\.nextn\.enorm"):
        install_drafter(path, bundle, tmp_path)
