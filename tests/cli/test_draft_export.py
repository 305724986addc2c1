"""``edgedec draft export``, on a model and a head of random weights."""

from __future__ import annotations

import json
from pathlib import Path

from edgedec.core.drafter_manifest import Target
from edgedec.core.manifest import Manifest
from edgedec.export.draft_head.bundle import export_head
from tests.cli.support import Home, assert_one_line, run
from tests.cli.test_generate_batch import real
from tests.fixtures.draft_heads import random_head
from tests.fixtures.tiny_models import tiny_bundle


def test_the_command_writes_the_head_of_a_model(home: Home, tmp_path: Path) -> None:
    bundle = tiny_bundle(tmp_path)
    source, out = str(bundle.parent / "llama-0.gguf"), str(tmp_path / "out.gguf")
    arguments = ("draft", "export", "-m", str(bundle), "--from", source, "-o", out)
    assert_one_line(run(real(home), *arguments), 3, "no drafting head belongs to", "edgedec draft train")
    target = Target.of(Manifest.load(bundle))
    head = random_head(64, target.vocab_size, ids=64)
    export_head(head, bundle, home.path / "drafters" / target.short_hash / "head")
    result = run(real(home), *arguments, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["bytes"] == Path(out).stat().st_size
    assert_one_line(run(real(home), *arguments), 2, "exists", "name a new file")
