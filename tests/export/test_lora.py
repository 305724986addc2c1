"""Adapters as files: GGUF and PEFT, the scale of each, and those that are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from edgedec.core.errors import BadFileError, EdgeDecError, NotFoundError, UnsupportedError, UsageError
from edgedec.export import WithAdapters, export_gguf, export_huggingface
from edgedec.export.lora.pairs import split_scale
from edgedec.export.lora.reading import read_adapter
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_huggingface import write_huggingface
from tests.fixtures.tiny_lora import random_pairs, write_gguf_adapter, write_merged, write_peft
from tests.reference.graph import graph_logits
from tests.reference.model import reference_logits

TOKENS = [3, 9, 270, 41, 5, 5, 100, 17, 260, 33, 8]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model as ``m.gguf``, ``bundle``, ``source`` (a directory) and ``from-source``."""
    folder = tmp_path_factory.mktemp("model")
    gguf = write_tiny(folder / "m.gguf", "llama", formats="f32")
    export_gguf(gguf, folder / "bundle")
    write_huggingface(folder / "source", gguf)
    export_huggingface(folder / "source", folder / "from-source", quant="f32,head=f32")
    return folder


@pytest.mark.parametrize("bundle", ["bundle", "from-source"])
def test_a_directory_and_a_gguf_file_mean_the_same(model: Path, bundle: str, tmp_path: Path) -> None:
    """A GGUF file of this architecture has rows of q and k in another order than a directory."""
    pairs = random_pairs(model / "m.gguf")
    of_gguf = read_adapter(str(write_gguf_adapter(tmp_path / "a.gguf", pairs)), model / bundle)
    of_peft = read_adapter(str(write_peft(tmp_path / "a", pairs)), model / bundle)
    assert of_gguf.sha256 == of_peft.sha256
    assert of_gguf.changes.keys() == pairs.keys()
    assert (of_gguf.changes["blk.1.ffn_down.weight"].up == 2 * pairs["blk.1.ffn_down.weight"][1]).all()
    same = of_gguf.changes["blk.0.attn_q.weight"].up == 2 * pairs["blk.0.attn_q.weight"][1]
    assert same.all() == (bundle == "bundle")


def test_an_adapter_merged_by_the_export_is_the_merged_model(model: Path, tmp_path: Path) -> None:
    pairs = random_pairs(model / "m.gguf")
    adapter = write_peft(tmp_path / "a", pairs)
    out = tmp_path / "out"
    manifest = export_huggingface(
        WithAdapters(model / "source", [f"{adapter}:0.25"]), out, quant="f32,head=f32"
    )
    merged = write_merged(model / "m.gguf", pairs, 0.5, tmp_path / "merged.gguf")
    wanted = reference_logits(merged, TOKENS, dtype=np.float64)
    np.testing.assert_allclose(graph_logits(out, TOKENS), wanted, atol=1e-4)
    assert any(key.startswith("sha256 of the adapter a:0.25") for key in manifest.source)


@pytest.mark.parametrize(
    ("named", "path", "scale"),
    [
        ("a.gguf", "a.gguf", 1.0),
        ("a.gguf:0.5", "a.gguf", 0.5),
        ("a.gguf:-1", "a.gguf", -1.0),
        ("/x/y:0", "/x/y", 0.0),
        (r"C:\adapters\a.gguf", r"C:\adapters\a.gguf", 1.0),
        (r"C:\adapters\a.gguf:2", r"C:\adapters\a.gguf", 2.0),
        ("a:b", "a:b", 1.0),
    ],
)
def test_a_scale_stands_behind_a_colon(named: str, path: str, scale: float) -> None:
    assert split_scale(named) == (Path(path), scale)


@pytest.mark.parametrize("text", ["nan", "inf", "1e9"])
def test_scales_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="is no scale of an adapter"):
        split_scale(f"a.gguf:{text}")


def test_a_file_with_a_colon_in_its_name_is_a_file(model: Path, tmp_path: Path) -> None:
    path = write_gguf_adapter(tmp_path / "a:2", random_pairs(model / "m.gguf"))
    assert read_adapter(str(path), model / "bundle").name == "a:2"


def test_a_scale_of_zero_leaves_the_model_as_it_is(model: Path, tmp_path: Path) -> None:
    path = write_gguf_adapter(tmp_path / "a.gguf", random_pairs(model / "m.gguf"))
    assert not read_adapter(f"{path}:0", model / "bundle").changes


