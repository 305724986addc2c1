"""``edgedec draft export``, on models and drafters of random weights, and what reads its files."""

from __future__ import annotations

import json
from pathlib import Path

from edgedec.bundle.drafter_manifest import Target
from edgedec.bundle.manifest import Manifest
from edgedec.export import export_gguf
from edgedec.export.draft_head.bundle import export_head
from tests.cli.support import Home, assert_one_line, ran, run
from tests.fixtures.draft_heads import random_head
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import DeltaShape
from tests.fixtures.tiny_models import tiny_bundle


def test_the_command_writes_the_head_of_a_model(home: Home, tmp_path: Path) -> None:
    bundle = tiny_bundle(tmp_path)
    source, out = str(bundle.parent / "llama-0.gguf"), str(tmp_path / "out.gguf")
    arguments = ("draft", "export", "-m", str(bundle), "--from", source, "-o", out)
    assert_one_line(run(home.real(), *arguments), 3, "no drafting head belongs to", "edgedec draft train")
    target = Target.of(Manifest.load(bundle))
    head = random_head(64, target.vocab_size, ids=64)
    export_head(head, bundle, home.path / "drafters" / target.short_hash / "head")
    result = ran(home.real(), *arguments, "--json")
    assert json.loads(result.stdout)["bytes"] == Path(out).stat().st_size
    assert_one_line(run(home.real(), *arguments), 2, "exists", "name a new file")


def test_the_command_writes_the_mtp_layer_of_a_model(home: Home, tmp_path: Path) -> None:
    shape = TinyShape(layers=4, context=512, delta=DeltaShape(nextn=1))
    source, bundle = write_tiny(tmp_path / "tiny.gguf", "qwen35", shape=shape), tmp_path / "bundle"
    export_gguf(source, bundle)
    out = str(tmp_path / "mtp-tiny.gguf")
    arguments = ("draft", "export", "-m", str(bundle), "--from", str(source), "-o", out)
    result = ran(home.real(), *arguments)
    assert "the mtp of Tiny qwen35" in result.stdout
    target = Target.of(Manifest.load(bundle))
    export_head(
        random_head(64, target.vocab_size, ids=64),
        bundle,
        home.path / "drafters" / target.short_hash / "head",
    )
    Path(out).unlink()
    assert_one_line(run(home.real(), *arguments), 2, "several drafters", "head, mtp")
    result = run(home.real(), *arguments, "--json", "mtp")
    assert json.loads(result.stdout)["kind"] == "mtp"
    refused = run(home.real(), "draft", "import", out, "-m", str(bundle))
    assert_one_line(refused, 4, "the MTP layer agrees with", "made for another model")
    llama = str(tiny_bundle(tmp_path))
    refused = run(home.real(), "draft", "import", out, "-m", llama)
    assert_one_line(refused, 5, "architecture 'qwen35'", "the model's own checkpoint")
    refused = run(home.real(), "export", out, "-o", str(tmp_path / "no"))
    assert_one_line(refused, 5, "holds the MTP layer of a model alone", "as a drafter of its model")
