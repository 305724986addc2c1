"""From a bundle to a model that answers: what does not belong together is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.core.errors import BadFileError
from edgedec.core.manifest import TOKENIZER, FileEntry, Manifest
from edgedec.export import export_gguf
from edgedec.session.assemble import load_model
from tests.fixtures.tiny_gguf import write_tiny


def test_a_tokenizer_of_a_larger_model_is_refused(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    manifest = export_gguf(write_tiny(tmp_path / "tiny.gguf"), bundle)
    assert load_model(bundle).tokenizer.size == manifest.spec.vocab_size
    path = bundle / TOKENIZER
    document = json.loads(path.read_text(encoding="utf-8"))
    document["model"]["vocab"]["one more"] = manifest.spec.vocab_size
    path.write_text(json.dumps(document), encoding="utf-8")
    files = {**manifest.files, TOKENIZER: FileEntry(path.stat().st_size, "0" * 64)}
    replace(manifest, files=files).save(bundle)
    assert Manifest.load(bundle).files == files
    with pytest.raises(BadFileError, match=r"tokenizer has .* tokens, and its model"):
        load_model(bundle)