def test_alphas_of_peft(model: Path, tmp_path: Path) -> None:
    pairs = {"blk.0.ffn_up.weight": random_pairs(model / "m.gguf", rank=4)["blk.0.ffn_up.weight"]}

    def up(**settings: Any) -> float:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        adapter = read_adapter(str(write_peft(folder, pairs, **settings)), model / "bundle")
        found = adapter.changes["blk.0.ffn_up.weight"].up / pairs["blk.0.ffn_up.weight"][1]
        assert np.ptp(found) < 1e-6
        return float(found[0, 0])

    assert up(lora_alpha=16) == pytest.approx(4.0)
    assert up(lora_alpha=16, use_rslora=True) == pytest.approx(8.0)
    assert up(lora_alpha=16, alpha_pattern={"up_proj": 2}) == pytest.approx(0.5)
    assert up(lora_alpha=16, alpha_pattern={r"layers\.0\.mlp\..*": 8}) == pytest.approx(2.0)
    assert up(lora_alpha=16, alpha_pattern={"down_proj": 2, "(": 1}) == pytest.approx(4.0)


SETTINGS: dict[str, dict[str, Any]] = {
    "scales whole matrices": {"use_dora": True},
    "has biases": {"lora_bias": True},
    "replaces whole layers": {"modules_to_save": ["lm_head"]},
    "changes biases": {"bias": "all"},
    "of the kind LOHA": {"peft_type": "LOHA"},
    "a base model that its training changed": {"init_lora_weights": "pissa_niter_4"},
    "waits for its own tokens": {"alora_invocation_tokens": [1, 2]},
}


@pytest.mark.parametrize("words", SETTINGS)
def test_adapters_that_do_more_are_refused(words: str, model: Path, tmp_path: Path) -> None:
    folder = write_peft(tmp_path / "a", random_pairs(model / "m.gguf"), **SETTINGS[words])
    with pytest.raises(UnsupportedError, match=words):
        read_adapter(str(folder), model / "bundle")


def _tensors(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "adapter_model.safetensors"
        arrays = load_file(path)
        change(arrays)
        save_file(arrays, path)

    return apply


def _text(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text, encoding="utf-8")


_DOWN = "base_model.model.model.layers.0.mlp.down_proj.lora_A.weight"
_HEAD = {"base_model.model.lm_head.weight": np.ones((2, 2), np.float32)}
_CONFIG, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
DAMAGE: dict[str, tuple[type[EdgeDecError], Callable[[Path], object]]] = {
    "one of two matrices": (BadFileError, _tensors(lambda arrays: arrays.pop(_DOWN))),
    "no common rank": (
        BadFileError,
        _tensors(lambda arrays: arrays.update({_DOWN: arrays[_DOWN][:2].copy()})),
    ),
    "by more than a product of two matrices": (
        UnsupportedError,
        _tensors(lambda arrays: arrays.update(_HEAD)),
    ),
    "no matrices of an adapter": (BadFileError, _tensors(lambda arrays: arrays.clear())),
    "not finite": (BadFileError, _tensors(lambda arrays: arrays[_DOWN].fill(np.inf))),
    "has no adapter_config.json": (NotFoundError, lambda folder: (folder / _CONFIG).unlink()),
    "adapter_config.json": (BadFileError, _text(_CONFIG, "[]")),
    "lora_alpha of the adapter .* is no number": (
        BadFileError,
        _text(_CONFIG, json.dumps({"peft_type": "LORA", "lora_alpha": "much"})),
    ),
    "truncated or damaged": (BadFileError, _text(_WEIGHTS, "\x10\0\0\0\0\0\0\0{")),
}


@pytest.mark.parametrize("words", DAMAGE)
def test_damaged_directories(words: str, model: Path, tmp_path: Path) -> None:
    folder = write_peft(tmp_path / "a", random_pairs(model / "m.gguf"))
    kind, change = DAMAGE[words]
    change(folder)
    with pytest.raises(kind, match=words):
        read_adapter(str(folder), model / "bundle")


def test_files_that_are_no_adapter_of_this_model(model: Path, tmp_path: Path) -> None:
    def refused(kind: type[EdgeDecError], words: str, path: Path) -> None:
        with pytest.raises(kind, match=words):
            read_adapter(str(path), model / "bundle")

    pairs = random_pairs(model / "m.gguf")
    refused(UnsupportedError, "is no adapter", model / "m.gguf")
    other = write_gguf_adapter(tmp_path / "q", pairs, "qwen2")
    refused(UnsupportedError, "of the kind qwen2, and this is llama", other)
    refused(NotFoundError, "there is no adapter", tmp_path / "none.gguf")
    refused(NotFoundError, "has no adapter_config.json", tmp_path)
    (tmp_path / "cut").write_bytes((tmp_path / "q").read_bytes()[:200])
    refused(BadFileError, "cut", tmp_path / "cut")
    vectors = {"blk.0.attn_norm.weight": (np.ones((2, 64), np.float32), np.ones((64, 2), np.float32))}
    folder = write_peft(tmp_path / "n", {**pairs, **vectors})
    with pytest.raises(UnsupportedError, match="which the model lacks or has in another size"):
        export_huggingface(WithAdapters(model / "source", [str(folder)]), tmp_path / "out", quant="f32")
    assert not (tmp_path / "out").exists()
