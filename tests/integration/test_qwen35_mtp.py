"""Tiny models of Qwen3.5 with their MTP layer: written by the export, and exact over recurrent states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.bundle.drafter_manifest import MTP, DrafterManifest
from edgedec.bundle.manifest import WEIGHTS
from edgedec.bundle.mtp_facts import GRAPH
from edgedec.core.errors import UnsupportedError
from edgedec.core.rows import Rows
from edgedec.export import export_gguf, export_huggingface
from tests.fixtures.opened import onnx_forward
from tests.fixtures.replies import SAMPLED, always, reply
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_huggingface import write_huggingface
from tests.fixtures.tiny_hybrid import DeltaShape
from tests.fixtures.tiny_models import prepared_run

SHAPE = TinyShape(layers=4, context=512, delta=DeltaShape(nextn=1))
MODEL = "qwen35"


@pytest.fixture(scope="module", params=["qwen35", "qwen35moe"])
def gguf(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp(request.param) / "tiny.gguf", request.param, shape=SHAPE)


@pytest.fixture(scope="module")
def bundle(gguf: Path) -> Path:
    export_gguf(gguf, gguf.parent / "bundle")
    return gguf.parent / "bundle"


def runner(bundle: Path, draft: str, **settings: object) -> Runner:
    config = RunConfig(**{"draft": draft, "threads": 1, "context": 256, **settings})  # type: ignore[arg-type]
    return Runner(prepared_run(bundle, config, RunContext(bundle.parent / "home")))


@pytest.mark.parametrize("stacked", [False, True])
def test_a_directory_makes_the_same_drafter(gguf: Path, bundle: Path, stacked: bool, tmp_path: Path) -> None:
    source = write_huggingface(tmp_path / "source", gguf, stacked=stacked)
    export_huggingface(source, tmp_path / "bundle", quant="q8_0")
    made = [DrafterManifest.load(one / "drafters" / MTP) for one in (bundle, tmp_path / "bundle")]
    assert made[0].files[WEIGHTS] == made[1].files[WEIGHTS]
    assert made[0].files[GRAPH] == made[1].files[GRAPH]


def test_a_prompt_longer_than_what_waits_is_read_in_step(bundle: Path) -> None:
    prompt = [index * 7 % 200 for index in range(220)]
    plain, drafted = runner(bundle, "off", context=300).engine, runner(bundle, "mtp", context=300).engine
    with always(drafted):
        assert reply(drafted, prompt, SAMPLED, 60) == reply(plain, prompt, SAMPLED, 60)
    assert drafted.speculation
    assert drafted.speculation.tally.drafted


def test_the_head_of_a_model_without_exits_can_be_trimmed(bundle: Path) -> None:
    forward = onnx_forward(bundle, drafting=True)
    assert forward.caps.exits == ()
    assert forward.caps.trims
    whole = forward.extend([5, 6, 7])
    forward.rewind(forward.reachable(0))
    keep = np.sort(whole.ids[0, 3:20]).astype(np.int64)
    found = forward.extend([5, 6, 7], rows=Rows(last=True, keep=keep))
    assert found.ids[0, : keep.size].tolist() == whole.ids[0, 3:20].tolist()


def test_a_checkpoint_without_the_layer_has_no_drafter(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", MODEL, shape=TinyShape(layers=4))
    export_gguf(path, tmp_path / "bundle")
    assert not (tmp_path / "bundle" / "drafters").exists()


def test_a_layer_with_a_table_of_its_own_is_refused_in_one_line(tmp_path: Path) -> None:
    table = np.zeros((369, SHAPE.hidden), np.float32)
    path = write_tiny(
        tmp_path / "tiny.gguf", MODEL, shape=SHAPE, extra_tensors={"blk.4.nextn.embed_tokens.weight": table}
    )
    with pytest.raises(UnsupportedError, match="a table of its own") as caught:
        export_gguf(path, tmp_path / "bundle", backend="edgedec")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "bundle").exists()
