"""From a bundle to a model that answers: what does not belong together is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.runner import Runner
from edgedec.backends.onnx.model import MAX_PASS_TOKENS
from edgedec.backends.open import open_backend
from edgedec.bundle.manifest import TOKENIZER, FileEntry, Manifest
from edgedec.core.errors import BadFileError
from edgedec.core.forward import Forward
from edgedec.core.rows import HeadRows, Rows
from edgedec.decode.engine import LONGEST_PASS
from edgedec.export import export_gguf
from edgedec.loaded_model import load_model
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import prepared_run


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


def test_rings_have_room_for_the_passes_that_are_made_and_results_are_the_same(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    gguf = write_tiny(tmp_path / "tiny.gguf", architecture="gemma3", shape=TinyShape(context=1024))
    manifest = export_gguf(gguf, bundle)
    loaded = Runner(prepared_run(bundle, RunConfig(threads=1, draft="off"))).forward
    assert loaded.caps.max_pass == LONGEST_PASS
    longest = open_backend(bundle, manifest, threads=1).forward()
    assert longest.caps.max_pass == MAX_PASS_TOKENS
    assert loaded.nbytes()["kv_cache"] < 0.9 * longest.nbytes()["kv_cache"]
    tokens = [7 * place % manifest.spec.vocab_size for place in range(1000)]
    with pytest.raises(ValueError, match="128"):
        loaded.extend(tokens[:200])
    mine, theirs = fed(loaded, tokens), fed(longest, tokens)
    assert mine.logits is not None
    assert np.array_equal(mine.logits, theirs.logits)


def fed(forward: Forward, tokens: list[int]) -> HeadRows:
    """The head's results for the last token, after the longest passes."""
    most = forward.caps.max_pass
    passes = [tokens[start : start + most] for start in range(0, len(tokens), most)]
    return [forward.extend(some, rows=Rows(last=True, full=True)) for some in passes][-1]
