"""Files of EAGLE-3 heads that are damaged or no heads: one line each."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.core.errors import BadFileError, EdgeDecError, NotFoundError, UnsupportedError
from edgedec.core.model_spec import ModelSpec
from edgedec.export.eagle3.pickled import read_pickled
from edgedec.export.eagle3.reading import is_head_directory, read_head_directory
from tests.fixtures.eagle3_heads import Eagle3, write_head

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")

VOCAB, KEPT = 300, 80
SPEC = ModelSpec("m", "llama", VOCAB, 12, 4, 2, 16, 64, 256)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_head(tmp_path / "head", "specforge", Eagle3(64, VOCAB, KEPT, {}))


def refused(folder: Path, kind: type[EdgeDecError], words: str, spec: ModelSpec = SPEC) -> None:
    with pytest.raises(kind, match=words) as caught:
        read_head_directory(folder, spec)
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300


def configured(folder: Path, **changes: Any) -> Path:
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def changed(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> Path:
    state = safetensors.load_file(folder / "model.safetensors")
    change(state)
    safetensors.save_file(state, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        (
            {"architectures": ["BertModel"], "draft_vocab_size": None},
            UnsupportedError,
            "not that of an EAGLE-3",
        ),
        ({"speculators_model_type": "dflash"}, UnsupportedError, "not that of an EAGLE-3"),
        ({"num_hidden_layers": 2}, UnsupportedError, "2 layers"),
        ({"hidden_act": "gelu"}, UnsupportedError, "activation 'gelu'"),
        ({"use_sliding_window": True, "sliding_window": 64}, UnsupportedError, "sliding window"),
        ({"partial_rotary_factor": 0.5}, UnsupportedError, "rotates a part"),
        ({"rope_scaling": {"type": "yarn", "factor": 2}}, UnsupportedError, "'yarn'"),
        ({"quantization_config": {}}, UnsupportedError, "quantised already"),
        ({"num_attention_heads": 0}, BadFileError, "num_attention_heads"),
        ({"num_key_value_heads": 3}, BadFileError, "sizes of the drafting head"),
        ({"intermediate_size": 64}, BadFileError, "ffn_gate of the drafting head has shape"),
        ({"rms_norm_eps": "small"}, BadFileError, "rms_norm_eps"),
        ({"rope_theta": -1}, BadFileError, "rope_theta"),
        ({"norm_before_residual": 3}, BadFileError, "norm_before_residual"),
        ({"fc_norm": True}, BadFileError, "lacks the norms before fc"),
        ({"eagle_aux_hidden_state_layer_ids": [2, 6]}, UnsupportedError, "three"),
        ({"eagle_aux_hidden_state_layer_ids": [0, 6, 9]}, UnsupportedError, "three"),
        ({"eagle_aux_hidden_state_layer_ids": [2, 6, 13]}, UnsupportedError, "model has 12"),
        ({"eagle_aux_hidden_state_layer_ids": "2,6,9"}, BadFileError, "not a list of layers"),
        ({"eagle_aux_hidden_state_layer_ids": [2, 6, 10**9]}, BadFileError, "not a list of layers"),
    ],
)
def test_configs_that_cannot_be(
    folder: Path, changes: dict[str, Any], kind: type[EdgeDecError], words: str
) -> None:
    refused(configured(folder, **changes), kind, words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s.update(d2t=s["d2t"] + VOCAB), "outside the 300"),
        (lambda s: s.update(d2t=s["d2t"] - VOCAB), "outside the 300"),
        (lambda s: s.update(d2t=torch.arange(KEPT, 0, -1)), "twice"),
        (lambda s: s.update(d2t=s["d2t"][:-1].clone()), "names 79 tokens"),
        (lambda s: s.update(d2t=s["d2t"].float()), "no list of whole numbers"),
        (lambda s: s.update(t2d=~s["t2d"]), "name different tokens"),
        (lambda s: s.pop("d2t"), "no d2t"),
        (lambda s: s.pop("fc.weight"), "lacks fc"),
        (lambda s: s.pop("midlayer.mlp.up_proj.weight"), "lacks ffn_up"),
        (lambda s: s.update({"fc.weight": s["fc.weight"][:, :-1].clone()}), "fc of the head has shape"),
        (lambda s: s.update({"norm.weight": s["norm.weight"][:-1].clone()}), "output_norm"),
        (lambda s: s.update({"norm.weight": s["norm.weight"] * torch.nan}), "not finite"),
        (lambda s: s.update({"layers.0.mlp.up_proj.weight": s["fc.weight"].clone()}), "stands beside"),
        (
            lambda s: s.update({"embed_tokens.weight": torch.zeros(VOCAB, 3)}),
            "embedding of the drafting head",
        ),
    ],
)
def test_tensors_that_do_not_fit(folder: Path, change: Callable[[Any], None], words: str) -> None:
    refused(changed(folder, change), BadFileError, words)


def test_a_tensor_that_no_head_has_is_refused(folder: Path) -> None:
    bias = {"midlayer.self_attn.q_proj.bias": torch.zeros(64)}
    refused(changed(folder, lambda state: state.update(bias)), UnsupportedError, "q_proj.bias")


def test_ids_in_another_order_are_sorted_with_their_rows(folder: Path) -> None:
    before = read_head_directory(folder, SPEC).weights

    def turned(state: dict[str, torch.Tensor]) -> None:
        ids = (state["d2t"] + torch.arange(KEPT)).flip(0)
        state["d2t"] = ids - torch.arange(KEPT)
        state["lm_head.weight"] = state["lm_head.weight"].flip(0).contiguous()

    after = read_head_directory(changed(folder, turned), SPEC).weights
    np.testing.assert_array_equal(after.keep, before.keep)
    np.testing.assert_array_equal(after.head, before.head)


def test_a_target_of_fewer_tokens_is_refused(folder: Path) -> None:
    refused(folder, BadFileError, "outside the 200 of m", replace(SPEC, vocab_size=200))


def test_folders_without_a_head(tmp_path: Path, folder: Path) -> None:
    assert not is_head_directory(tmp_path)
    assert not is_head_directory(tmp_path / "nothing")
    refused(tmp_path, NotFoundError, "has no config.json")
    for broken in ("", "[]", "{", "{}", '{"architectures": 3}'):
        (tmp_path / "config.json").write_text(broken)
        with pytest.raises(EdgeDecError):
            read_head_directory(tmp_path, SPEC)
    (folder / "model.safetensors").unlink()
    refused(folder, NotFoundError, "no model.safetensors")


@pytest.mark.parametrize("pickled", [False, True])
def test_files_that_are_cut_short(tmp_path: Path, pickled: bool) -> None:
    folder = write_head(tmp_path / "head", "authors", Eagle3(64, VOCAB, KEPT, {}), pickled=pickled)
    path = folder / ("pytorch_model.bin" if pickled else "model.safetensors")
    whole = path.read_bytes()
    for end in (0, 1, 7, 100, 5000, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        refused(folder, BadFileError, path.name)


class Evil:
    def __reduce__(self) -> Any:
        return eval, ("__import__('os').system('touch /tmp/never')",)


@pytest.mark.parametrize(
    "described",
    [
        pickle.dumps(Evil()),
        pickle.dumps({"fc.weight": Evil()}),
        b"",
        b"\x80\x02.",
        b"no pickle",
        pickle.dumps([1, 2]),
        pickle.dumps({"a": {"b": {"c": 1}}}),
    ],
)
def test_a_pickle_runs_nothing(tmp_path: Path, described: bytes) -> None:
    path = tmp_path / "pytorch_model.bin"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", described)
    with suppress(BadFileError, UnsupportedError):
        assert read_pickled(path) == {}
    assert not Path("/tmp/never").exists()


def test_storages_outside_the_file_are_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save({"fc.weight": torch.zeros(4, 4)}, buffer)
    with zipfile.ZipFile(buffer) as archive:
        members = {one.filename: archive.read(one) for one in archive.infolist()}
    path = tmp_path / "pytorch_model.bin"
    for how in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(path, "w", how) as archive:
            for name, data in members.items():
                short = name.endswith("data/0") and how == zipfile.ZIP_STORED
                archive.writestr(name, data[:-1] if short else data)
        with pytest.raises(BadFileError, match="lacks tensor"):
            read_pickled(path)
    torch.save({"fc.weight": torch.zeros(4, 4).T[1:]}, path)
    with pytest.raises(UnsupportedError, match="a view"):
        read_pickled(path)
