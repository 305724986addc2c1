"""A model opened in Python is verified as one that a command opens: once for each state of its files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import edgedec
from edgedec.bundle.verification import FOLDER
from edgedec.models import Store

CONFIG = edgedec.RunConfig(threads=1, draft="off")


@pytest.fixture
def bundle(bundle: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return shutil.copytree(bundle, tmp_path / "model")


def opened(bundle: Path) -> edgedec.Model:
    return edgedec.open(bundle, CONFIG, store=Store(bundle.parent / "home"))


def damage(bundle: Path) -> None:
    with (bundle / "weights.bin").open("r+b") as stream:
        stream.seek(-1000, 2)
        stream.write(b"damaged" * 10)


def test_a_damaged_model_is_not_opened(bundle: Path) -> None:
    with opened(bundle):
        pass  # it passed once
    damage(bundle)
    for _ in range(2):
        with pytest.raises(edgedec.BadFileError, match=r"weights\.bin of the bundle fails its SHA-256"):
            opened(bundle)


def test_a_file_that_cannot_be_loaded_fails_with_its_hash(bundle: Path) -> None:
    path = bundle / "model.onnx"
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(edgedec.BadFileError, match=r"model\.onnx of the bundle fails its SHA-256"):
        opened(bundle)


def test_an_intact_model_is_hashed_once(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(bundle) as model:
        text = model.complete("Hi", max_tokens=2).read()
    assert len(list((bundle.parent / "home" / FOLDER).iterdir())) == 1
    monkeypatch.setattr("edgedec.bundle.verification._hashed", None)
    with opened(bundle) as model:
        assert model.complete("Hi", max_tokens=2).read() == text


def test_opening_shows_how_far_verification_is(bundle: Path) -> None:
    seen: list[str] = []
    store = Store(bundle.parent / "home")
    edgedec.open(bundle, CONFIG, store=store, progress=lambda stage, done, total: seen.append(stage)).close()
    assert set(seen) == {"verify"}
